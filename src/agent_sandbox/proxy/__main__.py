"""`python -P -m agent_sandbox.proxy run|status|reload|denials|verify|learn|watch|log|secret|health`."""

import argparse
import json
import logging
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from agent_sandbox.printable import printable_lines
from agent_sandbox.problems import UserError
from agent_sandbox.proxy.control.client import ask
from agent_sandbox.proxy.net.address import parse_address

OK, FAILED = 0, 1
FOLLOW_SECONDS = 0.2
ENTRANCES = {
    "tls": "transparent proxy for TLS; takes the host from the SNI",
    "http": "transparent proxy for plain HTTP; takes the host from the Host header",
    "dns": "DNS server that leads clients to the transparent proxy",
}

Command = Callable[[argparse.Namespace], int]
type Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - it has no public name


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = _parser().parse_args(argv)
    try:
        code: int = options.command(options)
    except UserError as error:
        for problem in error.problems:
            sys.stderr.write(f"{printable_lines(str(problem))}\n")
        return FAILED
    return code


def run_command(options: argparse.Namespace) -> int:
    """Run the proxy until it is stopped."""
    # No installed pydantic plugin may influence how a policy is read.
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    # SIGHUP reloads the policy; until the handler is set, it must not end the process.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # The other commands run every few seconds and need neither asyncio nor mitmproxy.
    from agent_sandbox.proxy.run import serve  # noqa: PLC0415

    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    os.umask(0o022)
    serve(options, tuple(ENTRANCES))
    return OK


def status_command(options: argparse.Namespace) -> int:
    """Print the status, with the last denials if it was asked for any."""
    answer = ask(options.control, {"verb": "status"})
    if options.denials:
        answer |= ask(options.control, {"verb": "denials", "count": options.denials})
    sys.stdout.write(json.dumps(answer) + "\n")
    return OK


def reload_command(options: argparse.Namespace) -> int:
    """Reload the policy; return 1 if it has problems and the last valid one stays in force."""
    return OK if _ask(options, {"verb": "reload"}).get("ok") is True else FAILED


def denials_command(options: argparse.Namespace) -> int:
    """Print the last denials."""
    _ask(options, {"verb": "denials", "count": options.count})
    return OK


def verify_command(options: argparse.Namespace) -> int:
    """Announce that denials come from a verification."""
    _ask(options, {"verb": "verify", "seconds": options.seconds})
    return OK


def learn_command(options: argparse.Namespace) -> int:
    """Allow what no rule denies for some time, or end that with 0; return 1 if it was not done."""
    return OK if _ask(options, {"verb": "learn", "seconds": options.seconds, "who": options.who}).get("ok") else FAILED


def watch_command(options: argparse.Namespace) -> int:
    """Copy what the proxy reports to stdout, and answers from stdin to the proxy, until one of them ends."""
    from agent_sandbox.proxy.control.bridge import bridge  # noqa: PLC0415 - as above

    bridge(options.control, {"verb": "subscribe", "answers": options.answers, "asks": options.asks})
    return OK


def log_command(options: argparse.Namespace) -> int:
    """Print the audit log."""
    from agent_sandbox.proxy.audit.reader import show, wanted  # noqa: PLC0415 - as above

    def wait() -> bool:
        # `watch` keeps our stdin open. Its end is the only sign that the client of this exec has ended.
        return options.follow and not select.select([sys.stdin], [], [], FOLLOW_SECONDS)[0]

    def write(data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    show(options.file, write, wanted=wanted(denied=options.denied), tail=options.tail, wait=wait)
    return OK


def health_command(options: argparse.Namespace) -> int:
    """Print all health problems; return 1 if there are any."""
    from agent_sandbox.proxy.control.health import sickness  # noqa: PLC0415 - as above

    wrong = sickness(options.control, parse_address(options.proxy, option="--proxy"))
    for symptom in wrong:
        sys.stderr.write(f"{printable_lines(symptom)}\n")
    return FAILED if wrong else OK


def secret_set_command(options: argparse.Namespace) -> int:
    """Store the content of stdin as a secret."""
    from agent_sandbox.proxy.secrets.store import (  # noqa: PLC0415 - as above
        LONGEST,
        put_secret,
        put_sourced,
        put_unresolved,
        uptime,
    )

    if options.login:
        return _set_login(options)
    folder, name, hosts = options.folder, options.name, options.host
    if options.unresolved:
        put_unresolved(folder, name, hosts)
        return OK
    value = sys.stdin.buffer.read(LONGEST + 3)
    if options.source:
        until = None if options.ttl is None else uptime() + options.ttl
        put_sourced(folder, name, hosts, value, source=options.source, until=until)
    else:
        put_secret(folder, name, hosts, value)
    return OK


def _set_login(options: argparse.Namespace) -> int:
    """Store the login on stdin, and print its placeholders."""
    from agent_sandbox.proxy.secrets.login import placeholders_of, put_login  # noqa: PLC0415 - as above
    from agent_sandbox.proxy.secrets.placeholder import key_beside, load_placeholders  # noqa: PLC0415 - as above
    from agent_sandbox.proxy.secrets.store import LONGEST  # noqa: PLC0415 - as above

    login = put_login(options.folder, options.name, options.host, sys.stdin.buffer.read(2 * LONGEST))
    placeholders = load_placeholders(key_beside(options.folder))
    sys.stdout.write(json.dumps(placeholders_of(login, placeholders)) + "\n")
    return OK


def secret_list_command(options: argparse.Namespace) -> int:
    """Print all secrets with their hosts and uses, without values."""
    from agent_sandbox.proxy.secrets.store import as_row, listed  # noqa: PLC0415 - as above
    from agent_sandbox.proxy.secrets.uses import Used, read_uses, uses_file  # noqa: PLC0415 - as above

    uses = read_uses(uses_file(options.folder))
    rows = [{**as_row(one), **uses.get(one.name, Used())._asdict()} for one in listed(options.folder)]
    sys.stdout.write(json.dumps(rows) + "\n")
    return OK


def secret_remove_command(options: argparse.Namespace) -> int:
    """Remove a secret."""
    from agent_sandbox.proxy.secrets.store import remove_secret  # noqa: PLC0415 - as above

    remove_secret(options.folder, options.name)
    return OK


def _ask(options: argparse.Namespace, question: dict[str, object]) -> dict[str, object]:
    answer = ask(options.control, question)
    sys.stdout.write(json.dumps(answer) + "\n")
    return answer


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -P -m agent_sandbox.proxy", allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="serve in the foreground", allow_abbrev=False)
    run.set_defaults(command=run_command)
    run.add_argument("--policy", type=Path, required=True, metavar="FILE")
    run.add_argument("--policy-name", default="", metavar="NAME", help="the file name to show in messages")
    run.add_argument(
        "--layer", action="append", default=[], metavar="NAME=FILE", help="another policy file; may be absent"
    )
    run.add_argument("--listen", required=True, metavar="ADDR:PORT")
    for name, text in ENTRANCES.items():
        run.add_argument(f"--{name}", metavar="ADDR:PORT", help=text)
    run.add_argument("--state", type=Path, required=True, metavar="DIR")
    run.add_argument("--upstream-ca", type=Path, metavar="PEM", help="CA certificates to trust in addition")
    run.add_argument("--resolve", action="append", default=[], metavar="HOST:PORT:ADDR:PORT", help="for tests")
    status = _asking(commands, "status", status_command, "print the proxy's status")
    status.add_argument("--denials", type=int, default=0, metavar="N", help="also list the last N denials")
    _asking(commands, "reload", reload_command, "reload the policy; exit 1 if it has problems")
    denials = _asking(commands, "denials", denials_command, "list the last denials")
    denials.add_argument("--count", type=int, default=20)
    verifying = _asking(commands, "verify", verify_command, "count the next denials as those of a verification")
    verifying.add_argument("--seconds", type=int, required=True, metavar="N", help="for so long; 0 ends it")
    learning = _asking(commands, "learn", learn_command, "allow what no rule denies, for a while")
    learning.add_argument("--seconds", type=int, required=True, metavar="N", help="for so long; 0 ends it")
    learning.add_argument("--who", default="", metavar="NAME", help="who asked for it")
    watching = _asking(commands, "watch", watch_command, "report decisions and questions, until stdin is closed")
    watching.add_argument("--answers", action="store_true", help="stdin answers questions: one JSON object per line")
    watching.add_argument("--asks", action="store_true", help="ask about unlisted hosts even without settings.ask")
    log = commands.add_parser("log", help="print the audit log", allow_abbrev=False)
    log.set_defaults(command=log_command)
    log.add_argument("--file", type=Path, required=True, metavar="FILE")
    log.add_argument("--tail", type=int, metavar="N", help="print only the last N records")
    log.add_argument("--denied", action="store_true", help="print only denials")
    log.add_argument("--follow", action="store_true", help="also print new records, until stdin is closed")
    _keeping_secrets(commands)
    health = _asking(commands, "health", health_command, "exit 0 if the proxy is healthy")
    health.add_argument("--proxy", required=True, metavar="ADDR:PORT")
    return parser


def _keeping_secrets(commands: Commands) -> None:
    secret = commands.add_parser("secret", help="manage secrets", allow_abbrev=False)
    verbs = secret.add_subparsers(required=True, metavar="COMMAND")
    put = verbs.add_parser("set", help="store a secret, read from stdin", allow_abbrev=False)
    put.add_argument("--host", action="append", default=[], metavar="HOST", help="a host that it may be sent to")
    put.add_argument("--source", metavar="KIND", help="keep the value in memory, not in the volume; where it is from")
    put.add_argument("--ttl", type=float, metavar="SECONDS", help="do not use it for longer")
    put.add_argument("--login", action="store_true", help="read a login, as JSON, and print its placeholders")
    put.add_argument("--unresolved", action="store_true", help="record that there is no value now")
    for verb, command in (
        (put, secret_set_command),
        (verbs.add_parser("list", help="list secrets, without values", allow_abbrev=False), secret_list_command),
        (verbs.add_parser("remove", help="remove a secret", allow_abbrev=False), secret_remove_command),
    ):
        verb.set_defaults(command=command)
        verb.add_argument("--folder", type=Path, required=True, metavar="DIR")
        if command is not secret_list_command:
            verb.add_argument("name", metavar="NAME")


def _asking(commands: Commands, name: str, command: Command, summary: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=summary, allow_abbrev=False)
    parser.set_defaults(command=command)
    parser.add_argument("--control", type=Path, required=True, metavar="SOCK")
    return parser


def leave(code: int) -> NoReturn:
    """Exit at once. Everything is closed by now, and unloading modules would take a fifth of a restart."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    leave(main())

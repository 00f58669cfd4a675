import json
import os
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.policy.commands import learn as subject
from agent_sandbox.features.policy.commands.learn import Do, completions, learn
from agent_sandbox.features.policy.layers import load_here
from agent_sandbox.features.policy.learning import Recording, load_recording, save_recording
from agent_sandbox.policy import Ambiguous, Policy, decide, parse_request
from agent_sandbox.policy.http.git_requests import with_query
from fake_docker import FakeDocker
from fake_stack import with_containers
from log_lines import denied

POLICY = Path(".devcontainer/policy.yaml")
LINES = [denied("GET https://docs.test/"), denied("PUT https://docs.test/x"), denied("GET https://10.0.0.1/")]
SHOWN = """\
allow: GET https://docs.test/
  once, such as GET docs.test/
allow: PUT https://docs.test/x
  once, such as PUT docs.test/x
  careful: it writes: the agent can send data out this way
left out:
  once, a private host: GET 10.0.0.1/
"""
REPLAY = """\
replay: 1 of 2 recorded requests pass (without queries, bodies and headers, which the log does not have)
  deny  PUT https://docs.test/x  host docs.test is allowed, method PUT and path /x are not: \
policy.yaml:9 allows GET, HEAD https://docs.test/
"""


@pytest.fixture
def log(policy: Path) -> Path:
    assert policy.exists()
    Path("log.jsonl").write_text("\n".join(LINES))
    return Path("log.jsonl")


def test_stop_all_writes_entries_without_a_warning_with_a_comment(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = POLICY.read_text()
    assert exit_code(lambda: learn(Do.STOP, every=True, file=log, since="2026-01-02T10:00:00Z")) == 0
    assert POLICY.read_text() == f"{before}allow:\n  - GET https://docs.test/  # learned 2026-01-02 10:00\n"
    said = capsys.readouterr()
    assert said.out.startswith(SHOWN)
    assert "\n+allow:\n+  - GET https://docs.test/  # learned 2026-01-02 10:00\n" in said.out
    assert said.out.endswith(REPLAY)
    assert said.err == "then: agent-sandbox proxy reload\n"


def test_a_dry_run_writes_nothing_but_replays_the_requests(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = POLICY.read_text()
    assert exit_code(lambda: learn(Do.STOP, dry_run=True, file=log)) == 0
    assert POLICY.read_text() == before
    said = capsys.readouterr()
    assert "+  - GET https://docs.test/  # learned from a log\n" in said.out
    assert "\nreplay: 1 of 2 recorded requests pass (" in said.out
    assert said.err == ""


def test_resolves_node_after_adding_it_to_the_policy(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    resolved: list[str] = []
    monkeypatch.setattr(subject, "resolve_added", lambda name, _file: resolved.append(name))
    log.write_text(denied("GET https://npm.test/x", tool="npm"))
    assert exit_code(lambda: learn(Do.STOP, dry_run=True, file=log)) == 0
    assert "  node is not tried: it is written from the configuration of this machine\n" in capsys.readouterr().out
    assert resolved == []
    assert exit_code(lambda: learn(Do.STOP, every=True, file=log)) == 0
    assert resolved == ["node"]
    assert "- node  # learned from a log\n" in POLICY.read_text()


def test_reports_an_entry_that_cannot_be_added_as_an_error(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    POLICY.write_text("{domains: [example.org], allow}\n")
    assert exit_code(lambda: learn(Do.STOP, every=True, file=log)) == 1
    said = capsys.readouterr()
    assert said.err.startswith(f"error: {POLICY}: cannot add GET https://docs.test/ to this file automatically\n")
    assert "replay: 0 of 2" in said.out


@pytest.mark.parametrize("words", [("n", "q"), ()])
def test_writes_nothing_if_the_user_accepts_no_entry(
    log: Path, answers: Callable[..., None], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    before = POLICY.read_text()
    answers(*words)
    assert exit_code(lambda: learn(Do.STOP, file=log)) == 0
    assert POLICY.read_text() == before
    assert capsys.readouterr().err.endswith("] nothing was written\n")


def test_stop_without_a_terminal_suggests_dry_run_and_all(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: learn(Do.STOP, file=log)) == 1
    assert capsys.readouterr().err == (
        "error: `learn stop` needs a terminal to ask on\n"
        "  hint: --dry-run shows the entries; --all writes them, except those with a warning\n"
    )


READ = "exec -T proxy /opt/agent-sandbox/venv/bin/python -P -m agent_sandbox.proxy"
CLOCK = "2026-01-02T10:00:00+00:00"


@pytest.fixture
def stack(project: Path, docker: FakeDocker) -> FakeDocker:
    """Fake a running proxy with its own clock and these denials in its log."""
    assert project.exists()
    with_containers(docker, proxy="healthy").says("proxy log --file", out="\n".join(LINES))
    docker.says("proxy status", out=json.dumps({"clock": CLOCK}))
    return docker.says("proxy reload", out='{"ok": true, "digest": "0123456789abcdef"}')


def test_start_records_the_time_of_the_proxy(stack: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    assert stack.rules
    assert exit_code(lambda: learn(Do.START)) == 0
    assert load_recording(Path.cwd(), os.environ) == Recording(since="2026-01-02T10:00:00.000Z")
    assert capsys.readouterr().err == (
        "recording; denied requests stay denied meanwhile\nthen: agent-sandbox policy learn stop\n"
    )


def test_a_second_start_names_the_recording_that_it_replaces(
    stack: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stack.rules
    save_recording(Path.cwd(), Recording(since="2026-01-02T09:00:00.000Z"), os.environ)
    assert exit_code(lambda: learn(Do.START)) == 0
    assert capsys.readouterr().err.splitlines()[0] == "note: this replaces the recording since 2026-01-02 09:00:00"


def test_stop_loads_the_chosen_entries_and_ends_the_recording(
    stack: FakeDocker, answers: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert stack.rules
    save_recording(Path.cwd(), Recording(since="2026-01-02T09:00:00.000Z"), os.environ)
    answers("y", "n")
    assert exit_code(lambda: learn(Do.STOP)) == 0
    assert POLICY.read_text().endswith("allow:\n  - GET https://docs.test/  # learned 2026-01-02 09:00\n")
    said = capsys.readouterr()
    assert said.err.endswith("] policy loaded, digest 0123456789ab\n")
    assert "replay: 1 of 2" in said.out
    assert load_recording(Path.cwd(), os.environ) is None


def test_a_dry_run_does_not_end_the_recording(stack: FakeDocker) -> None:
    assert stack.rules
    save_recording(Path.cwd(), Recording(since="2026-01-02T10:00:00.000Z"), os.environ)
    assert exit_code(lambda: learn(Do.STOP, dry_run=True)) == 0
    assert load_recording(Path.cwd(), os.environ) == Recording(since="2026-01-02T10:00:00.000Z")


def test_ignores_requests_denied_before_the_start(stack: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    assert stack.rules
    save_recording(Path.cwd(), Recording(since="2026-01-02T10:00:01.000Z"), os.environ)
    assert exit_code(lambda: learn(Do.STOP, every=True)) == 0
    said = capsys.readouterr()
    assert said == ("nothing to learn: every request was allowed, or is left out\n", "nothing was written\n")


def test_stop_without_a_recording_suggests_start_and_since(
    stack: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stack.rules
    assert exit_code(lambda: learn(Do.STOP, dry_run=True)) == 1
    assert capsys.readouterr().err == (
        f"error: {Path.cwd()}: nothing is being recorded\n"
        "  hint: agent-sandbox policy learn start, or --since to learn from the past\n"
    )


def test_start_fails_if_the_proxy_reports_no_clock(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    with_containers(docker, proxy="healthy").says("proxy status", out="{}")
    assert exit_code(lambda: learn(Do.START)) == 1
    assert capsys.readouterr().err == (
        "error: proxy: the running proxy is of another version\n  hint: agent-sandbox init, then agent-sandbox up\n"
    )


def test_completes_start_and_stop() -> None:
    assert (completions(), completions("start")) == (("start", "stop"), ())


LEARN = "agent_sandbox.proxy learn --seconds"


@pytest.fixture
def allowing(stack: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> FakeDocker:
    """Fake a proxy that can allow what no rule denies for a while."""
    monkeypatch.setattr(subject, "user_name", lambda: "ana")
    return stack.says(LEARN, out='{"ok": true}')


def asked(docker: FakeDocker) -> list[str]:
    """Return the seconds of each request to allow more."""
    return [call.partition("--seconds ")[2].partition(" --control")[0] for call in docker.calls if LEARN in call]


def test_allow_for_makes_the_proxy_allow_more_until_stop(
    allowing: FakeDocker, answers: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(lambda: learn(Do.START, allow_for="30m")) == 0
    assert capsys.readouterr().err == (
        "recording; for 30m, requests that no rule denies are allowed, but none to private addresses or with secrets\n"
        "then: agent-sandbox policy learn stop\n"
    )
    assert load_recording(Path.cwd(), os.environ) == Recording(since="2026-01-02T10:00:00.000Z", allows=True)
    assert exit_code(lambda: learn(Do.STOP, dry_run=True)) == 0
    assert asked(allowing) == ["1800 --who ana"]
    answers("q")
    assert exit_code(lambda: learn(Do.STOP)) == 0
    assert asked(allowing) == ["1800 --who ana", "0 --who ana"]


def test_a_start_without_allow_for_ends_an_earlier_allow_for(allowing: FakeDocker) -> None:
    assert exit_code(lambda: learn(Do.START, allow_for="8h")) == 0
    assert exit_code(lambda: learn(Do.START)) == 0
    assert asked(allowing) == ["28800 --who ana", "0 --who ana"]


@pytest.mark.parametrize("text", ["30", "59s", "9h", "1w", "-5m", "\x1b", "999999w"])
def test_rejects_an_allow_for_that_is_not_between_1m_and_8h(
    allowing: FakeDocker, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(lambda: learn(Do.START, allow_for=text)) == 1
    first, hint = capsys.readouterr().err.splitlines()
    assert first.startswith("error: --allow-for: not a time from 1m to 8h: '")
    assert hint == "  hint: write `30m` or `2h`"
    assert (load_recording(Path.cwd(), os.environ), asked(allowing)) == (None, [])


def test_allow_for_fails_if_the_proxy_does_not_know_the_command(
    stack: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    stack.says(LEARN, out='{"error": "unknown verb"}')
    assert exit_code(lambda: learn(Do.START, allow_for="30m")) == 1
    assert capsys.readouterr().err.startswith("error: proxy: the running proxy is of another version\n")


TASKS = yaml.safe_load((Path(__file__).resolve().parents[4] / "lab" / "recorded_tasks.yaml").read_text("utf-8"))
LONG = "a1" * 300


def recorded() -> list[str]:
    """Return the lines of a log with all tasks, and the attacks between them."""
    wanted = [denied(line, tool=task["tool"]) for task in TASKS["tasks"].values() for line in task["requests"]]
    attacks = [
        denied(line.format(long=LONG), cause=attack.get("cause", "host"), tool=attack.get("tool", ""))
        for attack in TASKS["attacks"].values()
        for line in attack["sent"]
    ]
    return [line for pair in zip_longest(wanted, attacks) for line in pair if line]


def allowed(policy: Policy, line: str, tool: str = "") -> bool:
    """Return whether the policy allows a METHOD URL; an ambiguous URL is denied."""
    method, _, url = line.format(long=LONG).partition(" ")
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    try:
        request = parse_request(
            scheme=scheme,
            host=host,
            port={"http": 80, "https": 443}[scheme],
            method=method,
            target=with_query(slash + path, tool),
            encoded_slash=policy.takes_encoded_slash(host),
        )
    except Ambiguous:
        return False
    return decide(policy, replace(request, secrets=True)).allowed


def test_the_learned_policy_allows_every_recorded_task_and_no_recorded_attack(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = Path(os.environ["HOME"])
    (home / ".npmrc").write_text("registry=https://npm.example.test/\n")
    (home / ".config" / "pip").mkdir(parents=True)
    (home / ".config" / "pip" / "pip.conf").write_text("[global]\nindex-url = https://pypi.example.test/simple/\n")
    policy.write_text("version: 1\n# Keep this.\ndomains: [example.org]\ndeny: [denied.example.net]\n")
    Path("log.jsonl").write_text("\n".join(recorded()))
    assert exit_code(lambda: learn(Do.STOP, every=True, file=Path("log.jsonl"))) == 0
    after = load_here(policy, os.environ)
    tasks = [(line, task["tool"]) for task in TASKS["tasks"].values() for line in task["requests"]]
    assert [line for line, tool in tasks if not allowed(after, line, tool)] == []
    attacks = [(line, attack.get("tool", "")) for attack in TASKS["attacks"].values() for line in attack["sent"]]
    assert len(TASKS["attacks"]) > 10
    assert [line for line, tool in attacks if allowed(after, line, tool)] == []
    assert "# Keep this.\n" in policy.read_text()
    assert "careful: left out, but an entry allows it" not in capsys.readouterr().out

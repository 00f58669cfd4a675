"""`make demo`: the main job end to end, with every command that a user would type and what it prints.

With a Docker engine it is the real stack in a throw-away project; without one, the same policy in the same proxy on
loopback. Either way the internet is a stand-in that this demo starts itself: nothing leaves the machine.

`make demo DAY=1` is a user's first day, from the installation to a pushed branch; tests/e2e/test_first_day.py takes the
same steps.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "lab"))

from agent_sandbox.images import proxy_name  # noqa: E402
from certificates import make_authority  # noqa: E402  # the lab is no package; the line above finds it
from engine import agent_sandbox, engine_answers  # noqa: E402
from first_day import sit_down, steps, take  # noqa: E402
from real_stacks import (  # noqa: E402
    HOSTS,
    Project,
    Projects,
    connect_to,
    remove_network,
    start_internet,
)
from users_machine import UsersMachine  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERNET = "agent-sandbox-demo-internet"


def say(text: str) -> None:
    """Print one line of the story."""
    print(f"\n# {text}", flush=True)


def show(*argv: str, cwd: Path, shown: str = "") -> int:
    """Print a command, run it, let its output through, and return its exit code."""
    print(f"$ {shown or shlex.join(argv)}", flush=True)
    done = subprocess.run(argv, cwd=cwd, check=False, stdin=subprocess.DEVNULL)  # noqa: S603  # our own commands
    print(flush=True)
    return done.returncode


def allow_example(policy: Path) -> None:
    """Do what a user does in an editor."""
    policy.write_text(policy.read_text().replace("\ndomains:\n", "\ndomains:\n  - example.com\n"))


def demo_stack(folder: Path) -> int:
    """Show the real stack; return what the build of its images ended with."""
    say("A Docker engine answers: this is the real stack, in a throw-away project. Its internet is a stand-in.")
    sandbox = str(Path(sys.executable).with_name("agent-sandbox"))
    path = folder / "my-project"
    path.mkdir()
    if os.geteuid() == 0:
        os.chown(path, 1000, 1000)  # as root's, it would be root's to write inside too
    show(sandbox, "init", "claude", cwd=path, shown="agent-sandbox init claude")
    say("Images that are missing are built, which takes some minutes once.")
    if failed := show(sandbox, "build", cwd=path, shown="agent-sandbox build"):
        return failed
    internet = start_internet(folder, image=proxy_name(), name=INTERNET, public="198.51.100.0/27")
    projects = Projects(internet, folder)
    try:
        project = Project(path=path, internet=internet, override=connect_to(internet, path))
        projects.made.append(project)
        show("docker", "compose", "up", "--detach", cwd=project.path)
        show("docker", "compose", "exec", "-T", "agent", "claude", "--version", cwd=project.path)
        inside = ("docker", "compose", "exec", "-T", "agent")
        show(*inside, "curl", "-sS", "https://api.anthropic.com/", cwd=project.path)
        show(*inside, "curl", "-sS", "https://example.com/", cwd=project.path)
        say("Allow example.com in .devcontainer/policy.yaml, by a command or in an editor, and have the proxy take it.")
        line = ("policy", "allow", "example.com")
        show(sandbox, *line, cwd=project.path, shown=f"agent-sandbox {shlex.join(line)}")
        show(sandbox, "proxy", "reload", cwd=project.path, shown="agent-sandbox proxy reload")
        show(*inside, "curl", "-sS", "https://example.com/", cwd=project.path)
        show(sandbox, "status", cwd=project.path, shown="agent-sandbox status")
        say("The agent reached example.com only after you allowed it. Each decision is in the log of the proxy.")
    finally:
        projects.remove()
        remove_network(INTERNET)
    return 0


@contextlib.contextmanager
def started(*argv: str) -> Iterator[dict[str, str]]:
    """Run a server in the background; hand out the JSON line that it prints when it is ready."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603  # our own commands
        assert process.stdout is not None  # noqa: S101
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()


def demo_proxy(folder: Path) -> int:
    """Show the same policy in the same proxy, without a container."""
    say("No Docker engine answers: this is the same policy in the same proxy, on loopback. Its internet is a stand-in.")
    project = folder / "my-project"
    project.mkdir()
    agent_sandbox("init", "claude", cwd=project)
    policy = project / ".devcontainer" / "policy.yaml"
    authority = make_authority(folder, HOSTS)
    standin = (
        sys.executable,
        str(ROOT / "tests/lab/fake_internet.py"),
        f"--cert={folder / 'leaf.pem'}",
        "--address=127.0.0.1",
    )
    with started(*standin, "--https=0", "--http=0") as internet:
        here = [f"--resolve={host}:443:127.0.0.1:{internet['https']}" for host in ("api.anthropic.com", "example.com")]
        run_proxy = (
            sys.executable, "-P", "-m", "agent_sandbox", "proxy", "run", f"--policy={policy}", "--listen=127.0.0.1:0",
            f"--state={folder / 'state'}", f"--upstream-ca={authority}", *here,
        )  # fmt: skip
        for story in ("The policy that init wrote.", "example.com allowed in policy.yaml, the proxy started again."):
            say(story)
            with started(*run_proxy) as ready:
                client = ("curl", "-sS", "--proxy", f"http://{ready['listening']}", "--cacert", ready["ca"])
                for host in ("api.anthropic.com", "example.com"):
                    show(*client, f"https://{host}/", cwd=project, shown=f"curl https://{host}/")
            allow_example(policy)
    say("The proxy denied example.com until the policy allowed it, and said how to allow it.")
    return 0


def demo_day(folder: Path) -> int:
    """Show the first day, on a separate machine made of namespaces."""
    if os.geteuid() != 0 or not engine_answers():
        print("the first day needs Linux, root and a Docker engine, to set up a separate machine", file=sys.stderr)
        return 1
    say("This is a separate machine with a real engine. A stand-in plays the internet.")
    machine = UsersMachine(folder)
    taken = steps()
    try:
        columns = shutil.get_terminal_size().columns
        shell = sit_down(machine, folder, columns=columns, show=lambda text: print(text, end="", flush=True))
        for step in taken:
            take(step, shell)
        shell.close()
    finally:
        machine.remove()
    say(f"{len(taken)} commands.")
    return 0


def main() -> int:
    """Show the first day if that is asked for; else the stack where Docker runs, the proxy elsewhere."""
    with tempfile.TemporaryDirectory(prefix="agent-sandbox-demo-") as name:
        folder = Path(name)
        os.environ["XDG_STATE_HOME"] = str(folder / "home" / "state")  # what is trusted here ends with it
        os.chmod(folder, 0o755)  # noqa: PTH101, S103  # the stack's users are not the user who runs this
        if "--day" in sys.argv[1:]:
            return demo_day(folder)
        return (demo_stack if engine_answers() else demo_proxy)(folder)


if __name__ == "__main__":
    sys.exit(main())

"""Run every command of the docs: `$ ...` on the host machine in a project, `dev@agent:...$ ...` in the sandbox."""

import os
import re
import sys
from pathlib import Path

import pytest

from doc_examples import PAGES as TOOL_PAGES
from engine import ROOT, run
from real_stacks import Project, Projects

# tests/house/test_tool_examples.py runs the pages that need no Docker engine, and compares the output too.
ELSEWHERE_PAGES = {*TOOL_PAGES}
DOCS = sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md")} - ELSEWHERE_PAGES)
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
TRANSCRIPT = re.compile(r"^<!-- transcript -->\n```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
# These differ from run to run: the suffix of a stack's name, and a policy's digest.
VARIABLE = re.compile(r"(?<=my-project-)[0-9a-f]{8}|(?<=digest )[0-9a-f]{12}")
HOST, INSIDE = re.compile(r"^\$ (.*)$"), re.compile(r"^dev@agent:\S*\$ (.*)$")

# Commands that another test runs, or that no test can run, with the reason.
ELSEWHERE = {
    "pipx install .": "tests/house/test_wheel.py builds the wheel that pipx installs and checks its contents",
    "pip install git+https://github.com/OWNER/agent-sandbox@v0.1.0": "the same; OWNER is for the reader to fill in",
    "agent-sandbox policy diff origin/main --exit-code": "tests/house/test_tool_examples.py has a repository to ask",
    "cd my-project": "the test is in a project already",
    "make demo": "test_demo.py",
    "make test": "this is it",
    "agent-sandbox init claude --with go,rust": "builds for minutes; test_languages.py builds them all",
    "agent-sandbox prune": "asks at a terminal, and would remove what other tests need; see its unit test",
    "make attack": "what it runs is run by `make test` too; tests/house/test_attack_rows.py holds that it is there",
    "agent-sandbox secret list": "test_secrets.py reads what it prints",
    "agent-sandbox secret set tracker.token --host api.example.com": "asks at a terminal; test_secrets.py pipes it in",
    "pass show tracker | agent-sandbox secret set tracker.token --host api.example.com": "the same, without `pass`",
    "agent-sandbox secret remove tracker.token": "the same",
    "agent-sandbox secret setup openai": "asks at a terminal; its unit test pipes it in",
    "agent-sandbox secret set tracker.token --host api.example.com --from 'op read op://work/tracker/token'": "no `op`",
    "keyring set tracker me": "asks at a terminal, and the package `keyring` is not installed",
    "agent-sandbox secret set tracker.token --host api.example.com --from keyring:tracker/me": "the same",
    "ssh-keygen -t ed25519 -N '' -f ~/.ssh/sandbox-signing": "writes to the home directory",
    "agent-sandbox secret setup signing --from ssh-key:$HOME/.ssh/sandbox-signing": "test_setup.py runs it",
    "agent-sandbox secret sync": "test_secrets.py",
    "agent-sandbox secret test openai.key": "there is no such key; tests/unit/features/secrets/commands/test_test.py",
    "agent-sandbox secret setup github": "the page shows a project with remotes; test_first_day.py pushes so",
    "sudo sysctl fs.inotify.max_user_instances=8192 fs.inotify.max_user_watches=1048576": "changes this machine",
    "printf '%s\\n' fs.inotify.max_user_instances=8192 fs.inotify.max_user_watches=1048576"
    " | sudo tee /etc/sysctl.d/60-inotify.conf": "the same",
    "agent-sandbox run claude --clone --name fix-1": "test_working_day.py",
    "agent-sandbox diff fix-1 --stat": "the same",
    "agent-sandbox fetch fix-1": "the same",
    "git merge box/fix-1/main": "the same",
    "agent-sandbox cp box:/tmp/report.html .": "there is no such file; test_commands_stack.py copies both ways",
    "agent-sandbox cp ~/Downloads/screenshot.png box:/tmp/": "the same",
    'agent-sandbox run --rm --json --yes 01b66ea7750e... -- -p "Run the tests and fix what fails" >summary.json': (
        "needs a model; test_commands_stack.py runs it without one"
    ),
    "docker compose exec agent zsh": "interactive; test_main_job.py runs zsh",
    "devcontainer exec --workspace-folder . make test": "test_devcontainer.py runs the CLI",
    **dict.fromkeys(
        (
            "git add .devcontainer",
            'git commit -m "Add a sandbox for coding agents"',
            "git clone https://git.example.com/team/app",
            "cd app",
        ),
        "test_devcontainer.py checks a project in and clones it",
    ),
    "agent-sandbox login claude": "this machine has no sign-in; test_agents.py logs in",
    "agent-sandbox init claude --with node,python": "takes minutes; test_project_file.py builds a project's image",
    "agent-sandbox ports 5173 8080:3000": "runs until Ctrl-C; test_commands_stack.py relays a port",
    "agent-sandbox run claude": "interactive; test_commands_stack.py runs it, and test_agents.py holds conversations",
    "$EDITOR .devcontainer/policy.yaml && agent-sandbox proxy reload": "test_lifecycle.py edits and reloads",
}


def commands(path: Path) -> list[tuple[str, str]]:
    """Return the (place, command) pairs of a page, in order, without trailing comments."""
    found = []
    for block in BLOCK.findall(TRANSCRIPT.sub("", path.read_text())):
        for line in block.splitlines():
            for place, pattern in (("host", HOST), ("inside", INSIDE)):
                if match := pattern.match(line):
                    found.append((place, re.sub(r"\s{2,}#.*$", "", match[1])))
    return [(place, command) for place, command in found if command not in ELSEWHERE]


PAGES = [page for page in DOCS if commands(page)]


@pytest.fixture(scope="module")
def stack(projects: Projects) -> Project:
    """A stack for Claude Code."""
    project = projects.make("documented", "claude")
    project.sandbox("up")
    return project


@pytest.fixture(scope="module")
def other(projects: Projects) -> Project:
    """A stack for Copilot CLI."""
    project = projects.make("documented", "copilot")
    project.sandbox("up")
    return project


@pytest.mark.nightly
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_works(stack: Project, other: Project, page: Path) -> None:
    project = other if page.stem == "copilot" else stack
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for place, command in commands(page):
        if place == "host":
            run("sh", "-c", command.replace("compose exec ", "compose exec -T "), cwd=project.path, env={"PATH": path})
        else:
            project.exec("zsh", "-ic", command)


def test_readme_transcript_shows_what_the_commands_print(projects: Projects, tmp_path: Path) -> None:
    (block,) = TRANSCRIPT.findall((ROOT / "README.md").read_text("utf-8"))
    project = projects.make("my-project", "claude")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    wrong = []
    for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *shown = step.splitlines()
        where = tmp_path if command.startswith("agent-sandbox init") else project.path
        printed = run("sh", "-c", f"exec 2>&1; {command}", cwd=where, env={"PATH": path}).stdout
        lines = iter(VARIABLE.sub("", printed).splitlines())
        # The page can leave lines out, marked with `...`. All lines that it shows must be printed, in this order.
        if not all(VARIABLE.sub("", line) in lines for line in shown if line != "..."):
            wrong.append((command, printed))
    assert wrong == []

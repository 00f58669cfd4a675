"""All commands of docs/working-day.md in order, with the real Claude Code and a scripted model."""

import contextlib
import http.client
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_logins import MARK, SIGN_INS
from agent_sandbox.project.installed import own_images, read_project
from agent_sandbox.project.root import has_files
from agent_sandbox.projectfile.browser import CONTROLLERS
from chromium import PROGRAMS, Chromium
from engine import ROOT, agent_sandbox, run
from prepared import build_project
from real_stacks import LAB, STANDIN_ADDRESS, Internet
from typed_shell import TypedShell

PAGE = (ROOT / "docs" / "working-day.md").read_text()
# A line that the reader types, on the host machine or in the sandbox, without its comment.
TYPED = re.compile(r"^(?:\$|dev@agent:/workspace%) (.*?)(?: {2,}#.*)?$", re.MULTILINE)
QUESTION, PROMPT = r"\[y/N\]:? ?\Z", r"(?:HOST\$ |dev@agent:\S+% ?(?:\x1b\[[^\n]*)?)\Z"
PLAYWRIGHT = CONTROLLERS["playwright"]
# Added to the page's sandbox.yaml: Vite, which `npm install` would fetch from a registry, a Django project with
# migrations and tests, and the other browser tools.
MORE = {
    "tools": {"npm": ["vite@7", f"{PLAYWRIGHT.package}@{PLAYWRIGHT.version}"]},
    "mcp": {"playwright": {"command": "playwright-mcp", "args": list(PLAYWRIGHT.server.command[1:])}},
}
DJANGO = ("python3-django-guardian", "python3-django-environ", "python3-psycopg2")
DJANGO_ADMIN = "python3 -P -m django COMMAND --settings guardian.testapp.testsettings 2>&1"
FILES = {
    ".gitignore": "node_modules\n",
    "package.json": '{"private": true, "type": "module", "scripts": {"dev": "vite --port 5173 --strictPort"}}\n',
    "index.html": '<!doctype html><title>t</title><h1></h1><script type="module" src="/main.js"></script>\n',
    "text.js": "export const text = 'Served inside';\n",
    "main.js": """\
import { text } from "./text.js";
const show = (now) => { document.querySelector("h1").textContent = now; };
show(text);
import.meta.hot.accept("./text.js", (edited) => show(edited.text));
import.meta.hot.on("vite:ws:connect", () => { window.connected = true; });
""",
    "schema.sql": "CREATE TABLE items (name text PRIMARY KEY);\nINSERT INTO items VALUES ('Tea');\n",
}
SETTINGS = "/home/dev/.claude/.claude.json"
OWN = ("agent-sandbox/project:", "agent-sandbox/packages:", "agent-sandbox/beside:")
MCP_CLIENT = (LAB / "mcp_client.py").read_text()
REQUESTS, CONNECTIONS = 10_000, 4
LOGIN = "of-the-working-day"


def block(page: str, kind: str) -> str:
    """Return the first code block of this kind on a page."""
    found = re.search(rf"^```{kind}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert found, kind
    return found[1]


def commands() -> list[str]:
    """Return all commands that the reader of the page types, in order."""
    return TYPED.findall("\n".join(re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)))


class Day:
    """A project on the host machine, a terminal in its directory, and the page's commands that are still to run."""

    def __init__(self, path: Path, internet: Internet) -> None:
        self.path, self.internet, self.left = path, internet, commands()
        environment = {**os.environ, "PS1": "HOST$ ", "TERM": "xterm-256color", "NO_COLOR": "1"}
        self.terminal = TypedShell(("bash", "--norc", "--noprofile"), environment, path, columns=200)
        self.terminal.read("", until=re.compile(PROMPT))

    def take(self, *commands: str) -> None:
        """Remove the next commands from the list."""
        assert self.left[: len(commands)] == [*commands]
        del self.left[: len(commands)]

    def type(self, command: str, *, until: str = PROMPT, seconds: float = 60) -> str:
        """Type the page's next command at the terminal, and `y` after each question; return the output."""
        self.take(command)
        end = re.compile(f"{QUESTION}|{until}")
        said, found = self.terminal.read(f"{command}\n", until=end, seconds=seconds)
        while found[0].startswith("[y/N]"):
            more, found = self.terminal.read("y\n", until=end, seconds=seconds)
            said += more
        return said

    def run(self, command: str, *more: str, check: bool = True, piped: str = "") -> subprocess.CompletedProcess[str]:
        """Run the page's next command in a second terminal, with more arguments."""
        self.take(command)
        return self.also(command, *more, check=check, piped=piped)

    def also(self, command: str, *more: str, check: bool = True, piped: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command that is not on the page."""
        return run("sh", "-c", f"{command} {shlex.join(more)}", cwd=self.path, check=check, piped=piped)

    def inside(self, script: str) -> str:
        """Run a script in the sandbox; return its output."""
        return self.also("agent-sandbox exec", "--", "sh", "-ec", script).stdout

    def call(self, server: str, *calls: list[object]) -> list[list[str]]:
        """Call tools of an MCP server that the agent's settings name; return the texts of each answer."""
        argv = ("--", "python3", "-I", "-c", MCP_CLIENT, SETTINGS, server, *map(json.dumps, calls))
        return [json.loads(line) for line in self.also("agent-sandbox exec", *argv).stdout.splitlines()]

    def stacks(self) -> dict[str, str]:
        """Return the stack name of each running clone by the clone's name, and the project's own as ""."""
        # On a busy machine, a health check can fail once.
        end = time.monotonic() + 120
        found = self._found()
        while (states := {one["state"] for one in found.values()}) != {"running"}:
            assert time.monotonic() < end, states
            time.sleep(1)
            found = self._found()
        return {clone: one["name"] for clone, one in found.items()}

    def _found(self) -> dict[str, dict[str, Any]]:
        listed = json.loads(self.also("agent-sandbox ls", "--json").stdout)["stacks"]
        own = json.loads(self.also("agent-sandbox status", "--json").stdout)["project"]
        here = os.path.realpath(self.path)
        clones = {one["clone"]["name"]: one for one in listed if one["clone"] and one["clone"]["project"] == here}
        return {"": next(one for one in listed if one["name"] == own), **clones}

    def connect(self, *clones: str) -> None:
        """Connect the proxies of these stacks to the stand-in for the internet."""
        stacks = self.stacks()
        for clone in clones:
            run("docker", "network", "connect", self.internet.name, f"{stacks[clone]}-proxy-1")

    def commit(self, message: str) -> None:
        """Commit everything, and give all files back to the project's owner."""
        run("git", "add", ".", cwd=self.path)
        run("git", "commit", "--quiet", "--message", message, cwd=self.path)
        own(self.path)

    def end(self) -> None:
        """Remove the stacks, and the images that nothing else uses."""
        self.terminal.close()
        images = own_images(read_project(self.path)) if has_files(self.path) else ()
        for words in (("--path", "fix-1"), ("--path", "fix-2"), ()):
            agent_sandbox("destroy", *words, "--yes", cwd=self.path, check=False)
        run("docker", "image", "rm", "--force", *(one for one in images if one.startswith(OWN)), check=False)


def files_of_the_page() -> dict[str, str]:
    """Return the files that the reader writes."""
    page = yaml.safe_load(block(PAGE, "yaml"))
    return {
        ".devcontainer/sandbox.yaml": json.dumps({**page, **MORE, "packages": [*page["packages"], *DJANGO]}),
        ".devcontainer/db.Dockerfile": block((ROOT / "docs" / "beside.md").read_text(), "dockerfile"),
    }


def prepare() -> None:
    build_project("claude", "--with", "node", files=files_of_the_page())


def own(folder: Path) -> None:
    """Give a directory to the user that the agent runs as."""
    for place in (folder, *folder.rglob("*")):
        os.chown(place, 1000, 1000, follow_symlinks=False)


def settle_in(folder: Path, internet: Internet, patch: pytest.MonkeyPatch) -> None:
    """Set up the host machine: a company CA, git settings, a login, and the command on PATH."""
    policies, program = folder / "config" / "agent-sandbox", folder / "bin" / "agent-sandbox"
    for place in (policies, program.parent):
        place.mkdir(parents=True)
    shutil.copy(internet.ca, policies / "corp-ca.pem")
    (policies / "policy.yaml").write_text("version: 1\nsettings: {upstream: {ca: corp-ca.pem}}\n")
    (folder / "gitconfig").write_text("[user]\n\tname = Ann\n\temail = ann@example.org\n[safe]\n\tdirectory = *\n")
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m agent_sandbox "$@"\n')
    program.chmod(0o755)
    SIGN_INS["claude"].write(folder / "claude", LOGIN)
    patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    patch.setenv("GIT_CONFIG_GLOBAL", str(folder / "gitconfig"))
    patch.setenv(SIGN_INS["claude"].folder, str(folder / "claude"))
    patch.setenv("PATH", str(program.parent), prepend=os.pathsep)


@pytest.fixture(scope="module")
def day(internet: Internet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    """The project after the page's section `Set up`, with a running stack."""
    folder = tmp_path_factory.mktemp("day")
    for parent in (folder, folder.parent):
        parent.chmod(0o755)  # the stack's users are not the user who runs the tests
    with pytest.MonkeyPatch.context() as patch:
        settle_in(folder, internet, patch)
        project = folder / "shop"
        project.mkdir()
        run("git", "init", "--quiet", "--initial-branch=main", cwd=project)
        for name, text in FILES.items():
            (project / name).write_text(text)
        own(project)
        made = Day(project, internet)
        try:
            made.run("agent-sandbox init claude --with node")
            for name, text in files_of_the_page().items():
                (project / name).write_text(text)
            made.commit("Start")
            made.run("agent-sandbox login claude")
            assert " is up; start the agent with agent-sandbox run" in made.type("agent-sandbox up", seconds=300)
            made.connect("")
            yield made
        finally:
            made.end()


@pytest.fixture(scope="module")
def address(day: Day) -> str:
    """Start the development server in a shell in the sandbox; return its address on the host machine."""
    opened = re.search(r"http://127\.0\.0\.1:\d+(?=  port 5173 of the sandbox)", day.type("agent-sandbox shell"))
    assert opened
    day.type("npm install")
    assert "INSERT 0 1" in day.type('psql "$DATABASE_URL" --file schema.sql')
    day.type("npm run dev", until="ready in")
    return opened[0]


def test_every_request_to_a_server_in_the_sandbox_is_answered(day: Day, address: str) -> None:
    listed = day.also("agent-sandbox ports").stdout.splitlines()
    assert [line for line in listed if line.startswith("5173 ") and "vite" in line]
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        answers = pool.map(asked, [address] * CONNECTIONS, [REQUESTS // CONNECTIONS] * CONNECTIONS)
    assert [*answers] == [{(200, True)}] * CONNECTIONS


def asked(address: str, times: int) -> set[tuple[int, bool]]:
    """Request a file many times on one connection; return the statuses, each with whether the file came."""
    host, _, port = address.removeprefix("http://").partition(":")
    found = set()
    with contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=60)) as connection:
        for _ in range(times):
            connection.request("GET", "/text.js")
            answer = connection.getresponse()
            found.add((answer.status, b"Served inside" in answer.read()))
    return found


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_edit_reaches_a_browser_on_the_host_machine_without_a_reload(
    day: Day, address: str, program: str, tmp_path: Path
) -> None:
    with Chromium(program, tmp_path) as tab:
        tab.open(address)
        tab.until("window.connected && document.querySelector('h1').textContent === 'Served inside'")
        tab.value("window.marked = true")
        day.inside("echo \"export const text = 'Edited inside';\" >text.js")
        tab.until("document.querySelector('h1').textContent === 'Edited inside'")
        assert tab.value("window.marked")


@pytest.mark.usefixtures("address")
def test_migrations_and_tests_of_a_django_project_run_on_the_database(day: Day) -> None:
    migrated = day.inside(DJANGO_ADMIN.replace("COMMAND", "migrate")).count("... OK\n")
    tables = "select count(*) from django_migrations"
    assert day.inside(f'psql "$DATABASE_URL" -tAc "{tables}"') == f"{migrated}\n"
    assert migrated > 20
    tested = day.inside(DJANGO_ADMIN.replace("COMMAND", "test guardian.testapp.tests.test_direct_rel"))
    assert re.search(r"^Ran 16 tests in .*\n\nOK$", tested, re.MULTILINE), tested


TALK = """\
call>>Bash {"command": "echo \\"export const text = 'By Claude';\\" >text.js", "description": "edit"}<<
call>>mcp__browser__new_page {"url": "http://localhost:5173/"}<<
call>>mcp__browser__take_screenshot {"pageId": 2, "filePath": "claude.png"}<<"""


@pytest.mark.usefixtures("address")
def test_claude_edits_a_file_and_takes_a_screenshot_with_the_host_machines_login(day: Day) -> None:
    answer = day.also("agent-sandbox run", "--", "-p", piped=TALK).stdout
    assert "2: t (http://localhost:5173/)" in answer
    assert "/workspace/claude.png" in answer
    assert (day.path / "claude.png").read_bytes().startswith(b"\x89PNG")
    assert (day.path / "text.js").read_text() == "export const text = 'By Claude';\n"
    sent = [value for one in day.internet.requests("api.anthropic.com") for value in one["headers"].values()]
    assert f"Bearer sk-ant-oat01-{MARK}-{LOGIN}" in sent


@pytest.mark.usefixtures("address")
def test_a_browser_records_a_trace_and_shows_why_a_page_is_denied(day: Day) -> None:
    _, _, (traced, *_), _, (denied,) = day.call(
        "browser",
        ["new_page", {"url": "http://localhost:5173/"}],
        ["performance_start_trace", {"pageId": 2, "reload": False, "autoStop": False}],
        ["performance_stop_trace", {"pageId": 2, "filePath": "trace.json"}],
        ["new_page", {"url": "https://denied.test/page"}],
        ["evaluate_script", {"pageId": 3, "function": "() => document.body.innerText"}],
    )
    assert "/workspace/trace.json" in traced
    assert json.loads((day.path / "trace.json").read_text())["traceEvents"] != []
    assert "Blocked by agent-sandbox: GET denied.test/page" in denied
    # The browser sent no request to Google.
    logged = day.also("agent-sandbox proxy logs --json").stdout.splitlines()
    hosts = {str(json.loads(line).get("host")) for line in logged}
    assert {host for host in hosts if host.endswith(("google.com", "googleapis.com", "gvt1.com"))} == set()


@pytest.mark.usefixtures("address")
def test_playwright_saves_screenshots_and_traces_in_the_project(day: Day) -> None:
    day.call(
        "playwright",
        ["browser_start_tracing", {}],
        ["browser_navigate", {"url": "http://localhost:5173/"}],
        ["browser_take_screenshot", {}],
        ["browser_take_screenshot", {"filename": "named.png"}],
        ["browser_stop_tracing", {}],
    )
    (unnamed,) = (day.path / ".playwright-mcp").glob("page-*.png")
    for picture in (unnamed, day.path / "named.png"):
        assert picture.read_bytes().startswith(b"\x89PNG")
    (trace,) = (day.path / ".playwright-mcp" / "traces").glob("trace-*.trace")
    assert "localhost:5173" in trace.read_text()


BRANCHES = ("fix-1", "fix-2")
WORK = """\
run>>set -e; psql "$DATABASE_URL" --quiet --file schema.sql
psql "$DATABASE_URL" --quiet --command "INSERT INTO items VALUES ('NAME')"
psql "$DATABASE_URL" -tAc "SELECT string_agg(name, ' ' ORDER BY name) FROM items"
printf 'all:\\n\\ttrue\\n' >Makefile; git add .; git commit --quiet --message "By NAME"
git switch --quiet --create topic; touch left<<"""


@pytest.mark.usefixtures("address")
def test_two_agents_work_on_two_branches_at_once_each_with_its_own_database(day: Day) -> None:
    with ThreadPoolExecutor(len(BRANCHES)) as pool:
        runs = {name: f"agent-sandbox run claude --clone --name {name}" for name in BRANCHES}
        day.take(*runs.values())
        made = [pool.submit(day.also, command, "--", "--version") for command in runs.values()]
        assert [one.result().stdout.endswith(" (Claude Code)\n") for one in made] == [True, True]
        day.connect(*BRANCHES)
        talks = [
            pool.submit(day.also, command, "--json", "--", "-p", piped=WORK.replace("NAME", name))
            for name, command in runs.items()
        ]
        said = [json.loads(one.result().stdout) for one in talks]
    assert [(one["exit_code"], one["result"]) for one in said] == [(0, f"RESULT: Tea {name}\n") for name in BRANCHES]
    assert day.inside('psql "$DATABASE_URL" -tAc "TABLE items"') == "Tea\n"
    for name in BRANCHES:
        (agent,) = json.loads(run("docker", "inspect", f"{day.stacks()[name]}-agent-1").stdout)
        assert {one["Type"] for one in agent["Mounts"]} == {"volume"}


def test_the_work_of_a_branch_is_fetched_reviewed_and_committed(day: Day) -> None:
    shown = day.run("agent-sandbox diff fix-1 --stat").stdout.splitlines()
    assert shown[:2] == ["main  1 commit", " Makefile | 2 ++"]
    fetched = "box/fix-1/main  1 new commit\nbox/fix-1/topic  1 new commit\n  not committed: 1 file: left\n"
    assert day.run("agent-sandbox fetch fix-1").stdout == fetched
    day.run("git merge box/fix-1/main", "--quiet")
    reviewed = day.run("agent-sandbox review", check=False)
    assert (reviewed.returncode, "  new      Makefile" in reviewed.stdout.splitlines()) == (1, True)
    day.run("git commit --all", "--quiet", "--message=By Claude")
    log = run("git", "log", "--format=%an: %s", cwd=day.path).stdout
    assert log == "Ann: By Claude\nAnn: By fix-1\nAnn: Start\n"


def test_verify_finds_no_leak_and_the_database_keeps_its_data_after_down_and_up(day: Day) -> None:
    before = day.internet.events()
    tried = day.run("agent-sandbox verify --full", f"--capture={STANDIN_ADDRESS}:22").stdout.splitlines()[-1]
    assert tried.endswith(" tried, none got out")
    assert day.internet.events() == before
    assert day.inside("find /usr /opt -type f -perm /6000") == ""  # Chromium brings a setuid program
    day.terminal.read("\x03", until=re.compile(PROMPT))
    day.terminal.read("exit\n", until=re.compile(PROMPT))
    said = day.run("agent-sandbox down").stderr
    assert "its clones still run: fix-1, fix-2; to stop one: agent-sandbox down --path fix-1\n" in said
    assert day.left == []
    day.also("agent-sandbox up")
    assert day.inside('psql "$DATABASE_URL" -tAc "TABLE items"') == "Tea\n"


def test_destroy_lists_unfetched_commits_of_a_clone_and_leaves_no_volume(day: Day) -> None:
    stacks = day.stacks()
    day.also("agent-sandbox down --path fix-2")
    asked_first = day.also("agent-sandbox destroy --path fix-2", check=False).stderr
    assert "not fetched: commits of main, topic: agent-sandbox fetch fix-2\n" in asked_first
    assert day.also("agent-sandbox fetch fix-2").stdout.startswith("box/fix-2/main  1 new commit\n")  # while it is down
    for name in BRANCHES:
        day.also("agent-sandbox destroy --yes --path", name)
        assert run("docker", "volume", "ls", "--quiet", "--filter", f"name={stacks[name]}").stdout == ""
    assert "this project has no clone" in day.also("agent-sandbox fetch", check=False).stderr

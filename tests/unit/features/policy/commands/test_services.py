import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_sandbox.features.policy import registries
from agent_sandbox.policyfile import shipped_services
from run_cli import Ask

pytestmark = pytest.mark.usefixtures("policy")
USAGE = "  hint: agent-sandbox policy services list | [show] NAME | diff OLD [NEW] [NAME] | resolve [NAME]\n"
VERSIONS = USAGE.replace("\n", "; OLD is a folder of services, or a version in git\n")
VERSIONS_OF = f"of one service or of all\n{VERSIONS}"
NOTHING = "no configuration on this machine or in the project names a public registry"
FROM = (
    "or name a file of its configuration: --from FILE; "
    "a mirror in a private network goes under `host_services` in policy.yaml"
)
COMMAND = "agent-sandbox policy services resolve"
ADVICE = "agent-sandbox policy allow pip takes its registry from pip's configuration on this machine"


@pytest.fixture
def npm(policy: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Fake npm with a mirror as the only tool; return `.devcontainer`."""
    says = {"npm": "https://npm.example.org/"}
    monkeypatch.setattr(registries, "answer_of", lambda argv, **_: says.get(argv[0], ""))
    monkeypatch.setattr(registries, "ROOT", tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return policy.parent


def test_lists_each_service_with_its_hosts_and_review_date(ask: Ask) -> None:
    answer = ask("policy", "services")
    lines = answer.out.splitlines()
    assert (answer.code, lines[0].split()) == (0, ["SERVICE", "HOSTS", "REVIEWED", "NAME"])
    assert [line.split()[0] for line in lines[1:]] == [*shipped_services(), "debian", "node", "python"]
    assert lines[-1].startswith(f"python                     -  -           not resolved yet: {COMMAND} python (pip, ")
    assert ask("policy", "services", "list").out == answer.out


def test_json_output_lists_name_title_and_number_of_hosts(ask: Ask) -> None:
    first, *_ = json.loads(ask("policy", "services", "--json").out)
    assert (first["name"], first["title"], first["hosts"]) == ("aider", "Aider", 2)


def test_shows_a_service_with_risks_and_reasons(ask: Ask) -> None:
    assert (
        ask("policy", "services", "show", "go-telemetry").out
        == """\
go-telemetry: Go, telemetry (2026-11-21)
Usage data that the Go toolchain sends if you turn telemetry on.

telemetry.go.dev
  risk   reports who uses which features, and when
  probe  POST https://telemetry.go.dev/upload/2026-11-21
  POST https://telemetry.go.dev/upload/...  weekly counts
"""
    )
    shown = json.loads(ask("policy", "services", "show", "go-telemetry", "--json").out)
    assert [(entry["host"], len(entry["rules"])) for entry in shown["entries"]] == [("telemetry.go.dev", 1)]


def test_show_accepts_an_alias_and_prints_the_name_of_the_service(ask: Ask) -> None:
    answer = ask("policy", "services", "show", "cargo")
    assert (answer.code, answer.err) == (0, "cargo is called `rust` in policies:\n")
    assert answer.out == ask("policy", "services", "show", "rust").out


def test_a_name_without_a_subcommand_shows_the_service(ask: Ask) -> None:
    assert ask("policy", "services", "rust").out == ask("policy", "services", "show", "rust").out
    assert ask("policy", "services", "--json", "cargo").out == ask("policy", "services", "show", "rust", "--json").out


def test_shows_shipped_services_outside_a_project(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert ask("policy", "services", "show", "rust").out.startswith("rust: Rust crates")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "rst"], "error: rst: not a known service\n  hint: did you mean `rust`?\n"),
        (["show", "python"], f"error: python: has not been resolved yet\n  hint: {ADVICE}\n"),
        (["show"], f"error: `show` takes 1 word, not 0\n{USAGE}"),
        (["list", "rust"], f"error: `list` takes 0 words, not 1\n{USAGE}"),
        (["diff"], f"error: `diff` takes 1 to 3 words, not 0\n{USAGE}"),
        (["diff", "rust"], f"error: `rust`: diff compares two versions, of one service or of all\n{VERSIONS}"),
        (["diff", ".", "go", "rust"], f"error: `go`, `rust`: diff compares two versions, {VERSIONS_OF}"),
        (["diff", ".", ".", "rst"], f"error: rst: not a service in either version\n{USAGE}"),
        (["rst"], "error: rst: not a known service\n  hint: did you mean `rust`?\n"),
        (["lst"], "error: lst: not a known service\n  hint: did you mean `list`?\n"),
        (["rust", "go"], f"error: `show` takes 1 word, not 2\n{USAGE}"),
        (["resolve", "a", "b"], f"error: `resolve` takes 0 or 1 word, not 2\n{USAGE}"),
    ],
)
def test_rejects_unknown_services_and_wrong_usage(ask: Ask, words: list[str], said: str) -> None:
    answer = ask("policy", "services", *words)
    assert (answer.code, answer.err) == (1, said)


def write(folder: Path, **services: str) -> str:
    folder.mkdir()
    for name, text in services.items():
        (folder / f"{name}.yaml").write_text(text)
    return str(folder)


def test_diff_compares_two_versions_by_what_they_allow(ask: Ask) -> None:
    one = 'title: One\ndate: "2025-01-01"\ndomains: [{host: a.test, rules: [{methods: [GET], reason: pages}]}]'
    old = write(Path("old"), one=one, two="title: Two\ndomains: [b.test]")
    new = write(Path("new"), one=one.replace("GET", "POST").replace("2025", "2026"), three="title: Three\ndate: now")
    assert (
        ask("policy", "services", "diff", old, new).out
        == """\
+ three: Three (now)
- two: Two ()
-   allow any method b.test
  one (2026-01-01, was 2025-01-01)
+   allow POST a.test  (pages)
-   allow GET, HEAD a.test  (pages)
"""
    )
    found = json.loads(ask("policy", "services", "diff", old, new, "--json").out)
    assert (found["added"], found["removed"], found["changed"][0]["dates"]) == (
        ["three"],
        ["two"],
        ["2025-01-01", "2026-01-01"],
    )
    assert ask("policy", "services", "diff", old, old).out == "no difference in what the services allow\n"


@pytest.mark.parametrize("words", [("old", "new", "one"), ("old", "rust"), ("rust", "old", "new")])
def test_diff_compares_one_service_of_two_versions(ask: Ask, words: tuple[str, ...]) -> None:
    for folder in ("old", "new"):
        write(Path(folder), one=f"domains: [{folder}.test]", two=f"domains: [{folder}.test]", rust="domains: [a.test]")
    out = ask("policy", "services", "diff", *words).out
    heads = [line.split()[0] for line in out.splitlines() if not line.startswith(("+ ", "- "))]
    assert heads == {"one": ["one"], "rust": ["rust"], "new": ["no"]}[words[-1]]


def test_diff_compares_with_the_shipped_services_by_default(ask: Ask) -> None:
    out = ask("policy", "services", "diff", write(Path("old"), one="domains: [a.test]")).out
    assert "+ rust: Rust crates (2026-11-21)\n" in out
    assert "- one:  ()\n-   allow any method a.test\n" in out


def test_resolve_writes_a_service_that_the_policy_can_use(ask: Ask, npm: Path) -> None:
    answer = ask("policy", "services", "resolve", "node")
    assert (answer.code, answer.out) == (
        0,
        "written    .devcontainer/services/node.yaml\nnode       npm.example.org: named by npm's configuration\n",
    )
    assert answer.err == "to use it: agent-sandbox policy allow node\n"
    (npm / "policy.yaml").write_text("services: [node]")
    assert ask("policy", "explain", "GET", "https://npm.example.org/@a%2Fb").out.startswith("allow")
    assert ask("policy", "explain", "PUT", "https://npm.example.org/a").out.startswith("deny")
    assert ask("policy", "services", "show", "node").out.splitlines()[3:5] == [
        "npm.example.org",
        "  risk   fetched code runs in the sandbox; the registry sees the requested names",
    ]


def test_resolve_names_all_written_services_in_the_next_step(
    ask: Ask, npm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registries, "answer_of", lambda argv, **_: f"https://{Path(argv[0]).name}.example.org/")
    ask("policy", "services", "resolve", "node")
    answer = ask("policy", "services", "resolve")
    written = sorted(file.stem for file in (npm / "services").iterdir())
    commands = "; ".join(f"agent-sandbox policy allow {name}" for name in written)
    assert (len(written) > 1, answer.err.endswith(f"to use them: {commands}\n")) == (True, True)


def test_resolve_dry_run_shows_the_file_and_writes_nothing(ask: Ask, npm: Path) -> None:
    answer = ask("policy", "services", "resolve", "node", "--dry-run")
    assert "+  - host: npm.example.org\n" in answer.out
    assert (answer.err, (npm / "services").exists()) == ("dry run: nothing was written\n", False)


def test_resolve_keeps_an_edited_file_and_shows_the_diff(ask: Ask, npm: Path) -> None:
    ask("policy", "services", "resolve", "node")
    file = npm / "services" / "node.yaml"
    file.write_text(f"{file.read_text()}# mine\n")
    answer = ask("policy", "services", "resolve")
    assert answer.code == 1
    assert "-# mine\n" in answer.out
    assert answer.err == (
        f"note: debian: {NOTHING}; configure apt, {FROM}\n"
        f"note: python: {NOTHING}; configure pip, {FROM}\n"
        "error: .devcontainer/services/node.yaml: it was edited; nothing was written\n"
        "  hint: --force writes what the diff shows\n"
    )
    assert ask("policy", "services", "resolve", "node", "--force").code == 0


def test_resolve_json_output_lists_hosts_and_files(ask: Ask, npm: Path) -> None:
    found = json.loads(ask("policy", "services", "resolve", "node", "--json").out)
    assert (found["written"], found["hosts"]) == (
        True,
        {"node": [{"host": "npm.example.org", "named_by": ["npm's configuration"]}]},
    )
    (file,) = found["files"]
    assert (file["path"], file["verdict"]) == (str(npm / "services" / "node.yaml"), "written")


EVIL = "node       evil.example.org: named only by .npmrc, which the agent can write\n"


@pytest.fixture
def evil(npm: Path) -> Path:
    """Name another host in the project's .npmrc, and return the path of the service's file."""
    (npm.parent / ".npmrc").write_text("registry=https://evil.example.org/\n")
    return npm / "services" / "node.yaml"


def test_resolve_leaves_out_and_prints_hosts_that_only_the_project_names(ask: Ask, evil: Path) -> None:
    answer = ask("policy", "services", "resolve", "node")
    assert (answer.code, "evil" in evil.read_text()) == (0, False)
    assert answer.err.startswith(f"not included; to include it, use --from-project:\n{EVIL}")
    found = json.loads(ask("policy", "services", "resolve", "node", "--json").out)
    assert found["left_out"] == {"node": [{"host": "evil.example.org", "named_by": [".npmrc"]}]}


@pytest.mark.parametrize(("typed", "taken"), [("y", True), ("Yes ", True), ("", False), (None, False)])
def test_resolve_asks_at_a_terminal_whether_to_include_a_host_of_the_project(
    ask: Ask, evil: Path, answers: Callable[..., None], typed: str | None, *, taken: bool
) -> None:
    answers(*[] if typed is None else [typed])
    assert ask("policy", "services", "resolve", "node").err.startswith(f"{EVIL}include it? [y/N] ")
    assert ("evil.example.org" in evil.read_text()) is taken


def test_resolve_from_project_includes_a_host_without_recording_trust(
    ask: Ask, evil: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remembering(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("agent_sandbox.features.trust.auto_trust.remembering", remembering)
    assert ask("policy", "services", "resolve", "node", "--from-project").code == 0
    assert "evil.example.org" in evil.read_text()


def test_resolve_writes_nothing_if_only_the_project_names_registries(
    ask: Ask, evil: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registries, "answer_of", lambda *_, **__: "")
    answer = ask("policy", "services", "resolve", "node")
    assert (answer.code, evil.exists()) == (1, False)
    assert answer.err.endswith(
        "error: node: only the project's files name registries; nothing was written\n"
        "  hint: check them, then add --from-project\n"
    )

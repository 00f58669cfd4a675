import os
import subprocess
from pathlib import Path

import pytest

from agent_sandbox.features.policy.versions import Version, load_version, read_committed, read_file, read_version
from agent_sandbox.problems import Problem, UserError
from certificates import make_authority

FILE = Path(".devcontainer/policy.yaml")
HINT = "name a file, a reference such as `main` or `HEAD~1`, or `REF:PATH`"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a repository whose policy was edited after its only commit."""
    monkeypatch.chdir(tmp_path)
    FILE.parent.mkdir()
    FILE.write_text("domains: [a.test]\n")
    who = ("-c", "user.name=me", "-c", "user.email=me@example.com")
    for argv in (("init", "--quiet", "--initial-branch=main"), ("add", "."), (*who, "commit", "--quiet", "-m", "x")):
        subprocess.run(["git", *argv], check=True)
    FILE.write_text("domains: [b.test]\n")
    return tmp_path


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("main", "main:.devcontainer/policy.yaml"),
        ("HEAD", "HEAD:.devcontainer/policy.yaml"),
        ("main:.devcontainer/policy.yaml", "main:.devcontainer/policy.yaml"),
    ],
)
@pytest.mark.usefixtures("repository")
def test_reads_the_policy_of_a_commit(word: str, name: str) -> None:
    assert read_version(word, find=lambda: FILE) == Version(name=name, content=b"domains: [a.test]\n", file=FILE)


@pytest.mark.parametrize("word", ["main", "main:.devcontainer/policy.yaml", "HEAD"])
@pytest.mark.usefixtures("repository")
def test_a_name_of_both_a_file_and_a_commit_is_an_error(word: str) -> None:
    Path(word).parent.mkdir(parents=True, exist_ok=True)
    Path(word).write_text("domains: [c.test]\n")
    with pytest.raises(UserError) as raised:
        read_version(word, find=lambda: FILE)
    hint = f"write ./{word} for the file; move it away to mean the commit"
    what = "is both a file here and a git commit"
    assert raised.value.problems == (Problem(where=word, what=what, hint=hint),)
    assert read_version(f"./{word}", find=lambda: FILE).content == b"domains: [c.test]\n"
    assert read_committed(FILE).content == b"domains: [a.test]\n"


@pytest.mark.usefixtures("repository")
def test_reads_the_current_content_of_a_file() -> None:
    assert read_version(str(FILE), find=lambda: FILE) == read_file(FILE)
    assert read_file(FILE) == Version(name=str(FILE), content=b"domains: [b.test]\n", file=FILE)


@pytest.mark.parametrize("word", ["nonsense", "main:missing.yaml", "--help", "-x:y"])
@pytest.mark.usefixtures("repository")
def test_rejects_names_that_git_does_not_know(word: str) -> None:
    with pytest.raises(UserError) as raised:
        read_version(word, find=lambda: FILE)
    (problem,) = raised.value.problems
    assert (problem.where.startswith(word), problem.hint) == (True, HINT)


def test_without_git_suggests_to_name_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"^main:.*: git cannot be run: No such file or directory; name a file"):
        read_version("main", find=lambda: tmp_path / "policy.yaml")


def test_a_version_is_loaded_with_the_layers_of_this_machine(fenced: Path) -> None:
    version = Version(name="main:policy.yaml", content=b"domains: [a.test]", file=FILE)
    assert [str(rule.origin) for rule in load_version(version, os.environ).rules.rules] == ["main:policy.yaml:1"]
    (fenced / "etc").mkdir()
    (fenced / "etc" / "policy.yaml").write_text("domains: [b.test]")
    assert len(load_version(version, os.environ).rules.restrictions) == 1


def test_loads_a_version_with_the_current_host_lists_and_certificates(tmp_path: Path) -> None:
    make_authority(tmp_path, ["a.test"])
    (tmp_path / "hosts.txt").write_text("b.test\n")
    said = b"domains_file: hosts.txt\nsettings: {upstream: {ca: ca.crt}}\n"
    version = Version(name="main:policy.yaml", content=said, file=tmp_path / "policy.yaml")
    policy = load_version(version, os.environ)
    assert [str(rule.origin) for rule in policy.index.rules_for("b.test")] == ["main:policy.yaml:1"]
    assert policy.authorities.startswith("-----BEGIN CERTIFICATE")
    (tmp_path / "hosts.txt").unlink()
    with pytest.raises(UserError, match=r"^main:policy\.yaml:1:1: `domains_file` names `hosts\.txt`, which is"):
        load_version(version, os.environ)


@pytest.mark.parametrize("word", ["HEAD", "HEAD:.devcontainer/policy.yaml"])
@pytest.mark.usefixtures("repository")
def test_reads_host_lists_and_services_from_the_same_commit(word: str) -> None:
    beside = {
        "hosts.txt": "a.test\n",
        "services/python.yaml": "domains: [{host: p.test, rules: [{methods: [GET]}]}]",
    }
    (FILE.parent / "services").mkdir()
    for name, text in {**beside, FILE.name: "domains_file: hosts.txt\nservices: [python, rust]"}.items():
        (FILE.parent / name).write_text(text)
    who = ("-c", "user.name=me", "-c", "user.email=me@example.com")
    subprocess.run(["git", "add", "."], check=True)
    subprocess.run(["git", *who, "commit", "--quiet", "-m", "y"], check=True)
    for name, text in beside.items():
        (FILE.parent / name).write_text(text.replace(".test", ".evil.test"))
    then = load_version(read_version(word, find=lambda: FILE), os.environ)
    now = load_version(read_file(FILE), os.environ)
    hosts = ("a.test", "p.test", "a.evil.test", "p.evil.test", "crates.io")
    assert [bool(then.index.rules_for(host)) for host in hosts] == [True, True, False, False, True]
    assert [bool(now.index.rules_for(host)) for host in hosts] == [False, False, True, True, True]


def test_names_an_invalid_version_in_the_error() -> None:
    with pytest.raises(UserError, match=r"^main:policy.yaml:1:1: unknown key 'domainz'"):
        load_version(Version(name="main:policy.yaml", content=b"domainz: []", file=FILE), os.environ)


def test_read_committed_returns_an_empty_policy_before_the_first_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    FILE.parent.mkdir()
    FILE.write_text("domains: [a.test]\n")
    with pytest.raises(UserError):
        read_committed(FILE)
    subprocess.run(["git", "init", "--quiet"], check=True)
    assert read_committed(FILE) == Version(name="nothing committed yet", content=b"", file=FILE)


@pytest.mark.usefixtures("repository")
def test_read_committed_returns_the_policy_of_the_last_commit() -> None:
    assert read_committed(FILE).content == b"domains: [a.test]\n"


@pytest.mark.usefixtures("repository")
def test_read_committed_returns_an_empty_policy_if_the_commit_lacks_the_file() -> None:
    other = Path("other.yaml")
    other.write_text("domains: [a.test]\n")
    assert read_committed(other) == Version(name="HEAD has no other.yaml", content=b"", file=other)


def test_read_committed_raises_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    file = tmp_path / "policy.yaml"
    file.write_text("")
    with pytest.raises(UserError):
        read_committed(file)

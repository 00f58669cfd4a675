import subprocess
from pathlib import Path

import pytest

from agent_sandbox.features.policy.service_versions import services_of
from agent_sandbox.problems import UserError

WHO = ("-c", "user.name=you", "-c", "user.email=you@example.com", "-c", "init.defaultBranch=main")


def write(folder: Path, **services: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in services.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def repository(folder: Path) -> Path:
    write(folder / "services", one="domains: [a.test]")
    (folder / "services" / "README").write_text("no service")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "one"), ("tag", "v1")):
        subprocess.run(["git", *WHO, *words], cwd=folder, check=True)
    return folder


def test_reads_a_folder_of_services_or_its_services_subfolder(tmp_path: Path) -> None:
    inner = write(tmp_path / "checkout" / "services", one="domains: [a.test]", two="domains: [b.test]")
    assert list(services_of(str(inner))) == list(services_of(str(tmp_path / "checkout"))) == ["one", "two"]


def test_reads_the_services_of_a_git_tag(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo")
    write(root / "services", one="domains: [other.test]", two="domains: [b.test]")
    found = services_of("v1", root=root)
    assert {name: [str(entry.host) for entry in layer.spec.domains] for name, layer in found.items()} == {
        "one": ["a.test"]
    }
    assert found["one"].origin("domains", 0).file == "services/one.yaml"


@pytest.mark.parametrize("version", ["v2", "--help", ""])
def test_rejects_a_name_that_is_neither_a_folder_nor_a_version(
    tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    root = repository(tmp_path / "repo")
    with pytest.raises(UserError) as error:
        services_of(version or "no such", root=root)
    assert str(error.value) == (
        f"{version or 'no such'}: not a folder, and not a version of the repository that contains the services; "
        "name a folder of services, from a checkout or an unpacked release"
    )


def test_reports_that_git_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"git: can't be run: No such file or directory; install git"):
        services_of("v1", root=tmp_path)


def test_names_the_invalid_file_of_an_old_version(tmp_path: Path) -> None:
    folder = write(tmp_path / "old", one="domain: []")
    with pytest.raises(UserError, match=r"one\.yaml:1:1: unknown key 'domain'"):
        services_of(str(folder))

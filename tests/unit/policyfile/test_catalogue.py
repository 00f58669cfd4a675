from pathlib import Path

import pytest

from agent_sandbox.policyfile.catalogue import Catalogue


def test_names_services_by_their_files(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("domains: [b.test]")
    (tmp_path / "a.yaml").write_text("domains: [a.test]")
    (tmp_path / "README.md").write_text("no service")
    services = Catalogue(folder=tmp_path)
    assert (list(services), len(services), "a" in services, "c" in services) == (["a", "b"], 2, True, False)
    assert (services["a"].name, services["a"].file) == ("service a", "services/a.yaml")


@pytest.mark.parametrize("name", ["c", "../a", "/etc/passwd", ""])
def test_rejects_names_without_a_file_in_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(KeyError):
        Catalogue(folder=tmp_path)[name]


def test_lists_the_folder_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("domains: [a.test]")
    services = Catalogue(folder=tmp_path)
    assert list(services) == ["a"]
    (tmp_path / "b.yaml").write_text("domains: [b.test]")
    assert (list(services), "b" in services) == (["a"], False)

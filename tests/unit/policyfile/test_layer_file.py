from pathlib import Path

from agent_sandbox.policyfile.layer_file import LayerFile, layer_beside


def test_the_organisation_layer_restricts_and_the_user_layer_does_not() -> None:
    path = Path("/etc/agent-sandbox/policy.yaml")
    assert layer_beside("organisation", path) == LayerFile(name="organisation", path=path, tighten=True)
    assert layer_beside("user", path) == LayerFile(name="user", path=path, tighten=False)


def test_shown_contains_the_layer_and_not_the_directory() -> None:
    names = [LayerFile(name=name, path=Path("/home/me/x/policy.yaml")).shown for name in ("project", "user")]
    assert names == ["policy.yaml", "user/policy.yaml"]


def test_a_broken_link_or_an_inaccessible_file_counts_as_present(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    paths = (tmp_path / "none", tmp_path / "no" / "folder", tmp_path / "link", tmp_path / "file" / "policy.yaml")
    assert [LayerFile(name="user", path=path).is_there for path in paths] == [False, False, True, True]

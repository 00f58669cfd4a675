from pathlib import Path

from agent_sandbox.policyfile.layer_file import LayerFile, layer_beside


def test_an_organisation_may_only_narrow_and_a_user_may_do_both() -> None:
    path = Path("/etc/agent-sandbox/policy.yaml")
    assert layer_beside("organisation", path) == LayerFile(name="organisation", path=path, tighten=True)
    assert layer_beside("user", path) == LayerFile(name="user", path=path, tighten=False)


def test_what_a_file_is_shown_as_tells_the_layer_and_not_where_it_lies() -> None:
    names = [LayerFile(name=name, path=Path("/home/me/x/policy.yaml")).shown for name in ("project", "user")]
    assert names == ["policy.yaml", "user/policy.yaml"]


def test_a_file_that_cannot_be_looked_at_is_there_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    paths = (tmp_path / "none", tmp_path / "no" / "folder", tmp_path / "link", tmp_path / "file" / "policy.yaml")
    assert [LayerFile(name="user", path=path).is_there for path in paths] == [False, False, True, True]

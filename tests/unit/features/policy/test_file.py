from pathlib import Path

import pytest

from agent_sandbox.features.policy.file import find_policy, layer_lines, named_policy, require_policy, shown
from agent_sandbox.policyfile import layer_beside, load_policy
from agent_sandbox.problems import UserError
from agent_sandbox.project.installed import read_project


def test_finds_the_policy_in_a_parent_directory(tmp_path: Path) -> None:
    inside = tmp_path / "src" / "deep"
    inside.mkdir(parents=True)
    file = tmp_path / ".devcontainer" / "policy.yaml"
    file.parent.mkdir()
    file.touch()
    assert find_policy(None, cwd=inside) == file


def test_prefers_the_projects_policy_to_one_in_a_subdirectory(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "src"):
        (folder / ".devcontainer").mkdir(parents=True)
        (folder / ".devcontainer" / "policy.yaml").touch()
    assert find_policy(None, cwd=tmp_path / "src") == tmp_path / "src" / ".devcontainer" / "policy.yaml"
    (tmp_path / ".devcontainer" / "docker-compose.yml").touch()
    assert find_policy(None, cwd=tmp_path / "src") == tmp_path / ".devcontainer" / "policy.yaml"


def test_returns_the_policy_of_a_given_path_without_searching(tmp_path: Path) -> None:
    assert find_policy(tmp_path, cwd=Path("/")) == tmp_path / ".devcontainer" / "policy.yaml"


def test_finds_the_policy_of_a_trusted_stack_by_name_from_any_directory(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    assert find_policy(Path("app-1"), cwd=elsewhere) == project / ".devcontainer" / "policy.yaml"
    assert find_policy(Path("app-2"), cwd=elsewhere) == Path("app-2") / ".devcontainer" / "policy.yaml"


def test_names_the_next_step_if_there_is_no_policy(tmp_path: Path) -> None:
    with pytest.raises(UserError) as raised:
        find_policy(None, cwd=tmp_path)
    expected = (
        f"{tmp_path}: there is no .devcontainer/policy.yaml here or above;"
        " name a file, or `agent-sandbox init AGENT` writes one"
    )
    assert str(raised.value) == expected


def test_shows_paths_below_the_working_directory_as_relative() -> None:
    assert shown(Path("/a/b/c"), cwd=Path("/a")) == Path("b/c")
    assert shown(Path("/x/c"), cwd=Path("/a")) == Path("/x/c")


def test_require_policy_warns_about_unmounted_layers_and_rejects_invalid_ones(
    project: Path, fenced: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = fenced / "etc"
    folder.mkdir()
    (folder / "policy.yaml").write_text("deny: [a.test]")
    require_policy(read_project(project))
    init = "agent-sandbox init aider, then agent-sandbox up"
    told = f"{folder}/policy.yaml exists, but the stack was made without it: {init}\n"
    assert capsys.readouterr().err == told
    (folder / "policy.yaml").write_text("deny: [*]")
    with pytest.raises(UserError):
        require_policy(read_project(project))


def test_accepts_one_named_policy_or_finds_the_one_of_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one, other = tmp_path / "one.yaml", Path("/other.yaml")
    assert [named_policy(one, None, path=None), named_policy(None, other, path=None)] == [Path("one.yaml"), other]
    assert named_policy(None, None, path=Path("/a")) == Path("/a/.devcontainer/policy.yaml")
    with pytest.raises(UserError, match=r"^/other.yaml: a second policy; name FILE or --policy, not both$"):
        named_policy(one, other, path=None)


def test_lists_the_layer_files_and_which_one_limits_the_others(tmp_path: Path) -> None:
    project, user, organisation = (tmp_path / name for name in ("policy.yaml", "user.yaml", "organisation.yaml"))
    project.write_text("domains: [example.org]")
    user.write_text("domains: [example.org]")
    organisation.write_text("domains: [example.org]")
    layers = (layer_beside("user", user), layer_beside("organisation", organisation))
    assert list(layer_lines(load_policy(project, layers=layers), layers)) == [
        f"with user/user.yaml: {user}",
        f"with organisation/organisation.yaml: {organisation}, which limits what all other layers allow",
    ]

import hashlib
from pathlib import Path

import pytest

from agent_sandbox.host import user_dirs
from agent_sandbox.host.user_dirs import (
    cache_directory,
    config_directory,
    home_directory,
    layer_folders,
    state_directory,
    state_file,
    state_name,
)
from table_tests import each


@each(
    ("environ", "expected"),
    [
        ({"HOME": "/home/me"}, Path("/home/me/.config/agent-sandbox")),
        ({"HOME": "/home/me", "XDG_CONFIG_HOME": "/cfg"}, Path("/cfg/agent-sandbox")),
        ({"HOME": "/home/me", "XDG_CONFIG_HOME": "cfg"}, Path("/home/me/.config/agent-sandbox")),
        ({"HOME": "/home/me", "XDG_CONFIG_HOME": ""}, Path("/home/me/.config/agent-sandbox")),
        ({"XDG_CONFIG_HOME": "/cfg"}, Path("/cfg/agent-sandbox")),
        ({"HOME": ""}, None),
        ({"HOME": "relative"}, None),
        ({}, None),
    ],
)
def test_finds_the_config_directory_by_xdg_config_home_or_home(environ: dict[str, str], expected: Path | None) -> None:
    assert config_directory(environ) == expected


def test_the_state_directory_is_in_tmp_without_a_home_directory() -> None:
    assert state_directory({}) == Path("/tmp/agent-sandbox-state")  # noqa: S108 - the fallback
    assert state_directory({"USER": "me"}) == Path("/tmp/agent-sandbox-me")  # noqa: S108 - the same
    assert state_directory({"HOME": "/home/me"}) == Path("/home/me/.local/state/agent-sandbox")


def test_the_state_name_is_a_hash_of_the_projects_path() -> None:
    assert state_name(Path("/home/me/app")) == hashlib.sha256(b"/home/me/app").hexdigest()[:32]
    assert state_name(Path("/home/me/\udcff")) != state_name(Path("/home/me/\udcfe"))


def test_each_path_has_its_own_state_file_even_if_the_path_is_not_utf8() -> None:
    files = [state_file("kind", Path("/home/me") / name, {"HOME": "/home/me"}) for name in ("app", "b", "b\udcff")]
    assert {file.parent for file in files} == {Path("/home/me/.local/state/agent-sandbox/kind")}
    assert len({file.name for file in files}) == 3


def test_there_is_a_cache_directory_only_with_a_home_directory() -> None:
    assert cache_directory({"HOME": "/home/me"}) == Path("/home/me/.cache/agent-sandbox")
    assert cache_directory({"HOME": "/home/me", "XDG_CACHE_HOME": "/c"}) == Path("/c/agent-sandbox")
    assert cache_directory({}) is None


def test_there_is_no_home_directory_if_home_is_unset() -> None:
    assert home_directory({}) is None
    assert home_directory({"HOME": "/home/me"}) == Path("/home/me")


def test_finds_the_folders_of_the_user_and_organisation_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_dirs, "ORGANISATION", Path("/etc/agent-sandbox"))
    system = {"organisation": Path("/etc/agent-sandbox")}
    assert layer_folders({"HOME": "/home/me"}) == {"user": Path("/home/me/.config/agent-sandbox")} | system
    assert layer_folders({}) == system

from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.policyfile import layer_beside
from agent_sandbox.problems import UserError
from agent_sandbox.proxy.settings import Settings, parse_layer


def test_all_paths_are_under_the_state_directory() -> None:
    settings = Settings(policy=Path("p"), listen=("127.0.0.1", 0), state=Path("/state"))
    found = (settings.control, settings.log, settings.certificate, settings.compiled, settings.folder)
    assert (settings.environment, settings.secrets) == (Path("/state/ca/placeholders.sh"), Path("/state/secrets"))
    assert settings.budgets == Path("/state/private/budgets.json")
    assert settings.git_settings == Path("/state/ca/gitconfig")
    places = ("run/control.sock", "log/traffic.jsonl", "ca/ca.crt", "private/compiled", "private/folder.json")
    assert found == tuple(Path("/state", place) for place in places)


def test_trusted_contains_only_the_given_upstream_ca() -> None:
    settings = Settings(policy=Path("p"), listen=("127.0.0.1", 0), state=Path("/state"))
    named = replace(settings, upstream_ca=Path("ca.pem"))
    assert (settings.trusted, named.trusted) == ((), (Path("ca.pem"),))


def test_parses_a_layer_with_its_file() -> None:
    assert parse_layer("organisation=/a=b") == layer_beside("organisation", Path("/a=b"))


@pytest.mark.parametrize("text", ["", "user", "user=", "project=/p"])
def test_rejects_an_invalid_layer(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_layer(text)
    assert str(caught.value) == f"--layer {text}: not NAME=FILE; names are user, organisation"

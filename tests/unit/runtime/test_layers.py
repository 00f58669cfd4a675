from pathlib import Path

import pytest

from agent_sandbox.policyfile import layer_beside
from agent_sandbox.runtime import places
from agent_sandbox.runtime.layers import layers_here, load_here


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Keep both layers in a folder of the test's."""
    monkeypatch.setattr(places, "ORGANISATION", tmp_path / "organisation")
    for name in ("organisation", "agent-sandbox"):
        (tmp_path / name).mkdir()
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_the_layers_of_a_machine_are_those_that_are_there(environ: dict[str, str], tmp_path: Path) -> None:
    project = tmp_path / "policy.yaml"
    assert layers_here(environ, beside=project) == ()
    user, organisation = tmp_path / "agent-sandbox" / "policy.yaml", tmp_path / "organisation" / "policy.yaml"
    organisation.touch()
    user.touch()
    both = (layer_beside("user", user), layer_beside("organisation", organisation))
    assert layers_here(environ, beside=project) == both
    assert layers_here(environ, beside=user) == both[1:]


def test_a_policy_is_loaded_with_them(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("domains: [a.test]")
    (tmp_path / "organisation" / "policy.yaml").write_text("domains: [b.test]")
    policy = load_here(tmp_path / "policy.yaml", environ)
    assert [str(ceiling.origin) for ceiling in policy.rules.ceilings] == ["organisation/policy.yaml:1"]

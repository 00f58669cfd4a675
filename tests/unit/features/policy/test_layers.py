from pathlib import Path

import pytest

from agent_sandbox.features.policy.layers import choices_here, company_ca, layers_here, load_here, offers_here
from agent_sandbox.host import user_dirs
from agent_sandbox.policyfile import layer_beside
from agent_sandbox.policytools.explain.request_line import RequestLine, read_request
from agent_sandbox.problems import UserError
from certificates import make_authority


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Keep both layers in the test's own directory."""
    monkeypatch.setattr(user_dirs, "ORGANISATION", tmp_path / "organisation")
    for name in ("organisation", "agent-sandbox"):
        (tmp_path / name).mkdir()
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_lists_the_existing_layers_beside_a_policy_file(environ: dict[str, str], tmp_path: Path) -> None:
    project = tmp_path / "policy.yaml"
    assert layers_here(environ, beside=project) == ()
    user, organisation = tmp_path / "agent-sandbox" / "policy.yaml", tmp_path / "organisation" / "policy.yaml"
    organisation.touch()
    user.touch()
    both = (layer_beside("user", user), layer_beside("organisation", organisation))
    assert layers_here(environ, beside=project) == both
    assert layers_here(environ, beside=user) == both[1:]


def test_loads_a_policy_with_the_layers_of_this_machine(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("domains: [a.test]")
    (tmp_path / "organisation" / "policy.yaml").write_text("domains: [b.test]")
    policy = load_here(tmp_path / "policy.yaml", environ)
    assert [str(restriction.origin) for restriction in policy.rules.restrictions] == ["organisation/policy.yaml:1"]


CA = "version: 1\nsettings: {upstream: {ca: ca.crt}}\n"
PROXY = "version: 1\nsettings: {upstream: {proxy: 'http://proxy.test:3128'}}\n"


@pytest.mark.parametrize(
    ("user", "organisation", "expected"),
    [
        ("", "", None),
        ("domains: [a.test]", "", None),
        (CA, "", "agent-sandbox/ca.crt"),
        ("", CA, "organisation/ca.crt"),
        (CA, "domains: [a.test]", "agent-sandbox/ca.crt"),
        (CA, CA, "organisation/ca.crt"),
        (CA, PROXY, None),  # the higher layer's settings apply as a whole, for requests too
        (f"tighten: true\n{CA}", "", "agent-sandbox/ca.crt"),
    ],
)
def test_builds_trust_the_ca_of_the_highest_layer_with_upstream_settings(
    environ: dict[str, str], tmp_path: Path, user: str, organisation: str, expected: str | None
) -> None:
    for name, text in (("agent-sandbox", user), ("organisation", organisation)):
        make_authority(tmp_path / name, ["a.test"])
        if text:
            (tmp_path / name / "policy.yaml").write_text(text)
    assert company_ca(environ) == (tmp_path / expected if expected else None)


def test_a_missing_file_of_the_companys_ca_is_reported_before_a_build(environ: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "agent-sandbox" / "policy.yaml"
    file.write_text(CA)
    with pytest.raises(UserError) as raised:
        company_ca(environ)
    assert str(raised.value) == (
        f"{file}:2:23: `ca` names `ca.crt`, which is not in the directory of this file; add the file, or "
        "correct the name"
    )


def test_caches_policies_and_offers_in_the_users_cache_directory(environ: dict[str, str], tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    environ["XDG_CACHE_HOME"] = str(cache)
    policy = tmp_path / "project" / ".devcontainer" / "policy.yaml"
    policy.parent.mkdir(parents=True)
    policy.write_text("domains: [a.test]")
    assert load_here(policy, environ) == load_here(policy, environ)
    assert len(list((cache / "agent-sandbox" / "policies").iterdir())) == 1
    assert offers_here(policy, environ) == offers_here(policy, environ)
    assert len(list((cache / "agent-sandbox" / "policies").iterdir())) == 2


def test_offers_options_only_of_services_that_have_rules_for_the_host(environ: dict[str, str], tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("services: [github]")
    offers = offers_here(policy, environ)
    hosts = {"github.com": ["github"], "huggingface.co": [], "b.test": []}
    for host, names in hosts.items():
        line = RequestLine(method="POST", url=f"https://{host}/o/n/git-receive-pack")
        request = read_request(load_here(policy, environ), line)
        assert [choice.entry["name"] for choice in choices_here(policy, request, offers)] == names


def test_loads_a_policy_if_the_cache_directory_cannot_be_created(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("domains: [a.test]")
    expected = load_here(tmp_path / "policy.yaml", environ)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for place in ("loop", "policy.yaml"):
        got = load_here(tmp_path / "policy.yaml", {**environ, "XDG_CACHE_HOME": str(tmp_path / place)})
        assert got == expected


@pytest.mark.parametrize("inside", [".", "deep/down"])
def test_caches_nothing_where_an_agent_can_write(environ: dict[str, str], tmp_path: Path, inside: str) -> None:
    policy = tmp_path / "project" / ".devcontainer" / "policy.yaml"
    policy.parent.mkdir(parents=True)
    policy.write_text("domains: [a.test]")
    cache = tmp_path / "project" / inside / "cache"
    cache.mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(cache)
    for place in (cache, link):
        load_here(policy, {**environ, "XDG_CACHE_HOME": str(place)})
    assert list(cache.iterdir()) == []

from agent_sandbox.policy.file.service_options import Access
from agent_sandbox.policyfile.catalogue import shipped_services
from agent_sandbox.policyfile.sources import _sources, git_services, is_source


def test_every_source_is_a_shipped_service() -> None:
    assert _sources() <= {*shipped_services()}


def test_git_servers_and_registries_are_sources_and_agents_are_not() -> None:
    assert all(map(is_source, ("github", "rust", "python", "node", "debian")))
    assert not any(map(is_source, ("claude", "github-x", "rust-publish", "claude-telemetry")))


def test_every_git_server_has_a_service_to_which_pushes_can_be_allowed() -> None:
    services = shipped_services()
    for host, name in git_services().items():
        git = services[name].spec.declared["git"]
        assert isinstance(git, Access)
        assert git.auth
        assert (git.levels, git.auth.host) == (("read", "readwrite"), host)

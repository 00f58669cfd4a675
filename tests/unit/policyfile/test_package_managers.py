from agent_sandbox.policyfile.package_managers import aliases, package_managers
from agent_sandbox.policyfile.parse.aliases import service_meant
from agent_sandbox.policyfile.resolved import RESOLVED


def test_only_the_resolved_services_have_package_manager_aliases() -> None:
    assert list(aliases()) == list(RESOLVED)
    assert [tool for name, tool in RESOLVED.items() if tool not in aliases()[name]] == []


def test_each_package_manager_names_the_command_that_resolves_its_service() -> None:
    assert {package_manager.service: package_manager.tool for package_manager in package_managers()} == RESOLVED
    for package_manager in package_managers():
        assert package_manager.way == f"agent-sandbox policy allow {package_manager.tool}"
        assert service_meant(package_manager.tool) == package_manager.service

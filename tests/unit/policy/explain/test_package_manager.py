import pytest
from msgspec.structs import replace

from agent_sandbox.policy.explain.package_manager import PackageManager, package_manager_of
from agent_sandbox.policy.http.request import parse_request
from agent_sandbox.policy.match.path_pattern import PathKind, parse_path_pattern

PIP = PackageManager(
    tool="pip", service="python", clients=("pip/",), paths=(parse_path_pattern(PathKind.GLOB, "/**/simple/*/"),)
)
APT = replace(PIP, tool="apt", service="debian", clients=("debian apt",), paths=())


@pytest.mark.parametrize(
    ("path", "agent", "package_manager"),
    [
        ("/", "pip/24.0 {}", PIP),
        ("/", "debian apt-HTTP/1.3 (2.6.1)", APT),
        ("/simple/requests/", None, PIP),
        ("/root/mirror/simple/requests/", "Debian APT-HTTP/1.3", APT),
        ("/simple/requests/", "curl/8.0", PIP),
        ("/simple/", "not pip/24", None),
        ("/", "", None),
    ],
)
def test_recognises_a_package_manager_by_user_agent_or_path(
    path: str, agent: str | None, package_manager: PackageManager | None
) -> None:
    headers = () if agent is None else (("accept", "*/*"), ("user-agent", agent))
    request = parse_request(scheme="https", host="a.test", port=443, method="GET", target=path, headers=headers)
    assert package_manager_of(request, (PIP, APT)) == package_manager


def test_returns_none_without_known_package_managers() -> None:
    assert (
        package_manager_of(parse_request(scheme="http", host="a.test", port=80, method="GET", target="/"), ()) is None
    )


def test_names_the_command_that_allows_its_registry() -> None:
    assert PIP.way == "agent-sandbox policy allow pip"

from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_sandbox.detect import Offer
from agent_sandbox.features.policy.registries import Machine
from agent_sandbox.features.policy.resolving import write
from agent_sandbox.features.policy.self_resolving import addresses, find
from agent_sandbox.policyfile import shipped_services
from agent_sandbox.problems import UserError
from table_tests import each


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / ".devcontainer" / "policy.yaml"
    path.parent.mkdir()
    path.write_text("services: [node]")
    return path


def machine(*npm: str) -> Machine:
    def run(argv: Sequence[str]) -> str:
        return " ".join(npm) if argv[0] == "npm" else ""

    return Machine(environ={}, run=run, root=Path("/no/such/root"))


def test_an_edited_file_is_kept_and_reported(policy: Path) -> None:
    write(policy, find(policy, ["node"], machine("https://npm.example.org/")).plans[0])
    with (policy.parent / "services" / "node.yaml").open("a") as file:
        file.write("# mine\n")
    found = find(policy, ["node"], machine("https://npm.example.org/"))
    assert found.notes == ("services/node.yaml: it was edited, so it was kept",)


def test_a_service_whose_registries_only_the_project_names_is_unknown(policy: Path) -> None:
    (policy.parent.parent / ".npmrc").write_text("registry=https://evil.example.org/\n")
    found = find(policy, ["debian", "node"], machine())
    assert (found.lines, found.unknown) == ((), ("debian", "node"))


def test_a_link_in_the_project_is_an_error_and_not_a_missing_answer(policy: Path, tmp_path: Path) -> None:
    (policy.parent / "services").symlink_to(tmp_path)
    with pytest.raises(UserError, match="agent-sandbox does not follow symbolic links"):
        find(policy, ["node"], machine("https://npm.example.org/"))


@each(
    ("offer", "shown"),
    [
        (Offer(host="a.example.org", files=(), schemes=("https",)), ["https://a.example.org"]),
        (Offer(host="a.example.org", files=(), schemes=("https",), ports=(443,)), ["https://a.example.org"]),
        (Offer(host="a.example.org", files=(), schemes=("https",), ports=(8443,)), ["https://a.example.org:8443"]),
        (
            Offer(host="a.example.org", files=(), schemes=("https", "http"), ports=(80, 8443)),
            ["https://a.example.org:8443", "http://a.example.org:8443", "http://a.example.org"],
        ),
    ],
)
def test_lists_the_addresses_of_a_registry(offer: Offer, shown: list[str]) -> None:
    assert list(addresses(offer)) == shown


def test_a_tool_is_configured_for_a_mirror_if_the_shipped_service_lacks_a_host(policy: Path) -> None:
    shipped = next(str(entry.host) for entry in shipped_services()["go"].spec.domains)
    for proxies, lines in {
        "": (),
        "direct": (),
        f"https://{shipped},direct": (),
        "https://go.example.org|direct": ("go-mirror is https://go.example.org, named by GOPROXY",),
        f"https://go.example.org,https://{shipped}": (
            "go-mirror is https://go.example.org, named by GOPROXY",
            f"go-mirror is https://{shipped}, named by GOPROXY",
        ),
    }.items():
        here = Machine(environ={"GOPROXY": proxies}, run=lambda _: "", root=Path("/no/such/root"))
        found = find(policy, ["go-mirror"], here)
        assert (found.lines, found.unknown) == (lines, ())

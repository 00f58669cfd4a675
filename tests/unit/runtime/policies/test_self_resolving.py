from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_sandbox.detect import Offer
from agent_sandbox.policyfile import shipped_services
from agent_sandbox.problems import UserError
from agent_sandbox.runtime.policies.registries import Machine
from agent_sandbox.runtime.policies.resolving import write
from agent_sandbox.runtime.policies.self_resolving import addresses, find, named_in, unresolved
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


@each(
    ("text", "names"),
    [
        ("services: [node, pip, {name: Apt}, github]", {"node", "python", "debian"}),
        ("services: [cargo, go]", {"rust-mirror", "go-mirror"}),
        ("services: [{readonly: true}, [node], 1]", set()),
        ("services: node", set()),
        ("- services", set()),
        ("", set()),
        ("services: [node", set()),
        ("# node\ndomains: [node]", set()),
    ],
)
def test_a_policy_names_them_in_any_spelling(text: str, names: set[str]) -> None:
    assert named_in(text) == names


def test_what_has_a_file_is_resolved(policy: Path) -> None:
    policy.write_text("services: [npm, pip]")
    assert unresolved(policy) == ("node", "python")
    write(policy, find(policy, ["node"], machine("https://npm.example.org/")).plans[0])
    assert unresolved(policy) == ("python",)
    for name in ("debian", "python"):
        (policy.parent / "services" / f"{name}.yaml").touch()
    assert unresolved(policy) == ()


def test_loading_reports_a_policy_that_cannot_be_read(policy: Path) -> None:
    policy.write_bytes(b"\xff")
    assert unresolved(policy) == ()
    policy.unlink()
    assert unresolved(policy) == ()


def test_a_file_that_was_edited_is_kept_and_told(policy: Path) -> None:
    write(policy, find(policy, ["node"], machine("https://npm.example.org/")).plans[0])
    with (policy.parent / "services" / "node.yaml").open("a") as file:
        file.write("# mine\n")
    found = find(policy, ["node"], machine("https://npm.example.org/"))
    assert found.notes == ("services/node.yaml: it was edited, so it was kept",)


def test_only_the_projects_registries_are_no_answer(policy: Path) -> None:
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
def test_a_registry_is_shown_by_its_addresses(offer: Offer, shown: list[str]) -> None:
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

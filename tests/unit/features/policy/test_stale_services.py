from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from agent_sandbox.features.policy.registries import Machine
from agent_sandbox.features.policy.resolving import write
from agent_sandbox.features.policy.self_resolving import find
from agent_sandbox.features.policy.stale_services import stale_services
from table_tests import each

NPM = {"npm": "https://npm.example.org/"}
NEW = "npm's configuration now names {}, which the service `node` does not allow yet: agent-sandbox policy allow npm"
GONE = "{} no longer names {}, which the service `node` still allows: agent-sandbox policy allow npm"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / ".devcontainer" / "policy.yaml"
    path.parent.mkdir()
    path.write_text("services: [npm]")
    return path


def machine(says: Mapping[str, str], **environ: str) -> Machine:
    def run(argv: Sequence[str]) -> str:
        return says.get(argv[0], "")

    return Machine(environ=environ, run=run, root=Path("/no/such/root"))


def resolved(policy: Path, here: Machine) -> None:
    for plan in find(policy, ["node"], here).plans:
        write(policy, plan)


@each(
    ("now", "expected"),
    [
        (NPM, ()),
        ({}, ()),
        ({"npm": "https://npm.example.org:443/"}, ()),
        ({"npm": "https://me:hunter2@npm.example.org/"}, ()),
        (
            {"npm": "https://new.example.org/"},
            (NEW.format("new.example.org"), GONE.format("npm's configuration", "npm.example.org")),
        ),
        ({"npm": "https://npm.example.org:8443/"}, (NEW.format("npm.example.org"),)),
        ({"npm": "http://npm.example.org/"}, (NEW.format("npm.example.org"),)),
    ],
)
def test_reports_registries_that_differ_from_the_resolved_service(
    now: Mapping[str, str], expected: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    policy = tmp_path_factory.mktemp("p") / ".devcontainer" / "policy.yaml"
    policy.parent.mkdir()
    policy.write_text("services: [npm]")
    resolved(policy, machine(NPM))
    assert stale_services(policy, machine(now), afresh=True) == expected


def test_a_missing_variable_is_reported(policy: Path) -> None:
    resolved(policy, machine(NPM, NPM_CONFIG_REGISTRY="https://mine.example.org/"))
    assert stale_services(policy, machine(NPM)) == (GONE.format("NPM_CONFIG_REGISTRY", "mine.example.org"),)


@pytest.mark.parametrize("by", [".npmrc", "npm's configuration in the image", "package-lock.json", "as I said"])
def test_does_not_report_hosts_that_this_machine_never_named(policy: Path, by: str) -> None:
    resolved(policy, machine(NPM))
    file = policy.parent / "services" / "node.yaml"
    host = f'  - {{host: x.example.org, reason: "named by {by}", rules: [{{methods: [GET]}}]}}\n'
    file.write_text(file.read_text() + host)
    assert stale_services(policy, machine(NPM)) == ()


def test_ignores_services_that_the_policy_does_not_name_or_that_are_invalid(policy: Path) -> None:
    resolved(policy, machine(NPM))
    now = machine({"npm": "https://new.example.org/"})
    assert len(stale_services(policy, now)) == 2
    policy.write_text("services: [python]")
    assert stale_services(policy, now) == ()
    policy.write_text("services: [node]")
    (policy.parent / "services" / "node.yaml").write_text("services: 1")
    assert stale_services(policy, now) == ()

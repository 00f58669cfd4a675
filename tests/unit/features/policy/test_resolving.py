import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_sandbox.detect import Offer
from agent_sandbox.features.policy.registries import Machine
from agent_sandbox.features.policy.resolving import Resolved, warnings, write
from agent_sandbox.features.policy.resolving import resolve as resolve_taking
from agent_sandbox.policyfile import load_policy
from agent_sandbox.problems import UserError
from agent_sandbox.project.render.reconcile import Verdict


def machine(root: Path, *, npm: str = "https://npm.example.org/") -> Machine:
    def run(argv: Sequence[str]) -> str:
        return npm if argv[0] == "npm" else ""

    return Machine(environ={}, run=run, root=root)


def resolve(
    name: str | None, policy: Path, machine: Machine, *, source: Path | None = None, force: bool = False
) -> Resolved:
    return resolve_taking(name, policy, machine, take=lambda *_: False, source=source, force=force)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """Return the policy of a project, which names a service that is not resolved yet."""
    path = tmp_path / "app" / ".devcontainer" / "policy.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("services: [node]")
    return path


def test_writes_a_resolved_service_that_the_policy_loads(policy: Path) -> None:
    assert load_policy(policy).rules.rules == ()
    before = os.umask(0o077)
    write(policy, resolve("node", policy, machine(policy.parent)))
    os.umask(before)
    assert [str(rule) for rule in load_policy(policy).rules.rules] == ["GET, HEAD https://npm.example.org"]
    services = policy.parent / "services"
    assert [path.stat().st_mode & 0o777 for path in (services, services / "node.yaml")] == [0o755, 0o644]


def test_without_a_name_tries_each_service_and_reports_those_without_a_registry(policy: Path) -> None:
    plan = resolve(None, policy, machine(policy.parent))
    assert [(change.path, change.verdict) for change in plan.changes] == [("services/node.yaml", Verdict.WRITTEN)]
    assert [problem.where for problem in plan.nothing] == ["debian", "python"]


def test_raises_if_no_service_has_a_registry(policy: Path) -> None:
    with pytest.raises(UserError) as error:
        resolve(None, policy, machine(policy.parent, npm=""))
    assert [problem.where for problem in error.value.problems] == ["debian", "node", "python"]


def test_keeps_an_edited_file_unless_forced(policy: Path) -> None:
    write(policy, resolve("node", policy, machine(policy.parent)))
    file = policy.parent / "services" / "node.yaml"
    file.write_text(f"{file.read_text()}# mine\n")
    plan = resolve("node", policy, machine(policy.parent))
    assert [(change.why, change.verdict) for change in plan.kept] == [("it was edited", Verdict.KEPT)]
    write(policy, plan)
    assert file.read_text().endswith("# mine\n")
    write(policy, resolve("node", policy, machine(policy.parent), force=True))
    assert not file.read_text().endswith("# mine\n")


def test_reads_the_file_that_is_given_as_source(policy: Path, tmp_path: Path) -> None:
    sources = tmp_path / "box.list"
    sources.write_text("deb http://deb.example.org/debian stable main\n")
    plan = resolve("debian", policy, machine(policy.parent), source=sources)
    assert [offer.host for offer in plan.offers["debian"]] == ["deb.example.org"]


def test_rejects_a_name_that_is_not_a_resolved_service(policy: Path) -> None:
    with pytest.raises(UserError) as error:
        resolve("github", policy, machine(policy.parent))
    assert str(error.value) == (
        "github: not a resolved service; one of: debian, node, python, go, java, ruby, rust; "
        "all other services ship with agent-sandbox"
    )


def test_leaves_out_registries_that_only_the_project_names_unless_the_user_accepts_them(policy: Path) -> None:
    (policy.parent.parent / ".npmrc").write_text("registry=https://evil.example.org/\n")
    plan = resolve("node", policy, machine(policy.parent))
    assert [offer.host for offer in plan.offers["node"]] == ["npm.example.org"]
    assert [offer.host for offer in plan.left["node"]] == ["evil.example.org"]
    taken = resolve_taking("node", policy, machine(policy.parent), take=lambda *_: True)
    assert [offer.host for offer in taken.offers["node"]] == ["evil.example.org", "npm.example.org"]
    assert taken.left == {"node": ()}


def test_plans_no_file_if_only_the_project_names_a_registry(policy: Path) -> None:
    (policy.parent.parent / ".npmrc").write_text("registry=https://evil.example.org/\n")
    plan = resolve("node", policy, machine(policy.parent, npm=""))
    assert (plan.changes, dict(plan.offers)) == ((), {})


@pytest.mark.parametrize(
    ("offer", "said"),
    [
        (Offer(host="npm.example.org", files=("f",), schemes=("https",)), []),
        (
            Offer(host="dpaste.org", files=("f",), schemes=("https",)),
            ["dpaste.org accepts pastes from anyone: anyone who knows the URL can read what the agent pastes there"],
        ),
        (
            Offer(host="xn--bcher-kva.example", files=("f",), schemes=("http",), ports=(80, 8443)),
            [
                "not encrypted: anyone on the network path can read and change it",
                "the host is displayed as b\u00fccher.example: check each letter",
                "port 8443 is not a usual web port: check what listens there",
            ],
        ),
    ],
)
def test_warns_about_risky_registries(offer: Offer, said: list[str]) -> None:
    assert list(warnings(offer)) == said


def test_does_not_write_through_a_symbolic_link_in_the_project(policy: Path, tmp_path: Path) -> None:
    plan = resolve("node", policy, machine(policy.parent))
    policy.parent.rename(tmp_path / "elsewhere")
    policy.parent.symlink_to(tmp_path / "elsewhere")
    for act in (lambda: write(policy, plan), lambda: resolve("node", policy, machine(policy.parent))):
        with pytest.raises(UserError, match="agent-sandbox does not follow symbolic links"):
            act()
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["policy.yaml"]

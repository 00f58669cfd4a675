import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_sandbox.detect import Offer
from agent_sandbox.policyfile import load_policy
from agent_sandbox.problems import UserError
from agent_sandbox.render.reconcile import Verdict
from agent_sandbox.runtime.policies.registries import Machine
from agent_sandbox.runtime.policies.resolving import Resolved, warnings, write
from agent_sandbox.runtime.policies.resolving import resolve as resolve_taking


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
    """Return the policy of a project, which need not be one that can be read."""
    path = tmp_path / "app" / ".devcontainer" / "policy.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("services: [node]")
    return path


def test_a_policy_that_names_a_service_loads_once_it_is_resolved(policy: Path) -> None:
    assert load_policy(policy).rules.rules == ()
    before = os.umask(0o077)
    write(policy, resolve("node", policy, machine(policy.parent)))
    os.umask(before)
    assert [str(rule) for rule in load_policy(policy).rules.rules] == ["GET, HEAD https://npm.example.org"]
    services = policy.parent / "services"
    assert [path.stat().st_mode & 0o777 for path in (services, services / "node.yaml")] == [0o755, 0o644]


def test_without_a_name_each_service_is_tried_and_what_is_not_found_is_told(policy: Path) -> None:
    plan = resolve(None, policy, machine(policy.parent))
    assert [(change.path, change.verdict) for change in plan.changes] == [("services/node.yaml", Verdict.WRITTEN)]
    assert [problem.where for problem in plan.nothing] == ["debian", "python"]


def test_where_nothing_is_found_at_all_it_is_an_error(policy: Path) -> None:
    with pytest.raises(UserError) as error:
        resolve(None, policy, machine(policy.parent, npm=""))
    assert [problem.where for problem in error.value.problems] == ["debian", "node", "python"]


def test_what_somebody_has_edited_is_kept_unless_forced(policy: Path) -> None:
    write(policy, resolve("node", policy, machine(policy.parent)))
    file = policy.parent / "services" / "node.yaml"
    file.write_text(f"{file.read_text()}# mine\n")
    plan = resolve("node", policy, machine(policy.parent))
    assert [(change.why, change.verdict) for change in plan.kept] == [("it was edited", Verdict.KEPT)]
    write(policy, plan)
    assert file.read_text().endswith("# mine\n")
    write(policy, resolve("node", policy, machine(policy.parent), force=True))
    assert not file.read_text().endswith("# mine\n")


def test_a_file_named_besides_is_read(policy: Path, tmp_path: Path) -> None:
    sources = tmp_path / "box.list"
    sources.write_text("deb http://deb.example.org/debian stable main\n")
    plan = resolve("debian", policy, machine(policy.parent), source=sources)
    assert [offer.host for offer in plan.offers["debian"]] == ["deb.example.org"]


def test_no_other_service_is_resolved(policy: Path) -> None:
    with pytest.raises(UserError) as error:
        resolve("github", policy, machine(policy.parent))
    assert str(error.value) == (
        "github: not a resolved service; one of: debian, node, python, go, java, ruby, rust; "
        "all other services ship with agent-sandbox"
    )


def test_what_only_the_project_names_is_left_out_until_somebody_takes_it(policy: Path) -> None:
    (policy.parent.parent / ".npmrc").write_text("registry=https://evil.example.org/\n")
    plan = resolve("node", policy, machine(policy.parent))
    assert [offer.host for offer in plan.offers["node"]] == ["npm.example.org"]
    assert [offer.host for offer in plan.left["node"]] == ["evil.example.org"]
    taken = resolve_taking("node", policy, machine(policy.parent), take=lambda *_: True)
    assert [offer.host for offer in taken.offers["node"]] == ["evil.example.org", "npm.example.org"]
    assert taken.left == {"node": ()}


def test_where_only_the_project_names_any_no_file_is_written(policy: Path) -> None:
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
def test_a_person_is_told_what_to_be_careful_of(offer: Offer, said: list[str]) -> None:
    assert list(warnings(offer)) == said


def test_nothing_is_written_where_a_link_in_the_project_leads(policy: Path, tmp_path: Path) -> None:
    plan = resolve("node", policy, machine(policy.parent))
    policy.parent.rename(tmp_path / "elsewhere")
    policy.parent.symlink_to(tmp_path / "elsewhere")
    for act in (lambda: write(policy, plan), lambda: resolve("node", policy, machine(policy.parent))):
        with pytest.raises(UserError, match="agent-sandbox does not follow symbolic links"):
            act()
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["policy.yaml"]

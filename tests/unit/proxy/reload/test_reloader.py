import asyncio
import contextlib
from pathlib import Path

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Effect, Policy
from agent_sandbox.policyfile import layer_beside, load_policy
from agent_sandbox.policyfile.resolved import TOOLS
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.proxy.audit.record import AuditRecord
from agent_sandbox.proxy.reload.policy_store import PolicyStore
from agent_sandbox.proxy.reload.reloader import Identity, Reloader, files_of, identity, watch
from agent_sandbox.proxy.reload.transition import PolicyTransition
from certificates import make_authority

OLD, NEW = Policy.deny_all("old"), Policy.deny_all("new")
KINDS = ("added", "removed", "others", "unreachable")
NOTHING = {**{kind: [] for kind in KINDS}, "counts": dict.fromkeys(KINDS, 0)}


class Desk:
    """A reloader of a policy that the test sets, and what it did."""

    def __init__(self) -> None:
        self.file: Policy | None = OLD
        self.steps: list[str] = []
        self.reviews: list[PolicyTransition] = []
        self.lines: list[AuditRecord] = []
        self.store = PolicyStore(Path("p.yaml"), load=self.load)
        self.published: list[Policy] = []
        self.reloader = Reloader(self.store, review=self.review, record=self.lines.append, publish=self.publish)
        self.steps.clear()

    def load(self, _: Path) -> Policy:
        self.steps.append("load")
        if self.file is None:
            raise UserError([Problem(where="p.yaml:1", what="bad")])
        return self.file

    async def review(self, revision: PolicyTransition) -> int:
        self.reviews.append(revision)
        await asyncio.sleep(0)
        self.steps.append("review")
        return 3

    def publish(self, policy: Policy) -> None:
        self.published.append(policy)
        self.steps.append("publish")


async def test_a_valid_file_is_loaded_and_open_connections_are_reviewed() -> None:
    desk = Desk()
    desk.file = NEW
    wanted = {"ok": True, "digest": NEW.digest, "problems": [], "change": NOTHING, "closed": 3}
    assert await desk.reloader.reload() == wanted
    assert desk.reviews == [PolicyTransition(old=OLD, new=NEW)]
    assert desk.published == [NEW]
    reason = (
        "policy reloaded: 0 rules added, 0 removed, 0 other changes; 0 hosts no longer reachable, 3 connections closed"
    )
    assert desk.lines == [AuditRecord(event=Event.POLICY, decision=Effect.ALLOW, reason=reason)]


async def test_an_invalid_file_changes_nothing() -> None:
    desk = Desk()
    desk.file = None
    refused = {"ok": False, "valid": True, "digest": OLD.digest, "problems": ["p.yaml:1: bad"]}
    assert await desk.reloader.reload() == refused
    assert (desk.reviews, desk.published, desk.store.current) == ([], [], OLD)
    assert [line.reason for line in desk.lines] == ["policy not reloaded, the file has problems: p.yaml:1: bad"]


async def test_two_simultaneous_reloads_run_one_after_the_other() -> None:
    desk = Desk()
    await asyncio.gather(*(desk.reloader.reload() for _ in range(2)))
    assert desk.steps == ["load", "review", "publish"] * 2
    assert len(desk.lines) == 2


class Looks:
    """The state of the files at each look, as a number; the watch ends after the last look."""

    def __init__(self, *looks: int) -> None:
        self.looks = list(looks)
        self.reloads: list[int] = []
        self.seen = 0

    def look(self) -> Identity:
        if not self.looks:
            raise asyncio.CancelledError
        self.seen = self.looks.pop(0)
        return ((self.seen,),)

    async def reload(self) -> None:
        self.reloads.append(self.seen)

    async def watched(self, *, wanted: bool = True) -> list[int]:
        """Return the states at which it reloaded."""
        with contextlib.suppress(asyncio.CancelledError):
            await watch(self.look, self.reload, wanted=lambda: wanted, every=0)
        return self.reloads


async def test_reloads_once_after_a_change_has_settled() -> None:
    assert await Looks(1, 1, 2, 2, 2, 2).watched() == [2]


async def test_does_not_reload_while_a_file_keeps_changing() -> None:
    assert await Looks(1, 2, 3, 4, 4, 5, 5).watched() == [4, 5]


async def test_does_not_reload_after_a_reverted_change() -> None:
    assert await Looks(1, 2, 1, 1, 1).watched() == []


async def test_does_not_reload_if_watching_is_not_wanted() -> None:
    assert await Looks(1, 2, 2, 2).watched(wanted=False) == []


async def test_ignores_changes_from_before_watching_was_wanted() -> None:
    desk = Looks(1, 2, 2, 2, 2)
    answers = [False, True, True, True, True]
    with contextlib.suppress(asyncio.CancelledError):
        await watch(desk.look, desk.reload, wanted=lambda: answers.pop(0), every=0)
    assert desk.reloads == []


def test_identity_changes_when_a_file_is_written_replaced_created_or_removed(tmp_path: Path) -> None:
    folder, other = tmp_path / "a", tmp_path / "b"
    seen = [identity([folder / "p.yaml"])]
    for each in (folder, other):
        each.mkdir()
        (each / "p.yaml").write_text("same")
    seen.append(identity([folder / "p.yaml"]))
    (folder / "p.yaml").write_text("longer")
    seen.append(identity([folder / "p.yaml"]))
    (folder / "new").write_text("longer")
    (folder / "new").replace(folder / "p.yaml")
    seen.append(identity([folder / "p.yaml"]))
    folder.rename(tmp_path / "c")
    other.rename(folder)
    seen.append(identity([folder / "p.yaml"]))
    (folder / "p.yaml").unlink()
    assert identity([folder / "p.yaml"]) == seen[0] == (None,)
    assert len(set(seen)) == len(seen)


def test_files_of_lists_all_files_of_a_policy(tmp_path: Path) -> None:
    policy, user, team = (tmp_path / name / "policy.yaml" for name in ("project", "user", "team"))
    for path, list_name in ((policy, "long.txt"), (user, "mine.txt"), (team, "ours.txt")):
        path.parent.mkdir()
        path.write_text(f"domains: [b.test]\ndomains_file: {list_name}\n")
        path.with_name(list_name).write_text("a.test\n")
    settings = "settings: {upstream: {ca: corp.pem}}"
    user.write_text(f"{user.read_text()}host_services: {{lab: {{to: 10.0.0.0/24, ports: [81]}}}}\n{settings}\n")
    make_authority(tmp_path, ["a.test"]).rename(user.with_name("corp.pem"))
    layers = [layer_beside("user", user), layer_beside("organisation", team)]
    resolved = [tmp_path / "project/services" / f"{name}.yaml" for name in TOOLS]
    named = [policy.with_name("long.txt"), team.with_name("ours.txt"), *map(user.with_name, ("corp.pem", "mine.txt"))]
    made = load_policy(policy, layers=layers)
    assert files_of(made, policy, layers) == (user, team, policy, *resolved, *named)
    assert files_of(Policy.deny_all("x"), policy, ()) == (policy, *resolved)

import asyncio
import contextlib
from pathlib import Path

from agent_sandbox.policy import Policy
from agent_sandbox.policyfile import layer_beside, load_policy
from agent_sandbox.policyfile.resolved import TOOLS
from agent_sandbox.proxy.reload.watch import Identity, files_of, identity, watch
from certificates import make_authority


class Desk:
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
    assert await Desk(1, 1, 2, 2, 2, 2).watched() == [2]


async def test_does_not_reload_while_a_file_keeps_changing() -> None:
    assert await Desk(1, 2, 3, 4, 4, 5, 5).watched() == [4, 5]


async def test_does_not_reload_after_a_reverted_change() -> None:
    assert await Desk(1, 2, 1, 1, 1).watched() == []


async def test_does_not_reload_if_watching_is_not_wanted() -> None:
    assert await Desk(1, 2, 2, 2).watched(wanted=False) == []


async def test_ignores_changes_from_before_watching_was_wanted() -> None:
    desk = Desk(1, 2, 2, 2, 2)
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

"""Accept harmless changes of git's settings and `.env`, and protect or hide them again while the agent works on."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from agent_sandbox.cli.terminal.output import say
from agent_sandbox.engines.container import Container
from agent_sandbox.engines.drivers import load_driver
from agent_sandbox.features.protect.harmless_settings import is_harmless
from agent_sandbox.features.protect.mount_checks import Inside, look_inside
from agent_sandbox.features.protect.snapshot import LOSSLESS, NOT_ALONE, Held, accept, read_held, recorded, restamp
from agent_sandbox.features.protect.snapshot_diff import rewritten
from agent_sandbox.host.git.ask import pushes_by_name
from agent_sandbox.host.git.git_config import settings_in
from agent_sandbox.host.git.repositories import GIT, MODULES
from agent_sandbox.printable import printable
from agent_sandbox.project.installed import read_facts
from agent_sandbox.project.project import Project
from agent_sandbox.project.render.paths import DOTENV
from agent_sandbox.stack.containers import HIDE

ACCEPTED = "replaced on the host machine; only harmless settings differ, so it is protected again, without a restart"
HIDDEN = "replaced on the host machine, so the agent could read it; it is hidden again, without a restart"
UNTIL_START = "replaced on the host machine, so the agent could read it until its container was started again"
SAME = "replaced on the host machine with the same content; it is protected again, without a restart"


def accept_harmless(project: Project, found: Sequence[Container], inside: Inside) -> Inside:
    """Protect what was lost again if only harmless settings changed, hide masked files, and return what is lost then.

    Nothing is accepted that the agent can still write: what counts is the content that is protected again. Whatever
    fails, the paths stay lost.
    """
    then = recorded(project.root, os.environ)
    # A path that is pending was refused before.
    if not inside.lost or then.pending:
        return inside
    now = read_settings(project, inside.lost)
    by_name, masked = pushes_by_name(project.root), read_facts(project.root).masked
    looked_at = [path for path in inside.lost if path not in masked or path == DOTENV]
    if not all(is_harmless(path, then, now, pushes_by_name=by_name and _is_own(path)) for path in looked_at):
        return inside
    left = protect_again(project, found, inside, then, now)
    if left == Inside():
        for path in inside.lost:
            lines = rewritten(path, then, now).lines if path in looked_at else ()
            say(f"{path}: {HIDDEN if path in masked else ACCEPTED if lines else SAME}")
            for line in lines:
                say(f"  {printable(line)}")
    return left


def report_hidden_by_start(project: Project, stamps: Mapping[str, str]) -> None:
    """Say once which masked files were replaced, by `stamps` from before a look that found none of them lost.

    A file that was only written to was hidden all the time.
    """
    then, masked = recorded(project.root, os.environ), read_facts(project.root).masked
    found = {path: stamp for path, stamp in stamps.items() if path in masked and stamp != then.stamps.get(path)}
    for path, stamp in found.items():
        if stamp.rpartition(":")[0] != then.stamps.get(path, "").rpartition(":")[0]:
            say(f"{path}: {UNTIL_START}")
    if found:
        restamp(project.root, os.environ, then, found)


def _is_own(path: str) -> bool:
    """Return whether these are the settings of the project's own repository: in others, git may push differently."""
    place = Path(path)
    return place == Path(GIT, "config") or (place.is_absolute() and MODULES not in place.parts)


def protect_again(project: Project, found: Sequence[Container], inside: Inside, then: Held, now: Held) -> Inside:
    """Protect lost paths again in the running agent container if they still have this content; return what is lost."""
    agent = next((one for one in found if one.service == "agent" and one.state == "running"), None)
    if agent is None:
        return inside
    masked = read_facts(project.root).masked
    digests = {path: f"{HIDE * (path in masked)}{_digest(now.texts.get(path, ''))}" for path in inside.lost}
    failure = load_driver().reprotect(agent, digests)
    left = look_inside(load_driver(), found, project.root)
    if left != Inside():
        if failure:
            say(printable(failure))
        return inside
    # Otherwise another command was faster, which has stored what it accepted.
    if not failure:
        accept(project.root, os.environ, then, now)
    return left


def read_settings(project: Project, paths: Sequence[str]) -> Held:
    """Return the content of these files, with the settings of that very content: the agent may be writing."""
    now = read_held(project.root, paths)
    settings = {
        path: found if found == (NOT_ALONE,) else settings_in(now.texts[path].encode(errors=LOSSLESS))
        for path, found in now.settings.items()
    }
    return replace(now, settings=settings)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors=LOSSLESS)).hexdigest()

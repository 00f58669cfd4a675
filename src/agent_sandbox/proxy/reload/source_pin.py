"""Pin the policy in force: after a restart that nobody asked for, nothing is in force that was not before.

A program of the agent can exhaust the proxy, and the engine then restarts it. Meanwhile a `git pull` may have changed
the policy file, or a checkout replaced its directory with one that the agent can write to. Such a restart loads the
policy that was in force. A container that was created or restarted by hand takes the file; but from a replaced
directory, only a container that was created since takes a changed policy.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_sandbox.atomic_file import write_file
from agent_sandbox.bounded_json import NotJsonError, read_json
from agent_sandbox.policy import Policy
from agent_sandbox.policy.compiler.codec import NotEncodableError, decode_policy, encode_policy
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.proxy.reload.policy_store import Load

WHAT = "its directory was replaced on the host after the proxy was created, and now has a different policy"
HINT = "check who wrote it, then run agent-sandbox up to recreate the proxy"
HELD_BACK = "the policy file has changed, and the proxy restarted by itself: the policy from before stays in force"
LOST = "it has changed, the proxy restarted by itself, and the policy from before could not be kept"
RELOAD = "agent-sandbox proxy reload"


class SourcePin:
    """Keeps in the file `memory` the policy that `container` loaded last, and its directory.

    `boot` identifies the start of the machine. `held_back` is set while an older policy is in force than the file's.
    """

    def __init__(self, *, load: Load, memory: Path, container: str, boot: str) -> None:
        self._load = load
        self._memory = memory
        self._here = {"container": container, "boot": boot}
        self._starts = True
        self.held_back = False

    def take(self, path: Path) -> Policy:
        """Load the policy. Raises UserError if both the policy and its directory have changed."""
        stored, starts = self._remembered(), self._starts
        self._starts = False
        if starts and self._restarted_by_itself(stored) and (kept := self._kept(path, stored)) is not None:
            self.held_back = True
            return kept
        if starts and stored:
            self._remember({**stored, "stopped": False}, path)
        policy = self._load(path)
        folder, digest = path.parent.stat().st_ino, policy.digest
        is_same_container = stored.get("container") == self._here["container"]
        if is_same_container and stored.get("folder") != folder and stored.get("digest") != digest:
            raise UserError([Problem(where=str(path), what=WHAT, hint=HINT)])
        self.held_back = False
        self._remember({**self._here, "folder": folder, "digest": digest, "form": _form(policy)}, path)
        return policy

    def stop(self) -> None:
        """Note that the proxy was asked to stop: the next start takes the file."""
        with suppress(UserError):  # the next start then counts as one that nobody asked for
            self._remember({**self._remembered(), **self._here, "stopped": True}, self._memory)

    def _restarted_by_itself(self, stored: Mapping[str, Any]) -> bool:
        """Return whether the same container ran before, and did not stop because somebody asked it to."""
        is_here = {key: stored.get(key) for key in self._here} == self._here
        return stored.get("container") == self._here["container"] and not (is_here and stored.get("stopped"))

    def _kept(self, path: Path, stored: Mapping[str, Any]) -> Policy | None:
        """Return the policy that was in force; None if the file still has it, or if it says `reload: watch`."""
        try:
            if self._load(path).digest == stored.get("digest"):
                return None
        except UserError:
            pass
        try:
            kept = decode_policy(stored["form"], {})
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError, UserError) as error:
            raise UserError([Problem(where=str(path), what=LOST, hint=RELOAD)]) from error
        return None if kept.settings.reload == "watch" else kept

    def _remembered(self) -> Mapping[str, Any]:
        with suppress(OSError, NotJsonError):
            stored = read_json(self._memory.read_bytes())
            if isinstance(stored, dict):
                return stored
        return {}

    def _remember(self, pin: Mapping[str, Any], path: Path) -> None:
        """Write the pin, or raise UserError: the next start could load a policy that is not in force now."""
        try:
            self._memory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_file(self._memory, json.dumps(pin).encode())
        except OSError:
            self._overwrite({**pin, "form": None}, path)

    def _overwrite(self, pin: Mapping[str, Any], path: Path) -> None:
        """Write the pin without the policy over the one before, which takes no space on a full disk."""
        try:
            with self._memory.open("r+b") as file:
                file.write(json.dumps(pin).encode())
                file.truncate()
        except OSError as error:
            what = f"it cannot be kept for the next start: {error.strerror}"
            raise UserError([Problem(where=str(path), what=what, hint=f"free disk space, then {RELOAD}")]) from error


def _form(policy: Policy) -> Any:  # noqa: ANN401 - what JSON can hold
    """Return the policy as plain data, None if it names host lists, which are not kept."""
    try:
        return encode_policy(policy)
    except NotEncodableError:
        return None

"""A request that waits for a person. It counts as denied until it is decided again."""

from collections.abc import Callable

from msgspec import Struct

from agent_sandbox.policy.engine.rule import Rule


class Waiting(Struct, eq=False, weakref=True):
    """One request that waits. `leave` takes it back when the client has left, `resume` has it decided again.

    `why` says how the waiting ended, for a denial; `grant` is what was granted to this request alone.
    """

    leave: Callable[[], None]
    resume: Callable[[], None] | None = None
    over: bool = False
    why: str = ""
    grant: Rule | None = None

    def end(self, why: str, *, grant: Rule | None = None) -> None:
        """Stop waiting. Only the first call counts."""
        if self.over:
            return
        self.over, self.why, self.grant = True, why, grant
        if self.resume is not None:
            self.resume()

"""ready.sh: the ready file is there when a start is through, and not before."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bash_harness import Shell


def test_ready_is_marked_and_forgotten_also_when_it_was_not_there(shell: Shell) -> None:
    script = """
    forget_ready; mark_ready; is_ready && echo "$ready_file"
    forget_ready; forget_ready; ! is_ready
    """
    here = shell.image / "lib" / "ready.sh"
    moved = f"source <(sed s,/tmp/,$HOME/, {here}); "
    assert shell("messages", moved + script).stdout == f"{shell.home}/agent-sandbox.ready\n"

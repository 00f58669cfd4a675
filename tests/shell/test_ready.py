"""ready.sh: the ready file exists after a start has finished, and not before."""

from bash_harness import Shell


def test_mark_ready_creates_and_forget_ready_removes_the_file_if_it_exists(shell: Shell) -> None:
    script = """
    forget_ready; mark_ready; is_ready && echo "$ready_file"
    forget_ready; forget_ready; ! is_ready
    """
    here = shell.image / "lib" / "ready.sh"
    moved = f"source <(sed s,/tmp/,$HOME/, {here}); "
    assert shell("messages", moved + script).stdout == f"{shell.home}/agent-sandbox.ready\n"

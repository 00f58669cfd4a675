import subprocess

import pytest

from agent_sandbox.host.pipes import Pipes, TooLateError, TooMuchError


def communicate(*argv: str, most: int = 1_000, seconds: float = 20.0) -> tuple[bytes, bytes]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(argv, **pipes) as child:  # type: ignore[call-overload] # these three
        try:
            return Pipes(child, b"", most=most).communicate(seconds)
        finally:
            child.kill()


def test_reads_both_outputs_up_to_the_limits_of_size_and_time() -> None:
    assert communicate("sh", "-c", "echo one; echo two >&2") == (b"one\n", b"two\n")
    with pytest.raises(TooMuchError):
        communicate("yes")
    with pytest.raises(TooLateError):
        communicate("sleep", "60", seconds=0.1)

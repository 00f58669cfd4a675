"""Run a command in the agent container on this terminal, and pass on the signals that ask it to end."""

import os
from collections.abc import Callable, Mapping

from agent_sandbox.engines.place import Place
from agent_sandbox.engines.protocol import NOTHING, Driver
from agent_sandbox.stack.containers import ENTER, PASS_SIGNAL, SESSION


def run_session(
    driver: Driver,
    agent: Place,
    *command: str,
    tty: bool = False,
    env: Mapping[str, str] = NOTHING,
    on_output: Callable[[bytes], object] | None = None,
) -> int:
    """Return the command's exit code. `on_output` gets its stdout, part by part; without it, that is ours.

    A signal would only end the engine's client. Another program inside finds the command by a random name, and sends
    it the signal.
    """
    session = os.urandom(8).hex()
    inside = driver.spawn(agent, ENTER, *command, stdin=True, tty=tty, env={**env, SESSION: session})
    return inside.attach(pass_signal=driver.spawn(agent, PASS_SIGNAL, session), on_output=on_output)

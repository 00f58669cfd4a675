from agent_sandbox.engines.events import Finished, ignore


def test_ignore_accepts_an_event() -> None:
    ignore(Finished(purpose="x"))

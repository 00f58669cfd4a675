from agent_sandbox.runtime.events import Finished, ignore


def test_nobody_is_told_where_nobody_listens() -> None:
    ignore(Finished(purpose="x"))

from agent_sandbox.proxy.exchange.waiting import Waiting


def test_waiting_ends_once() -> None:
    ends: list[str] = []
    waiting = Waiting(leave=lambda: None)
    waiting.resume = lambda: ends.append(waiting.why)
    waiting.end("first")
    waiting.end("second")
    assert (ends, waiting.over, waiting.why) == (["first"], True, "first")


def test_waiting_may_end_before_anyone_resumes() -> None:
    waiting = Waiting(leave=lambda: None)
    waiting.end("first")
    assert waiting.over

from agent_sandbox.proxy.exchange.waiting import Waiting


def test_waiting_ends_once() -> None:
    ends: list[str] = []
    waiting = Waiting(leave=lambda: None)
    waiting.resume = lambda: ends.append(waiting.why)
    waiting.end("first")
    waiting.end("second")
    assert (ends, waiting.over, waiting.why) == (["first"], True, "first")


def test_waiting_can_end_without_a_resume_callback() -> None:
    waiting = Waiting(leave=lambda: None)
    waiting.end("first")
    assert waiting.over

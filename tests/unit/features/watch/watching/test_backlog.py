from agent_sandbox.features.watch.watching.backlog import Backlog


def test_keeps_the_newest_and_counts_the_others() -> None:
    backlog = Backlog[int](3)
    for number in range(10_000):
        backlog.add(number)
    backlog.miss(5)
    assert backlog.take() == ([9_997, 9_998, 9_999], 10_002)
    assert backlog.take() == ([], 0)
    backlog.add(1)
    assert backlog.take() == ([1], 0)

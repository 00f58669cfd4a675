import threading

from agent_sandbox.proxy.audit.line_writer import LineWriter


def test_lines_are_written_in_order_and_in_batches() -> None:
    batches: list[bytes] = []
    writer = LineWriter(batches.append)
    for number in range(5):
        writer.add(b"%d\n" % number)
    writer.close()
    assert b"".join(batches) == b"0\n1\n2\n3\n4\n"
    assert len(batches) <= 5
    assert (writer.dropped, writer.error) == (0, "")


def test_writes_nothing_without_lines() -> None:
    batches: list[bytes] = []
    LineWriter(batches.append).close()
    assert batches == []


def test_drops_lines_over_the_capacity_while_a_write_is_stuck() -> None:
    stuck, go_on = threading.Event(), threading.Event()

    def write(_: bytes) -> None:
        stuck.set()
        go_on.wait(30)

    writer = LineWriter(write, capacity=3)
    writer.add(b"first\n")
    stuck.wait(30)
    for _ in range(10):
        writer.add(b"more\n")
    assert writer.dropped == 7
    go_on.set()
    writer.close()


def test_close_writes_lines_that_were_added_during_a_write() -> None:
    entered, go_on = threading.Event(), threading.Event()
    written: list[bytes] = []

    def write(data: bytes) -> None:
        entered.set()
        go_on.wait(30)
        written.append(data)

    writer = LineWriter(write)
    writer.add(b"first\n")
    entered.wait(30)
    writer.add(b"last\n")
    writer.close(seconds=0)
    go_on.set()
    writer.close()
    assert written == [b"first\n", b"last\n"]


def test_reports_a_full_disk_and_continues_to_write() -> None:
    faults = [OSError(28, "No space left on device")]
    written: list[bytes] = []

    def write(data: bytes) -> None:
        if faults:
            raise faults.pop()
        written.append(data)

    writer = LineWriter(write)
    writer.add(b"lost\n")
    while not writer.error:
        pass
    assert (writer.dropped, writer.error) == (1, "[Errno 28] No space left on device")
    writer.add(b"kept\n")
    writer.close()
    assert (written, writer.error) == ([b"kept\n"], "")

from collections.abc import Sequence

from agent_sandbox.cli.steps.on_terminal.overlays import Overlays


class Shown:
    """An overlay with these lines."""

    def __init__(self, *lines: str) -> None:
        self.shown: Sequence[str] = lines
        self.keys: list[str] = []

    def lines(self, columns: int) -> Sequence[str]:
        """Return the lines."""
        return self.shown if columns else ()

    def signal(self) -> bytes:
        """Ring if it is shown."""
        return b"\x07" if self.shown else b""

    def press(self, key: str) -> None:
        """Keep the key."""
        self.keys.append(key)


def test_shows_one_overlay_until_it_is_done_before_the_next() -> None:
    changes: list[bool] = []
    first, second = Shown(), Shown("second")
    both = Overlays((first, second), changed=lambda: changes.append(True))
    assert both.lines(80) == ("second",)
    first.shown = ("first",)
    assert both.lines(80) == ("second",)  # not another one under the user's finger
    second.shown = ()
    assert (both.lines(80), changes) == ([], [True])
    both.press("y")
    assert both.lines(80) == ("first",)
    both.press("d")
    assert (first.keys, second.keys) == (["d"], [])


def test_rings_for_each_active_overlay_and_shows_nothing_without_one() -> None:
    assert Overlays((Shown("a"), Shown(), Shown("b")), changed=lambda: None).signal() == b"\x07\x07"
    nothing = Overlays((Shown(),), changed=lambda: None)
    assert nothing.lines(80) == []
    nothing.press("y")

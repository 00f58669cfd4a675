from collections.abc import Callable
from pathlib import Path

import pytest

from agent_sandbox.features.copying.tree import RefusedError
from agent_sandbox.features.session.clipboard.image import Image, image_of
from agent_sandbox.features.session.clipboard.paste_reader import pasted
from agent_sandbox.features.session.on_terminal.image_question import FOLDER, ImageQuestion
from table_tests import each

PNG = b"\x89PNG\r\n\x1a\nrest"
CTRL_V = b"\x16"


class Asked(ImageQuestion):
    """A question whose work in the background is done when the test says so."""

    def __init__(self, clipboard: bytes = b"", *, error: str = "") -> None:
        self.copies: list[tuple[bytes, str]] = []
        self.work: list[Callable[[], None]] = []
        self.error, self.content = error, clipboard
        super().__init__("app-1", copy=self.copied, clipboard=self.read, changed=lambda: None, start=self.work.append)

    def copied(self, content: bytes, path: str) -> None:
        """Keep a copy, or fail."""
        if self.error:
            raise RefusedError(self.error, where="in the sandbox")
        self.copies.append((content, path))

    def read(self) -> Image | None:
        """Return the image on the clipboard."""
        return image_of("the clipboard", self.content) if self.content else None

    def does(self) -> bytes:
        """Do what waits in the background; return what the program gets then."""
        self.work.pop()()
        return self.shown() or self.typed(b"")

    def shown(self) -> bytes:
        """Return nothing, after looking at the overlay as the terminal does."""
        self.lines(80)
        return b""


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """An image on this machine."""
    (tmp_path / "shot.png").write_bytes(PNG)
    return tmp_path / "shot.png"


def test_copies_a_dropped_image_and_pastes_its_path(image: Path) -> None:
    asked = Asked()
    assert asked.typed(b"see " + pasted(f"'{image}' ") + b"now") == b"see "
    assert asked.typed(b"!") == b""
    name = f"{image} (png, 12 B)"
    assert asked.lines(200)[:4] == [
        "app-1: give the agent this image?",
        "",
        f"  {name}" if len(name) <= 97 else f"  {name[:47]}...{name[-47:]}",
        "",
    ]
    assert asked.lines(80)[4:] == [
        "  y  copy into the sandbox, and paste the path that it has there",
        "  n  paste the text as it is",
        "  x  paste the text as it is, and do not ask again in this terminal",
    ]
    asked.press("y")
    asked.press("y")
    assert asked.lines(80)[4:] == ["  copying ...", "  n  paste the text as it is"]
    typed = asked.does()
    ((content, path),) = asked.copies
    assert (content, typed) == (PNG, pasted(path) + b"now!")
    assert path.startswith(f"{FOLDER}/pasted-")
    assert path.endswith(".png")
    assert asked.lines(80) == []


@each("key, again", (("n", True), ("escape", True), ("x", False)))
def test_pastes_the_text_unchanged_unless_the_user_agrees(image: Path, key: str, *, again: bool) -> None:
    asked = Asked()
    sent = pasted(str(image))
    assert asked.typed(sent) == b""
    asked.press(key)
    assert (asked.typed(b"k"), asked.copies) == (sent + b"k", [])
    assert asked.typed(sent) == (b"" if again else sent)


def test_other_keys_do_not_answer_the_question(image: Path) -> None:
    asked = Asked()
    asked.press("y")
    asked.typed(pasted(str(image)))
    asked.press("a")
    assert (bool(asked.lines(80)), asked.work, asked.signal()) == (True, [], b"")


@each("text", ("hello", "/none/a.png", "/etc/passwd", "", "\x1b"))
def test_passes_other_pasted_text_on_at_once(text: str) -> None:
    asked = Asked()
    assert asked.typed(b"a" + pasted(f"x{text}")) == b"a" + pasted(f"x{text}")
    assert (asked.lines(80), asked.work) == ([], [])


def test_offers_only_to_paste_the_text_if_the_image_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "key.png").write_text("PRIVATE KEY")
    asked = Asked()
    asked.typed(pasted(f"{tmp_path}/key.png"))
    shown = asked.lines(400)
    assert shown[0] == "app-1: the agent cannot get this image"
    assert shown[-1] == "  n  paste the text as it is"
    asked.press("y")
    assert (asked.work, asked.typed(b"")) == ([], b"")
    asked.press("n")
    assert asked.typed(b"") == pasted(f"{tmp_path}/key.png")


def test_gives_the_image_on_the_clipboard_for_ctrl_v() -> None:
    asked = Asked(PNG)
    assert asked.typed(CTRL_V) == b""
    assert asked.lines(80) == []
    assert asked.does() == b""
    assert asked.lines(80)[2:6] == [
        "  the clipboard (png, 12 B)",
        "",
        "  y  copy into the sandbox, and paste the path that it has there",
        "  n  do not paste it",
    ]
    asked.press("y")
    assert asked.does() == pasted(asked.copies[0][1])


def test_sends_ctrl_v_to_the_program_without_an_image_on_the_clipboard() -> None:
    asked = Asked()
    assert asked.typed(CTRL_V) == b""
    assert asked.typed(b"x") == b""
    assert asked.does() == CTRL_V + b"x"


def test_shows_why_a_copy_failed(image: Path) -> None:
    asked = Asked(error="no space left on device")
    asked.typed(pasted(str(image)))
    asked.press("y")
    assert asked.does() == b""
    assert asked.lines(80)[2] == "  in the sandbox: no space left on device"
    asked.press("escape")
    assert asked.typed(b"") == pasted(str(image))


def test_a_program_error_in_the_background_does_not_block_the_terminal(image: Path) -> None:
    asked = Asked()
    asked.copied = lambda *_: 1 / 0  # type: ignore[method-assign,assignment]
    asked._copy = asked.copied
    asked.typed(pasted(str(image)))
    asked.press("y")
    with pytest.raises(ZeroDivisionError):
        asked.does()
    assert asked.lines(80)[2] == "  it failed"


def test_a_result_after_the_answer_changes_nothing(image: Path) -> None:
    asked = Asked()
    sent = pasted(str(image))
    asked.typed(sent)
    asked.press("y")
    asked.press("escape")
    assert asked.typed(b"") == sent
    assert asked.does() == b""
    assert asked.lines(80) == []

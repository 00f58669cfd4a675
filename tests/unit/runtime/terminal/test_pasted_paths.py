from pathlib import Path

from agent_sandbox.runtime.terminal.pasted_paths import image_paths
from table_tests import each


@each(
    "text, paths",
    (
        ("/pic/a.png", ("/pic/a.png",)),
        ("'/pic/a b.png' ", ("/pic/a b.png",)),
        ('"/pic/a b.JPG"\n', ("/pic/a b.JPG",)),
        (r"/pic/a\ \(1\).webp", ("/pic/a (1).webp",)),
        ("file:///pic/%C3%A4.gif", ("/pic/ä.gif",)),
        ("file://localhost/pic/a.gif", ("/pic/a.gif",)),
        ("/pic/a.png /pic/b.png", ("/pic/a.png", "/pic/b.png")),
        ("/pic/a.png\r\n/pic/b.png", ("/pic/a.png", "/pic/b.png")),
        (r"D:\pictures\a b.png", ("/mnt/d/pictures/a b.png",)),
        (r'"C:\a.png"', ("/mnt/c/a.png",)),
        ("file://other.test/pic/a.png", ()),
        ("file://[/a.png", ()),
        ("look at /pic/a.png", ()),
        ("/pic/a.png\x1b[2J", ()),
        ("/pic/a.pn\u200bg", ()),
        ("/etc/passwd", ()),
        ("/pic/a.png /etc/passwd", ()),
        ("tmp/a.png", ()),
        ("~/a.png", ()),
        ("$HOME/a.png", ()),
        ("'/pic/a.png", ()),
        (" ".join(["/pic/a.png"] * 11), ()),
        ("", ()),
    ),
)
def test_reads_text_that_has_only_paths_of_images(text: str, paths: tuple[str, ...]) -> None:
    assert image_paths(text) == paths


def test_a_path_with_spaces_needs_no_quotes_if_it_exists(tmp_path: Path) -> None:
    image = tmp_path / "a b.png"
    assert image_paths(str(image)) == ()
    image.touch()
    assert image_paths(f"{image} ") == (str(image),)

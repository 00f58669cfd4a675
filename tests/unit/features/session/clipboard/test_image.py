import os
from pathlib import Path

import pytest

from agent_sandbox.features.copying.tree import RefusedError
from agent_sandbox.features.session.clipboard import image as subject
from agent_sandbox.features.session.clipboard.image import Image, image_of, read_image
from table_tests import each

PNG = b"\x89PNG\r\n\x1a\nrest"


@each(
    "content, kind",
    (
        (PNG, "png"),
        (b"\xff\xd8\xff\xe0rest", "jpg"),
        (b"GIF87arest", "gif"),
        (b"GIF89arest", "gif"),
        (b"RIFF\x00\x00\x00\x00WEBPrest", "webp"),
    ),
)
def test_knows_images_by_their_content(content: bytes, kind: str) -> None:
    assert image_of("a.txt", content) == Image("a.txt", kind, content)


@each("content", (b"", b"-----BEGIN PRIVATE KEY-----", b" \x89PNG\r\n\x1a\n", b"RIFF\x00\x00\x00\x00WAVE", b"<svg/>"))
def test_refuses_other_content(content: bytes) -> None:
    with pytest.raises(RefusedError, match=r"^a\.png: is not a PNG, JPEG, GIF or WebP image$"):
        image_of("a.png", content)


def test_reads_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    found = read_image(f"{tmp_path}/a.png")
    assert (found.kind, found.content, found.title) == ("png", PNG, f"{tmp_path}/a.png (png, 12 B)")


def test_refuses_links_pipes_directories_and_large_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "link.png").symlink_to("a.png")
    (tmp_path / "above").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "large.png").write_bytes(PNG + b"x")
    monkeypatch.setattr(subject, "MOST_BYTES", len(PNG))
    link = "is a symbolic link, and links are not followed; it leads to"
    for path, problem in {
        "link.png": f"{tmp_path}/link.png: {link} {tmp_path}/a.png",
        "above/a.png": f"{tmp_path}/above: {link} {tmp_path}",
        "pipe.png": f"{tmp_path}/pipe.png: is not a regular file",
        "folder.png": f"{tmp_path}/folder.png: is not a regular file",
        "large.png": f"{tmp_path}/large.png: is larger than 20 MB",
        "none.png": f"{tmp_path}/none.png: no such file or directory",
    }.items():
        with pytest.raises(RefusedError) as refused:
            read_image(f"{tmp_path}/{path}")
        assert str(refused.value) == problem


def test_resolves_a_system_link_at_the_start_of_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    owners = {"/var": 0, "/mine": 1000}
    monkeypatch.setattr(os.path, "islink", lambda path: path in owners)
    monkeypatch.setattr(os.path, "realpath", lambda path: f"/private{path}")
    monkeypatch.setattr(os, "lstat", lambda path: os.stat_result((0, 0, 0, 0, owners[path], 0, 0, 0, 0, 0)))
    assert subject._without_system_link("/var/folders/a.png") == "/private/var/folders/a.png"
    assert subject._without_system_link("/mine/a.png") == "/mine/a.png"
    assert subject._without_system_link("/var") == "/var"

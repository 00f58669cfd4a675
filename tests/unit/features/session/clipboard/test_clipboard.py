import base64
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent_sandbox.features.copying.tree import RefusedError
from agent_sandbox.features.session.clipboard import clipboard as subject
from agent_sandbox.features.session.clipboard import image
from agent_sandbox.features.session.clipboard.clipboard import NAME, clipboard_image, commands
from agent_sandbox.features.session.clipboard.image import Image
from table_tests import each

PNG = b"\x89PNG\r\n\x1a\nrest"


@each(
    "platform, environ, programs",
    (
        ("darwin", {}, ["pngpaste", "osascript"]),
        ("linux", {"DISPLAY": ":0"}, ["xclip"]),
        ("linux", {"DISPLAY": ":0", "WAYLAND_DISPLAY": "w"}, ["wl-paste", "xclip"]),
        ("linux", {"WSL_DISTRO_NAME": "Debian"}, ["powershell.exe"]),
        ("linux", {}, []),
    ),
)
def test_asks_the_programs_of_the_platform(platform: str, environ: Mapping[str, str], programs: list[str]) -> None:
    assert [argv[0] for argv, _ in commands(environ, platform)] == programs


@each(
    "environ, platform, printed, expected",
    (
        ({"DISPLAY": ":0"}, "linux", PNG, PNG),
        ({"WSL_DISTRO_NAME": "x"}, "linux", base64.b64encode(PNG) + b"\r\n", PNG),
        ({"WSL_DISTRO_NAME": "x"}, "linux", b"not Base64", b""),
        ({}, "darwin", b"\xc2\xabdata PNGf" + PNG.hex().upper().encode() + b"\xc2\xbb\n", PNG),
        ({}, "darwin", b"\xc2\xabdata PNGf123\xc2\xbb\n", b""),
        ({}, "darwin", b"an error", b""),
    ),
)
def test_reads_what_the_programs_print(
    environ: Mapping[str, str], platform: str, printed: bytes, expected: bytes
) -> None:
    *_, (_, read) = commands(environ, platform)
    assert read(printed) == expected


@pytest.fixture
def paste(tmp_path: Path) -> Path:
    """A directory for `xclip`, outside the project."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "project").mkdir()
    return tmp_path / "bin"


def found(folder: Path, script: str) -> Image | None:
    """Return the image that this xclip prints."""
    (folder / "xclip").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "xclip").chmod(0o755)
    environ = {"DISPLAY": ":0", "PATH": f"{folder}:/usr/bin:/bin"}
    return clipboard_image(environ, project=folder.parent / "project")


def test_returns_the_image_or_nothing(paste: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "commands", lambda environ: commands(environ, "linux"))
    assert found(paste, r"printf '\211PNG\r\n\032\nrest'") == Image(NAME, "png", PNG)
    assert found(paste, "echo text") is None
    assert found(paste, r"printf '\211PNG\r\n\032\nrest'; exit 1") is None
    monkeypatch.setattr(image, "MOST_BYTES", 5)
    with pytest.raises(RefusedError, match=r"^the image on your clipboard: is larger than 20 MB$"):
        found(paste, r"printf '\211PNG\r\n\032\nrest'")


def test_runs_no_program_of_the_project(paste: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "commands", lambda environ: commands(environ, "linux"))
    ran = paste.parent / "ran"
    script = rf"printf '\211PNG\r\n\032\nrest'; : > {ran}"
    assert found(paste, script) == Image(NAME, "png", PNG)
    ran.unlink()
    environ = {"DISPLAY": ":0", "PATH": str(paste)}
    assert clipboard_image(environ, project=paste.parent) is None
    assert not ran.exists()

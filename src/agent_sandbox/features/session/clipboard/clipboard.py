"""Read an image from this machine's clipboard, with the programs that are usual for it."""

import base64
import binascii
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from agent_sandbox.features.copying.tree import RefusedError
from agent_sandbox.features.session.clipboard.image import MOST_BYTES, TOO_LARGE, Image, image_of
from agent_sandbox.host.process import capture
from agent_sandbox.host.program_path import program_path

SECONDS = 3.0
NAME = "the image on your clipboard"
POWERSHELL = (
    "Add-Type -AssemblyName System.Windows.Forms,System.Drawing;"
    "$i=[Windows.Forms.Clipboard]::GetImage();if($i){$m=New-Object IO.MemoryStream;"
    "$i.Save($m,[Drawing.Imaging.ImageFormat]::Png);[Convert]::ToBase64String($m.ToArray())}"
)
APPLESCRIPT_DATA = re.compile(rb"\s*\xc2\xabdata PNGf([0-9A-F]*)\xc2\xbb\s*")
type Command = tuple[tuple[str, ...], Callable[[bytes], bytes]]


def _base64(printed: bytes) -> bytes:
    try:
        return base64.b64decode(printed.strip(), validate=True)
    except binascii.Error:
        return b""


def _applescript(printed: bytes) -> bytes:
    found = APPLESCRIPT_DATA.fullmatch(printed)
    return bytes.fromhex(found[1].decode()) if found and len(found[1]) % 2 == 0 else b""


def commands(environ: Mapping[str, str], platform: str = sys.platform) -> Iterator[Command]:
    """Yield the programs that may print the image, and how to read what they print."""
    if platform == "darwin":
        yield ("pngpaste", "-"), bytes
        yield ("osascript", "-e", "get the clipboard as \u00abclass PNGf\u00bb"), _applescript
        return
    if "WSL_DISTRO_NAME" in environ:
        yield ("powershell.exe", "-NoProfile", "-NonInteractive", "-STA", "-Command", POWERSHELL), _base64
    if environ.get("WAYLAND_DISPLAY"):
        yield ("wl-paste", "--no-newline", "--type", "image/png"), bytes
    if environ.get("DISPLAY"):
        yield ("xclip", "-selection", "clipboard", "-target", "image/png", "-out"), bytes


def clipboard_image(environ: Mapping[str, str], *, project: Path) -> Image | None:
    """Return the image on the clipboard, or None if there is none; raise RefusedError if it is too large."""
    path = program_path(environ, project=project)
    for argv, read in commands(environ):
        program = shutil.which(argv[0], path=path)
        if program and (printed := _printed((program, *argv[1:]), path)):
            try:
                return image_of(NAME, read(printed))
            except RefusedError as error:
                if error.what == TOO_LARGE:
                    raise
    return None


def _printed(argv: tuple[str, ...], path: str) -> bytes:
    with tempfile.TemporaryFile(prefix="agent-sandbox-") as file:
        done = capture(
            argv, timeout=SECONDS, most=4 * MOST_BYTES, into=file, own_session=True, environment={"PATH": path}
        )
        file.seek(0)
        return file.read() if done.code == 0 else b""

"""images/agent/close.py: no file of a finished image gives its caller the rights of another user."""

import os
import subprocess
import sys
from pathlib import Path

CLOSE = Path(__file__).resolve().parents[2] / "images" / "agent" / "close.py"


def test_setuid_and_setgid_bits_are_removed_and_links_are_not_followed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "image", tmp_path / "outside"
    (inside / "bin").mkdir(parents=True)
    for path, mode in ((inside / "bin" / "su", 0o4755), (inside / "wall", 0o2755), (outside, 0o4755)):
        path.write_text("")
        path.chmod(mode)
    (inside / "link").symlink_to(outside)
    os.mkfifo(inside / "pipe")
    subprocess.run([sys.executable, "-I", CLOSE, inside], check=True, timeout=30)
    modes = {path.name: path.stat().st_mode & 0o7777 for path in (inside / "bin" / "su", inside / "wall", outside)}
    assert modes == {"su": 0o755, "wall": 0o755, "outside": 0o4755}


def test_capabilities_of_files_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "ping"
    path.write_text("")
    capability = bytes.fromhex("0100000200200000000000000000000000000000")
    try:
        os.setxattr(path, "security.capability", capability)
    except OSError:
        return  # needs root, and a file system with attributes
    subprocess.run([sys.executable, "-I", CLOSE, tmp_path], check=True, timeout=30)
    assert os.listxattr(path) == []

"""Check a `requirements.txt`: pinned versions with hashes, and nothing that could name another index or a file."""

import re
from collections.abc import Iterator

PINNED = r"[A-Za-z0-9._-]+(\[[a-z0-9,_-]+\])?==[0-9A-Za-z.!+-]+( ; [^\n;\\]+)? \\"
HASH = r"    --hash=sha256:[0-9a-f]{64}( \\)?"
LINE = re.compile(rf"{PINNED}|{HASH}|#[^\n]*|")


def faults_of_lock(text: str, package: str, version: str) -> Iterator[str]:
    """Yield what is wrong with the lock of a package: at most the first bad line, and a missing pin."""
    lines = text.splitlines()
    pinned = f"{package}=={version}"
    if not any(line.split(" ")[0] == pinned for line in lines):
        yield f"requirements.txt, beside it, does not pin {pinned}"
    for number, line in enumerate(lines, start=1):
        if not LINE.fullmatch(line):
            yield f"requirements.txt:{number} is neither a pinned version nor a sha256 hash"
            return

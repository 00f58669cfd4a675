"""The two lines at the top of a generated file: who wrote it, and the digest of what it wrote.

By them a file that nobody has touched is told from one that somebody has, and from one that is somebody else's.
"""

import hashlib
import re
from enum import StrEnum

from agent_sandbox import __version__

INIT = "agent-sandbox init"
MARK = "agent-sandbox-digest: sha256:"
STAMPED = re.compile(rf"\A[^\n]*\n(?:#|//) {MARK}(?P<digest>[0-9a-f]{{64}})\n(?P<body>.*)\Z", re.DOTALL)


class Hand(StrEnum):
    """Who wrote a file last."""

    OURS = "ours"
    EDITED = "edited"
    FOREIGN = "foreign"


def stamped(body: str, *, comment: str, command: str = INIT) -> str:
    """Return the text with its header; `comment` is what starts a comment in its language."""
    title = f"Written by agent-sandbox {__version__}. `{command}` updates it for as long as nobody edits it."
    return f"{comment} {title}\n{comment} {MARK}{_digest(body)}\n{body}"


def hand_of(text: str) -> Hand:
    """Say who wrote a text last; line ends do not count, since git may change them."""
    match = STAMPED.match(unix(text))
    if match is None:
        return Hand.FOREIGN
    return Hand.OURS if match["digest"] == _digest(match["body"]) else Hand.EDITED


def unix(text: str) -> str:
    """Return the text with line feeds for line ends."""
    return text.replace("\r\n", "\n")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

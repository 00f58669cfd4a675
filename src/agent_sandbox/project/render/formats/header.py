"""The two header lines of a generated file: what wrote it, and the digest of the rest.

They distinguish unedited files from edited ones and from files that we did not write.
"""

import hashlib
import re
from enum import StrEnum

INIT = "agent-sandbox init"
BEGIN = b"# Written by agent-sandbox"  # in files whose comments start with `#`
MARK = "agent-sandbox-digest: sha256:"
STAMPED = re.compile(rf"\A[^\n]*\n(?:#|//) {MARK}(?P<digest>[0-9a-f]{{64}})\n(?P<body>.*)\Z", re.DOTALL)


class Provenance(StrEnum):
    """Who last wrote a file."""

    OURS = "ours"
    EDITED = "edited"
    FOREIGN = "foreign"


def stamped(body: str, *, comment: str, command: str = INIT) -> str:
    """Return the text with its header; `comment` starts a comment in its language."""
    title = f"Written by agent-sandbox. `{command}` updates it unless it was edited."
    return f"{comment} {title}\n{comment} {MARK}{_digest(body)}\n{body}"


def provenance_of(text: str) -> Provenance:
    """Return who last wrote a text, ignoring line endings, which git may change."""
    match = STAMPED.match(unix(text))
    if match is None:
        return Provenance.FOREIGN
    return Provenance.OURS if match["digest"] == _digest(match["body"]) else Provenance.EDITED


def unix(text: str) -> str:
    """Return the text with LF line endings."""
    return text.replace("\r\n", "\n")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

"""What is copied of the user's own settings for an agent: files by allow-list, and some keys of a settings file."""

import json
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from agent_sandbox.bounded_json import read_json

# Text that an agent reads. Everything else of a directory stays on the host machine.
SUFFIXES = frozenset({".js", ".json", ".md", ".mjs", ".py", ".sh", ".toml", ".ts", ".txt", ".yaml", ".yml"})
# Names of files that usually hold a credential.
CREDENTIAL = re.compile(
    r"credential|secret|passw|token|id_(rsa|dsa|ecdsa|ed25519)|(^|[._-])(auth|keys?)[._-]", re.IGNORECASE
)
PRIVATE_KEY = "PRIVATE KEY-----"


def unfit(path: str, text: str) -> str:
    """Return why a file of the user's is not copied, or an empty string.

    >>> unfit("skills/a/SKILL.md", ""), unfit("skills/.env", "")
    ('', 'its name begins with a dot')
    """
    name = PurePosixPath(path).name
    if name.startswith("."):
        return "its name begins with a dot"
    if PurePosixPath(name).suffix not in SUFFIXES:
        return "it is not a text file that agents read"
    if CREDENTIAL.search(name):
        return "its name is that of a credential"
    return "it contains a private key" if PRIVATE_KEY in text else ""


def kept_keys(path: str, text: str, keys: Sequence[str], first: str) -> str:
    """Return a settings file with only these keys of the user's, over what the image would put there first.

    A value is kept if it is a plain value or a list of them. Raise ValueError if the user's file cannot be read.
    """
    import tomllib  # noqa: PLC0415 - every `init` imports this module, and few copy settings

    is_json = path.endswith(".json")
    read = read_json(text) if is_json else tomllib.loads(text)
    said = read if isinstance(read, dict) else {}
    kept = {key: said[key] for key in keys if key in said and _is_plain(said[key])}
    if is_json:
        return json.dumps({**kept, **(read_json(first) if first else {})}, indent=2) + "\n"
    taken = tomllib.loads(first)
    lines = (f"{key} = {json.dumps(value)}\n" for key, value in kept.items() if key not in taken)
    return "".join(lines) + first


def _is_plain(value: Any) -> bool:  # noqa: ANN401 - whatever a settings file holds
    return isinstance(value, str | bool | int) or (isinstance(value, list) and all(map(_is_word, value)))


def _is_word(value: Any) -> bool:  # noqa: ANN401 - as above
    return isinstance(value, str | bool | int)

"""Cache parsed YAML: importing the parser and parsing would take a sixth of the time of a fast command."""

import hashlib
import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from agent_sandbox.bounded_json import NotJsonError, read_json
from agent_sandbox.policyfile.cache_dir import CacheDir
from agent_sandbox.resources import PACKAGE
from agent_sandbox.runtime.host.user_dirs import private_cache

FOLDER = "documents"  # in the cache directory
PARSER = PACKAGE / "render" / "formats" / "foreign.py"


def read_document(text: str, *, file: str, **limits: int) -> Any:  # noqa: ANN401 - whatever a user's file contains
    """Return the document in a YAML text, with every scalar as text, or raise UserError.

    The limits are those of `load_foreign`.
    """
    folder = private_cache(os.environ)
    if folder is None:
        return _parsed(text, file, limits)
    stored = CacheDir(folder=folder / FOLDER)
    # The name covers the parser's source: a later version may be stricter.
    name = hashlib.sha256(f"{_digest(PARSER)}:{limits}:{text}".encode("utf-8", "surrogatepass")).hexdigest()
    found = stored.get(name)
    if found is not None:
        try:
            return read_json(found)
        except NotJsonError:
            pass  # written by another program
    document = _parsed(text, file, limits)
    stored.put(name, json.dumps(document).encode())
    return document


@cache
def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def mapping(value: Any) -> Mapping[str, Any]:  # noqa: ANN401 - a part of such a document
    """Return the mapping, or an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def _parsed(text: str, file: str, limits: Mapping[str, int]) -> Any:  # noqa: ANN401 - as above
    from agent_sandbox.render.formats.foreign import load_foreign  # noqa: PLC0415 - imports the YAML parser

    return load_foreign(text, file=file, **limits)

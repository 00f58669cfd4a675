"""The digests of the images that a project's services ran with, on this machine and out of the agent's reach."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from agent_sandbox.bounded_json import read_json
from agent_sandbox.problems import UserError
from agent_sandbox.runtime.host.files import problem_of, write_all
from agent_sandbox.runtime.host.user_dirs import state_file

FOLDER = "images"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def recorded_digests(root: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the recorded digest of each image."""
    try:
        said = read_json(_file(root, environ).read_text("utf-8"))
        return {image: digest for image, digest in said["digests"].items() if DIGEST.fullmatch(digest)}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}


def record_digests(root: Path, environ: Mapping[str, str], digests: Mapping[str, str]) -> None:
    """Record the digests, if they differ from the recorded ones."""
    if digests == recorded_digests(root, environ):
        return
    file = _file(root, environ)
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise UserError([problem_of(str(file.parent), error)]) from error
    write_all(file.parent, {file.name: json.dumps({"digests": dict(digests)})})


def _file(root: Path, environ: Mapping[str, str]) -> Path:
    return state_file(FOLDER, root.resolve(), environ)

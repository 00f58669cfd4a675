"""Read AWS keys as AWS's own programs keep and print them, for a secret that signs requests."""

import configparser
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from agent_sandbox.bounded_json import NotJsonError, read_json
from agent_sandbox.host.user_dirs import home_directory

NAMES = ("AccessKeyId", "SecretAccessKey", "SessionToken")
# The same in the file of credentials.
KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
# The seconds left of a value that has no valid end.
NEVER_VALID = float("-inf")
PROFILE = re.compile(r"(?!-)[A-Za-z0-9_.@+/-]{1,100}", re.ASCII)


def credentials_file(environ: Mapping[str, str]) -> Path:
    """Return where AWS's programs keep keys."""
    home = home_directory(environ) or Path("/")
    return Path(environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / ".aws" / "credentials")


def printed_keys(output: bytes) -> tuple[str, float | None]:
    """Return what `aws configure export-credentials` and other programs print for AWS: the keys, and the seconds left.

    There are colons between the keys; without keys, the first is "". Only temporary keys expire. Keys with an
    `Expiration` that is not a time have NEVER_VALID seconds left.
    """
    try:
        said = read_json(output)
    except NotJsonError:
        return "", None
    if not isinstance(said, dict):
        return "", None
    keys, end = _joined([str(said.get(name) or "") for name in NAMES]), said.get("Expiration")
    left = _seconds_left(end)
    return keys, NEVER_VALID if keys and end and left is None else left


def _seconds_left(said: object) -> float | None:
    """Return the seconds until a time in ISO 8601, None without one."""
    try:
        end = datetime.fromisoformat(said) if isinstance(said, str) else None
        return end.replace(tzinfo=end.tzinfo or UTC).timestamp() - time.time() if end else None
    except (ValueError, OverflowError):
        return None


def stored_keys(text: str, profile: str) -> str:
    """Return the keys of a profile in the text of a file of credentials; "" without any."""
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return ""
    return _joined([parser.get(profile, name, fallback="") for name in KEYS])


def _joined(keys: list[str]) -> str:
    return ":".join(filter(None, keys)) if keys[0] and keys[1] else ""

"""Read AWS keys as AWS's own programs keep and print them, for a secret that signs requests."""

import configparser
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from agent_sandbox.bounded_json import NotJsonError, read_json
from agent_sandbox.runtime.host.user_dirs import home_directory

NAMES = ("AccessKeyId", "SecretAccessKey", "SessionToken")
# The same in the file of credentials.
KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
PROFILE = re.compile(r"(?!-)[A-Za-z0-9_.@+/-]{1,100}", re.ASCII)


def credentials_file(environ: Mapping[str, str]) -> Path:
    """Return where AWS's programs keep keys."""
    home = home_directory(environ) or Path("/")
    return Path(environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / ".aws" / "credentials")


def printed_keys(output: bytes) -> tuple[str, float | None]:
    """Return what `aws configure export-credentials` prints: the keys with colons between them, and the seconds left.

    Without keys, the first is "". Only temporary keys expire.
    """
    try:
        said = read_json(output)
    except NotJsonError:
        return "", None
    if not isinstance(said, dict):
        return "", None
    return _joined([str(said.get(name) or "") for name in NAMES]), _seconds_left(said.get("Expiration"))


def _seconds_left(said: object) -> float | None:
    """Return the seconds until a time in ISO 8601, None without one."""
    try:
        end = datetime.fromisoformat(said) if isinstance(said, str) else None
    except ValueError:
        return None
    return end.replace(tzinfo=end.tzinfo or UTC).timestamp() - time.time() if end else None


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

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent_sandbox.features.secrets.sources.aws_keys import (
    NEVER_VALID,
    PROFILE,
    credentials_file,
    printed_keys,
    stored_keys,
)
from table_tests import each

STORED = """\
[default]
aws_access_key_id = AKIA1
aws_secret_access_key = a/b+c
region = eu-central-1

[session]
aws_access_key_id=ASIA2
aws_secret_access_key=50%off
aws_session_token=t/o=
[half]
aws_access_key_id = AKIA3
"""


@each(
    ("output", "keys"),
    [
        (b'{"Version": 1, "AccessKeyId": "AKIA1",\n "SecretAccessKey": "a/b+c"}\n', "AKIA1:a/b+c"),
        (b'{"AccessKeyId": "ASIA2", "SecretAccessKey": "s", "SessionToken": "t/o="}', "ASIA2:s:t/o="),
        (b'{"AccessKeyId": "AKIA1", "SecretAccessKey": "s", "SessionToken": null}', "AKIA1:s"),
        (b'{"AccessKeyId": "AKIA1"}', ""),
        (b'{"SecretAccessKey": "s", "SessionToken": "t"}', ""),
        (b"[]", ""),
        (b"export AWS_ACCESS_KEY_ID=AKIA1\n", ""),
        (b"", ""),
    ],
)
def test_reads_keys_from_the_output_of_the_program(output: bytes, keys: str) -> None:
    assert printed_keys(output) == (keys, None)


@each(
    ("end", "left"),
    [
        ("2026-11-22T12:00:00+00:00", 60.0),
        ("2026-11-22T12:00:00Z", 60.0),
        ("2026-11-22T14:00:00+02:00", 60.0),
        ("2026-11-22T12:00:00", 60.0),
        ("2026-11-22T11:00:00Z", -3540.0),
        ("soon", NEVER_VALID),
        (4, NEVER_VALID),
        (f"9999-12-31T23:59:59{'+00:00' * 2}", NEVER_VALID),
        (None, None),
        ("", None),
    ],
)
def test_temporary_keys_expire(end: object, left: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime(2026, 11, 22, 11, 59, tzinfo=UTC)
    monkeypatch.setattr(time, "time", now.timestamp)
    said = {"AccessKeyId": "ASIA2", "SecretAccessKey": "s", "SessionToken": "t", "Expiration": end}
    assert printed_keys(json.dumps(said).encode()) == ("ASIA2:s:t", left)


@each(
    ("profile", "keys"),
    [("default", "AKIA1:a/b+c"), ("session", "ASIA2:50%off:t/o="), ("half", ""), ("none", "")],
)
def test_reads_keys_from_the_credentials_file(profile: str, keys: str) -> None:
    assert stored_keys(STORED, profile) == keys


@pytest.mark.parametrize("text", ["", "aws_access_key_id = x\n", "[default\n"])
def test_a_damaged_file_has_no_keys(text: str) -> None:
    assert stored_keys(text, "default") == ""


def test_a_profile_cannot_be_an_option() -> None:
    assert PROFILE.fullmatch("--debug") is None


def test_a_variable_can_name_another_credentials_file() -> None:
    assert credentials_file({"HOME": "/home/me"}) == Path("/home/me/.aws/credentials")
    assert credentials_file({"HOME": "/home/me", "AWS_SHARED_CREDENTIALS_FILE": "/x/y"}) == Path("/x/y")

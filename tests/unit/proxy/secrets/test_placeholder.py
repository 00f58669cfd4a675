import subprocess
from base64 import b64encode
from pathlib import Path

import pytest

from agent_sandbox.policy.match.injection import Credential
from agent_sandbox.proxy.secrets.placeholder import (
    GIT_SETTINGS,
    Placeholders,
    is_placeholder,
    load_placeholders,
    write_environment,
    write_git_settings,
)
from policy_texts import PolicyOf
from table_tests import each

KEY = Credential(header="x-api-key", secret="key", kind="raw", env="A_KEY", prefix="sk-ant-api03-")
OTHER = Credential(header="authorization", secret="other", env="B_TOKEN")
PLACEHOLDERS = Placeholders(b"k" * 32)
ENDING = PLACEHOLDERS.ending("key")
POLICY = """
domains:
  - host: a.test
    transform:
      request:
        headers:
          X-API-Key:
            secret: key
            transform: {type: raw}
            client_shim: {kind: env, name: A_KEY, also: [C_KEY], prefix: sk-ant-api03-}
  - {host: b.test, transform: {request: {headers: {Authorization: {secret: other, transform: {type: bearer}}}}}}
  - c.test
"""


def test_a_placeholder_looks_like_the_credential() -> None:
    text = PLACEHOLDERS.of(KEY)
    assert text.startswith("sk-ant-api03-")
    assert text.removeprefix("sk-ant-api03-").isalnum()
    assert len(text) == len("sk-ant-api03-") + 36


def test_a_placeholder_differs_per_secret_and_sandbox() -> None:
    assert PLACEHOLDERS.ending("key") == Placeholders(b"k" * 32).ending("key")
    assert PLACEHOLDERS.ending("key") != PLACEHOLDERS.ending("other")
    assert PLACEHOLDERS.ending("key")[:16] == PLACEHOLDERS.ending("other")[:16]
    assert Placeholders(b"x" * 32).ending("key")[:16] != ENDING[:16]


@each(
    ("value", "expected"),
    [
        (f"sk-{ENDING}", True),
        (f" {ENDING} ", True),
        (f"Bearer sk-{ENDING}", True),
        (f"token {ENDING}", True),
        (f"Basic {b64encode(f'any:{ENDING}'.encode()).decode()}", True),
        (f"Basic {b64encode(f'{ENDING}:any'.encode()).decode()}", False),
        (f"{ENDING}x", False),
        (ENDING[1:], False),
        ("", False),
        ("\xff", False),
        ("Basic ************==", True),
        ("********", True),
        ("Basic *******", False),
        ("Basic ********x", False),
    ],
)
def test_a_placeholder_is_recognised_in_a_credential_of_any_kind(value: str, *, expected: bool) -> None:
    assert is_placeholder(value.encode("latin-1"), ENDING) is expected


def test_without_a_key_nothing_is_a_placeholder() -> None:
    none = Placeholders(b"")
    assert none.ending("key") == ""
    assert not is_placeholder(b"anything", none.ending("key"))
    assert none.place(b"/", ((b"a", b"b"),)) == ""
    assert not none.has("anything")
    assert PLACEHOLDERS.has(f"x{ENDING}y")


@each(
    ("target", "fields", "place"),
    [
        (b"/", ((b"X-API-Key", f"sk-{ENDING}".encode()),), "X-API-Key"),
        (b"/", ((b"A", b"b"), (b"Cookie", f"a=b; token={ENDING}".encode())), "Cookie"),
        (b"/", ((b"authorization", b"Basic " + b64encode(f"a:{ENDING}".encode())),), "authorization"),
        (b"/", ((b"authorization", b"Basic " + b64encode(f"{ENDING}:".encode())),), "authorization"),
        (b"/", ((b"authorization", b"basic\t" + b64encode(f"sk-{ENDING}:".encode()).rstrip(b"=")),), "authorization"),
        (b"/", ((b"authorization", b"Basic " + b64encode(b"a:other")),), ""),
        (b"/", ((b"authorization", b"Basic a"),), ""),
        (f"/?key={ENDING}".encode(), (), "URL"),
        (f"/?key={PLACEHOLDERS.of(OTHER)}".encode(), (), "URL"),
        (b"/", ((b"X-API-Key", b"own"),), ""),
    ],
)
def test_any_placeholder_of_the_sandbox_is_found_in_a_request(
    target: bytes, fields: tuple[tuple[bytes, bytes], ...], place: str
) -> None:
    assert PLACEHOLDERS.place(target, fields) == place


def test_only_secrets_with_a_variable_have_a_placeholder_in_the_environment(policy: PolicyOf) -> None:
    assert PLACEHOLDERS.environment(policy(POLICY)) == dict.fromkeys(("A_KEY", "C_KEY"), PLACEHOLDERS.of(KEY))


def test_the_key_is_created_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "private" / "placeholders.key"
    first = load_placeholders(path)
    assert load_placeholders(path).ending("key") == first.ending("key")
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_placeholders(tmp_path / "other" / "key").ending("key") != first.ending("key")


def test_a_damaged_key_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"short")
    assert load_placeholders(path).ending("key") == load_placeholders(path).ending("key")
    assert len(path.read_bytes()) == 32


def test_a_shell_exports_the_placeholders_except_those_that_are_set(tmp_path: Path) -> None:
    path = tmp_path / "ca" / "placeholders.sh"
    write_environment(path, {"A_KEY": "sk-1", "B_TOKEN": "tok_2"})
    assert path.stat().st_mode & 0o777 == 0o644
    done = subprocess.run(
        ["sh", "-c", '. "$0"; env', str(path)], env={"B_TOKEN": "own"}, capture_output=True, text=True, check=True
    )
    assert {"A_KEY=sk-1", "B_TOKEN=own"} <= set(done.stdout.splitlines())
    before = path.stat().st_ino
    write_environment(path, {"A_KEY": "sk-1", "B_TOKEN": "tok_2"})
    assert path.stat().st_ino == before
    write_environment(path, {})
    assert path.read_text() == ""


@each(("name", "value"), [("PATH", "x"), ("A_KEY", '"; touch x; "'), ("A_KEY", "$(x)"), ("A_KEY", "a\nb")])
def test_writes_no_variable_that_a_shell_would_execute(name: str, value: str) -> None:
    with pytest.raises(ValueError, match="not a placeholder variable"):
        write_environment(Path("/nonexistent/x"), {name: value})


def test_writes_git_settings_only_if_commits_are_signed(tmp_path: Path, policy: PolicyOf) -> None:
    on = policy("settings: {sign_commits: git.key}\n")
    file = tmp_path / "ca" / "gitconfig"
    write_git_settings(file, on)
    assert file.read_text() == GIT_SETTINGS
    before = file.stat().st_ino
    write_git_settings(file, on)
    assert file.stat().st_ino == before
    write_git_settings(file, policy("domains: [a.test]\n"))
    assert file.read_text() == ""


SIGNED = """
  - host: {host}
    transform:
      request:
        headers:
          Authorization:
            secret: aws.key
            transform: {{type: sigv4, region: {region}, service: sqs}}
            client_shim: {{kind: env, name: AWS_ACCESS_KEY_ID, prefix: AKIA}}"""


def test_sets_the_region_that_most_entries_use(tmp_path: Path, policy: PolicyOf) -> None:
    hosts = {"a.test": "us-west-2", "b.test": "us-east-1", "c.test": "us-east-1", "d.test": "eu-west-1"}
    entries = "".join(SIGNED.format(host=host, region=region) for host, region in hosts.items())
    variables = PLACEHOLDERS.environment(policy(f"domains:{entries}\n"))
    key = f"AKIA{PLACEHOLDERS.ending('aws.key')}"
    assert variables == {
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": key,
    }
    write_environment(tmp_path / "placeholders.sh", variables)
    assert 'export AWS_REGION="${AWS_REGION:-us-east-1}"\n' in (tmp_path / "placeholders.sh").read_text()

import io
import json
import os
import sys
from pathlib import Path

import pytest

from agent_sandbox.features.secrets.sources.recipes import Recipe, recipes_of
from fake_docker import FakeDocker
from fake_stack import trust
from run_cli import Ask
from secret_setup import PROGRAM, accepting_proxy

KEYS = "AKIA1:s3cret/key"
SQS, BUCKET = "sqs.eu-central-1.amazonaws.com", "my-bucket.s3.eu-central-1.amazonaws.com"
ENTRY = """\
  - host: {host}
    ports: [443]
    transform:
      request:
        headers:
          Authorization:
            secret: aws.key
            transform: {{type: sigv4, region: eu-central-1, service: {service}}}
            client_shim: {{kind: env, name: AWS_ACCESS_KEY_ID, prefix: AKIA}}
"""
TOLD = "in the sandbox, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY hold placeholders, and AWS_REGION the region"


@pytest.fixture
def file(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have a policy, and no settings of AWS's."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.delenv(name, raising=False)
    policy = project / ".devcontainer" / "policy.yaml"
    policy.write_text("version: 1\ndomains:\n  - a.test\n")
    trust(project)
    return policy


@pytest.fixture
def running(file: Path, docker: FakeDocker) -> FakeDocker:
    """Have a proxy that keeps what it is told, and has keys for one host."""
    assert file.exists()
    held = {"name": "aws.key", "hosts": [BUCKET], "problem": "", "expires": None}
    docker.says(f"{PROGRAM} secret list", out=json.dumps([held]))
    return accepting_proxy(docker)


@pytest.fixture
def keys(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have a file with keys, as AWS's programs keep it."""
    file = tmp_path_factory.mktemp("aws") / "credentials"
    file.write_text("[default]\naws_access_key_id = AKIA1\naws_secret_access_key = s3cret/key\n")
    file.chmod(0o600)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    return file


def told(docker: FakeDocker) -> list[str]:
    return [call.partition(" secret ")[2] for call in docker.calls if " secret set" in call]


def test_keys_of_this_machine_sign_requests_to_the_named_apis(
    running: FakeDocker, keys: Path, ask: Ask, project: Path, file: Path
) -> None:
    assert keys.exists()
    words = ("--region", "eu-central-1", "--api", "s3/my-bucket")
    answer = ask("secret", "setup", "aws", *words)
    assert (answer.code, answer.err.splitlines()[-2:]) == (0, [f"the proxy signs requests to {BUCKET}", TOLD])
    first = "version: 1\ndomains:\n  - a.test\n" + ENTRY.format(host=BUCKET, service="s3")
    assert file.read_text() == first
    assert told(running) == [f"set aws.key --host {BUCKET} --source aws --folder /state/secrets"]
    assert (running.folder / "told").read_text() == KEYS
    # Another API keeps what was there, and the source.
    assert ask("secret", "setup", "aws", "--region", "eu-central-1", "--api", "sqs").code == 0
    assert file.read_text() == first + ENTRY.format(host=SQS, service="sqs")
    recipe = Recipe(name="aws.key", hosts=(BUCKET, SQS), source="aws:default")
    assert recipes_of(project, os.environ).load() == (recipe,)
    again = ask("secret", "setup", "aws", *words)
    assert (again.code, again.out) == (0, "aws.key was replaced; the policy signs with it already\n")


def test_reads_the_keys_from_stdin_without_aws_settings(
    running: FakeDocker, ask: Ask, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{KEYS}\n".encode())))
    assert ask("secret", "setup", "aws", "--api", "sqs").code == 0
    assert told(running) == [f"set aws.key --host {BUCKET} --host {SQS} --folder /state/secrets"]
    assert ENTRY.format(host=SQS, service="sqs") in file.read_text()


def test_aws_setup_works_before_the_first_up(
    file: Path, keys: Path, ask: Ask, project: Path, docker: FakeDocker
) -> None:
    assert (file.exists(), keys.exists()) == (True, True)
    docker.says("ps --all")
    docker.says("image inspect", err="Error: No such image: agent-sandbox/proxy:0.1.0", code=1)
    answer = ask("secret", "setup", "aws", "--region", "eu-central-1", "--api", "sqs", "--ttl", "1h")
    assert answer.err.splitlines()[0] == "aws.key will be fetched from its source by agent-sandbox up"
    assert recipes_of(project, os.environ).load()[0].ttl == 3600


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "error: --api: no API is named\n  hint: such as --api dynamodb --api s3/BUCKET\n"),
        (("--api", "sqs"), "error: --region: no region is named\n  hint: such as --region eu-central-1\n"),
        (
            ("--api", "sts", "--region", "eu-central-1"),
            (
                "error: --api: sts gives out credentials, which the agent would see\n"
                "  hint: get them on your machine, and make them the source of a secret\n"
            ),
        ),
    ],
)
def test_a_setup_that_fails_changes_nothing(
    running: FakeDocker, ask: Ask, file: Path, words: tuple[str, ...], said: str
) -> None:
    before = file.read_text()
    answer = ask("secret", "setup", "aws", *words)
    assert (answer.code, answer.err) == (1, said)
    assert (file.read_text(), told(running)) == (before, [])


def test_rejects_a_region_for_another_service(running: FakeDocker, ask: Ask) -> None:
    answer = ask("secret", "setup", "openai", "--region", "eu-central-1")
    assert (answer.code, answer.err) == (
        1,
        "error: SERVICE: openai has no regions\n  hint: these options are for aws\n",
    )
    assert told(running) == []

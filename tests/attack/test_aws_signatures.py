"""AWS requests are signed by the proxy: a real client and forged requests, against a server that checks signatures."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Any

import botocore.session
import pytest
import yaml
from botocore.config import Config
from botocore.exceptions import ClientError

from agent_sandbox.policytools.aws_entries import apis
from agent_sandbox.proxy.secrets.store import put_secret
from aws_server import KEY_ID, SECRET, AwsServer, aws_server
from certificates import make_authority
from proxy_stand import ProxyProcess, get, read_answer

REGION = "eu-central-1"
S3, DYNAMO, OTHER = f"s3.{REGION}.amazonaws.com", f"dynamodb.{REGION}.amazonaws.com", "iam.amazonaws.com"
ENTRY = """\
  - host: {host}
    {more}
    transform:
      request:
        headers:
          Authorization:
            secret: aws.key
            transform: {{type: sigv4, region: eu-central-1, service: {service}}}
            client_shim: {{kind: env, name: AWS_ACCESS_KEY_ID, prefix: AKIA}}
"""
LIMITED = "rules: [{methods: [POST], max_body: 2MiB}]"
# As `agent-sandbox secret setup aws` writes it.
BUCKET = "my-bucket"
SET_UP = yaml.safe_dump([one.entry("aws.key") for one in apis([f"s3/{BUCKET}", "sqs"], REGION)])
POLICY = (
    f"version: 1\ndomains:\n  - {OTHER}\n"
    f"{ENTRY.format(host=S3, service='s3', more='ports: [443]')}"
    f"{ENTRY.format(host=DYNAMO, service='dynamodb', more=LIMITED)}"
    f"{indent(SET_UP, '  ')}"
)
SET_UP_HOSTS = tuple(one.host for one in apis([f"s3/{BUCKET}", "sqs"], REGION))
TOKEN = "a-session-token/of+the=owner"


@dataclass
class Stand:
    """The proxy, and the server behind all hosts."""

    proxy: ProxyProcess
    server: AwsServer
    secrets: Path

    @property
    def variables(self) -> dict[str, str]:
        """The variables in the sandbox."""
        script = (self.proxy.folder / "state" / "ca" / "placeholders.sh").read_text()
        return dict(re.findall(r'^export (\w+)="\$\{\w+:-([\w-]+)\}"$', script, re.MULTILINE))

    def client(self, service: str, **config: object) -> Any:  # noqa: ANN401 - botocore makes its methods at run time
        """Return a client, set up as in the sandbox."""
        session = botocore.session.Session()
        session.set_credentials(self.variables["AWS_ACCESS_KEY_ID"], self.variables["AWS_SECRET_ACCESS_KEY"])
        proxy = f"http://127.0.0.1:{self.proxy.address[1]}"
        settings = Config(proxies={"https": proxy}, retries={"max_attempts": 0}, **config)
        return session.create_client(service, region_name=REGION, verify=self.proxy.ready["ca"], config=settings)

    def ask(self, host: str, target: str, *fields: str) -> tuple[int, str]:
        """Send one request and return the status and the body."""
        with self.proxy.tls(host) as stream:
            stream.sendall(get(target, host, "Accept: application/json", *fields))
            status, body = read_answer(stream)
        return status, body.decode()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    folder = tmp_path_factory.mktemp("aws")
    hosts = [S3, DYNAMO, OTHER, *SET_UP_HOSTS]
    authority = make_authority(folder, hosts)
    secrets = folder / "state" / "secrets"
    secrets.mkdir(parents=True)
    with aws_server(folder / "leaf.pem") as server:
        resolve = {(name, 443): server.port for name in hosts}
        with ProxyProcess(folder, POLICY, resolve=resolve, upstream_ca=authority) as proxy:
            yield Stand(proxy, server, secrets)


@pytest.fixture
def stand(whole: Stand) -> Stand:
    for log in (whole.server.seen, whole.server.raw, whole.server.stored):
        log.clear()
    whole.server.token = None
    put_secret(whole.secrets, "aws.key", [S3, DYNAMO], f"{KEY_ID}:{SECRET}".encode())
    return whole


def test_botocore_reads_and_writes_without_the_real_keys(stand: Stand) -> None:
    s3 = stand.client("s3", s3={"addressing_style": "path"})
    key, body = "dir/a b+c=é~(1)!.txt", bytes(range(256)) * 40
    s3.put_object(Bucket="bucket", Key=key, Body=body, Metadata={"a": "two  words"})
    assert s3.get_object(Bucket="bucket", Key=key)["Body"].read() == body
    assert s3.get_object(Bucket="bucket", Key=key, Range="bytes=10-19")["Body"].read() == body[10:20]
    s3.head_object(Bucket="bucket", Key=key)
    stand.client("dynamodb").put_item(TableName="t", Item={"k": {"S": "v" * 300_000}})
    assert {key_id for _, _, key_id in stand.server.seen} == {KEY_ID}
    assert SECRET not in "".join(stand.server.raw)
    assert {line["secrets"][0]["kind"] for line in stand.proxy.lines if line.get("secrets")} == {"sigv4"}


def test_botocore_works_with_the_environment_variables_alone(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    put_secret(stand.secrets, "aws.key", SET_UP_HOSTS, f"{KEY_ID}:{SECRET}".encode())
    for name, value in stand.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{stand.proxy.address[1]}")
    monkeypatch.setenv("AWS_CA_BUNDLE", stand.proxy.ready["ca"])
    s3 = botocore.session.Session().create_client("s3")
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"x")
    botocore.session.Session().create_client("sqs").list_queues()
    assert stand.server.stored == {"/k": b"x"}
    assert [key_id for _, _, key_id in stand.server.seen] == [KEY_ID, KEY_ID]


def test_a_session_token_is_sent_and_signed(stand: Stand) -> None:
    put_secret(stand.secrets, "aws.key", [S3], f"{KEY_ID}:{SECRET}:{TOKEN}".encode())
    stand.server.token = TOKEN
    stand.client("s3", s3={"addressing_style": "path"}).put_object(Bucket="bucket", Key="k", Body=b"x")
    assert stand.server.stored == {"/bucket/k": b"x"}


def test_a_session_token_is_redacted_in_error_pages_but_not_in_objects(stand: Stand) -> None:
    put_secret(stand.secrets, "aws.key", [S3], f"{KEY_ID}:{SECRET}:{TOKEN}".encode())
    stand.server.token = TOKEN
    assert stand.ask(S3, "/b?errors=400", *signed(stand)) == (400, f"<Token>{'*' * len(TOKEN)}</Token>")
    # Objects are not searched, because a range of an object could not be.
    assert stand.ask(S3, "/b?errors=200", *signed(stand)) == (200, f"<Token>{TOKEN}</Token>")


def refused_by(stand: Stand) -> str:
    """Return the host that refused the key, as `status` shows it after the last request was recorded."""
    stand.proxy.line(event="request")
    stand.proxy.forget()
    found = stand.proxy.ask_control("status")["secrets"]
    return str(found[0]["refused_by"]) if found else ""


def test_status_names_the_host_that_refused_the_key_until_it_accepts_one(stand: Stand) -> None:
    assert stand.ask(S3, "/b?errors=403", *signed(stand))[0] == 403
    assert refused_by(stand) == ""  # the error may be about the request
    put_secret(stand.secrets, "aws.key", [S3, DYNAMO], f"{KEY_ID}:another{SECRET}".encode())
    status, body = stand.ask(S3, "/b", *signed(stand))
    assert (status, "<Code>SignatureDoesNotMatch</Code>" in body) == (403, True)
    assert refused_by(stand) == S3
    put_secret(stand.secrets, "aws.key", [S3, DYNAMO], f"{KEY_ID}:{SECRET}".encode())
    assert stand.ask(S3, "/b", *signed(stand))[0] == 200
    assert refused_by(stand) == ""


def test_a_malformed_secret_is_a_502(stand: Stand) -> None:
    put_secret(stand.secrets, "aws.key", [S3], SECRET.encode())
    status, body = stand.ask(S3, "/", *signed(stand))
    assert status == 502
    assert json.loads(body)["reason"] == (
        "secret aws.key is not of the form ACCESS_KEY_ID:SECRET_ACCESS_KEY, with :SESSION_TOKEN if there is one"
    )


def test_denies_a_body_over_1_mib_that_the_proxy_must_read_to_sign(stand: Stand) -> None:
    with pytest.raises(ClientError, match="a body of more than 1024 KiB, which the proxy signs only if the client"):
        stand.client("dynamodb").put_item(TableName="t", Item={"k": {"S": "v" * (1 << 20)}})
    assert stand.server.seen == []


def signed(stand: Stand, *, key: str = "", scope: str = "", day: str = "20261122", body: str = "") -> tuple[str, ...]:
    """Return the headers of a signed request. The signature itself is always wrong."""
    key = key or stand.variables["AWS_ACCESS_KEY_ID"]
    credential = f"{key}/{day}/{scope or f'{REGION}/s3'}/aws4_request"
    signature = f"SignedHeaders=host;x-amz-date, Signature={'0' * 64}"
    hashed = f"x-amz-content-sha256: {body or 'UNSIGNED-PAYLOAD'}"
    return (
        f"Authorization: AWS4-HMAC-SHA256 Credential={credential}, {signature}",
        "x-amz-date: 20261122T000000Z",
        hashed,
    )


def test_replaces_a_wrong_signature_of_the_client_with_the_owners(stand: Stand) -> None:
    assert stand.ask(S3, "/b?list-type=2&prefix=a%20b&acl", *signed(stand))[0] == 200
    assert stand.server.seen == [("GET", "/b?list-type=2&prefix=a%20b&acl", KEY_ID)]


NOT_SIGNED = "the request has no AWS signature (version 4) in its `Authorization` header"
OWN = "the request already has the header `authorization`, where the proxy would inject aws.key"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"key": "AKIAOFTHEATTACKER"}, OWN),
        ({"key": KEY_ID}, OWN),
        ({"scope": "us-east-1/s3"}, "the request is signed for s3 in us-east-1, not for s3 in eu-central-1"),
        ({"scope": f"{REGION}/iam"}, "the request is signed for iam in eu-central-1, not for s3 in eu-central-1"),
        ({"scope": f"{REGION}/s3/x"}, NOT_SIGNED),
        ({"day": "20261121"}, "the request has no `x-amz-date` of the day of its signature"),
        (
            {"body": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"},
            "the proxy cannot sign a body of the form STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
        ),
        ({"body": "E3"}, "the proxy cannot sign a body of the form E3"),
    ],
)
def test_denies_a_signature_with_another_key_scope_day_or_payload(
    stand: Stand, change: dict[str, str], why: str
) -> None:
    status, body = stand.ask(S3, "/", *signed(stand, **change))
    assert (status, json.loads(body)["reason"], stand.server.seen) == (403, why, [])


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("x-amz-security-token: theirs", "the request has its own credential in `x-amz-security-token`, where"),
        ("X_Amz_Security_Token: theirs", "the request has its own credential in `x-amz-security-token`, where"),
        ("x-amz-date: 20261122T000001Z", "the request has no `x-amz-date` of the day of its signature"),
        ("Authorization: AWS4-HMAC-SHA256 Credential=x", OWN),
    ],
)
def test_denies_a_second_credential_or_date_beside_the_signature(stand: Stand, more: str, why: str) -> None:
    status, body = stand.ask(S3, "/", *signed(stand), more)
    assert (status, json.loads(body)["reason"].startswith(why), stand.server.seen) == (403, True, []), body


@pytest.mark.parametrize("target", ["/b?a+b", "/b?a=1+2"])
def test_denies_a_query_with_a_plus_sign(stand: Stand, target: str) -> None:
    status, body = stand.ask(S3, target, *signed(stand))
    assert (status, stand.server.seen) == (403, [])
    assert json.loads(body)["reason"] == "the query has a `+`, which servers read in two ways"


def test_a_presigned_url_is_denied(stand: Stand) -> None:
    s3 = stand.client("s3", s3={"addressing_style": "path"}, signature_version="s3v4")
    for url in (
        s3.generate_presigned_url("get_object", {"Bucket": "b", "Key": "k"}),
        f"https://{S3}/b/k?AWSAccessKeyId={stand.variables['AWS_ACCESS_KEY_ID']}&Signature=x&Expires=1",
    ):
        status, body = stand.ask(S3, url.removeprefix(f"https://{S3}"))
        assert (status, "is a presigned URL (`?" in json.loads(body)["reason"]) == (403, True), body
    assert stand.server.seen == []


def test_an_unsigned_request_is_denied(stand: Stand) -> None:
    status, body = stand.ask(S3, "/")
    assert (status, json.loads(body)["reason"], stand.server.seen) == (403, NOT_SIGNED, [])


def test_the_placeholder_is_sent_to_no_other_host(stand: Stand) -> None:
    status, body = stand.ask(OTHER, "/", *signed(stand, scope="us-east-1/iam"))
    assert (status, "`Authorization` has a placeholder" in json.loads(body)["reason"]) == (403, True), body
    assert stand.server.seen == []

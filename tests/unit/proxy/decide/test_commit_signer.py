"""Requests for signatures: which the proxy answers, with which key, and how many."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from msgspec.structs import replace

from agent_sandbox.policy import Policy, Request, parse_request
from agent_sandbox.proxy.decide.commit_signer import (
    LONGEST_AGO,
    MOST,
    WINDOW_SECONDS,
    CommitSigner,
)
from agent_sandbox.proxy.secrets.commit_signature import NotSignedError
from agent_sandbox.proxy.secrets.store import put_secret, put_sourced, put_unresolved
from policy_texts import PolicyOf
from table_tests import each

OWN, NAME = "agent-sandbox.internal", "git.signing-key"
LINES = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).splitlines()
VALUE = b"me@example.com " + b"".join(LINES[1:-1])
NOW = 1_800_000_000
SETUP = "agent-sandbox secret setup signing, on the host machine"


def asked(
    path: str = "/sign-commit",
    *,
    method: str = "POST",
    host: str = OWN,
    scheme: str = "http",
    port: int = 80,
    headers: tuple[tuple[str, str], ...] = (),
) -> Request:
    return replace(parse_request(scheme=scheme, host=host, port=port, method=method, target=path), headers=headers)


def commit(email: str = "me@example.com", at: float = NOW, message: str = "a\n") -> bytes:
    tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    return f"tree {tree}\nauthor A <a@example.com> 1 +0000\ncommitter Me <{email}> {at:.0f} +0000\n\n{message}".encode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("secrets", "run"):
        (tmp_path / name).mkdir()
    put_secret(tmp_path / "secrets", NAME, [OWN], VALUE)
    return tmp_path / "secrets"


@pytest.fixture
def on(policy: PolicyOf) -> Policy:
    return policy(f"settings: {{sign_commits: {NAME}}}\n")


def signer(folder: Path | None, *, at: float = NOW) -> CommitSigner:
    return CommitSigner(folder, clock=lambda: at, monotonic=lambda: 0.0)


def refusal(signer: CommitSigner, policy: Policy, body: bytes = b"", request: Request | None = None) -> NotSignedError:
    with pytest.raises(NotSignedError) as refused:
        signer.signed(request or asked(), policy, body or commit())
    return refused.value


def test_answers_requests_to_sign_and_for_the_public_key() -> None:
    assert signer(None).answers(asked())
    assert signer(None).answers(asked("/signing-key", method="GET"))


@each(
    "sent",
    [
        asked(method="GET"),
        asked("/signing-key"),
        asked("/"),
        asked(host="a.test"),
        asked(scheme="https", port=443),
        asked(port=8080),
    ],
)
def test_answers_no_other_request(sent: Request) -> None:
    assert not signer(None).answers(sent)


def test_signs_a_commit_and_names_key_and_subject_in_the_reason(folder: Path, on: Policy) -> None:
    put_sourced(folder, NAME, [OWN], VALUE, source="ssh-key")
    signed = signer(folder).signed(asked(), on, commit(message="a\x1b[31m" + "x" * 100))
    assert signed.page.body.startswith(b"-----BEGIN SSH SIGNATURE-----\n")
    assert signed.page.body.endswith(b"\n-----END SSH SIGNATURE-----\n")
    assert (b"content-length", b"%d" % len(signed.page.body)) in signed.page.fields
    assert signed.reason == f"signed for me@example.com with {NAME}: a\\x1b[31m{'x' * 54}"
    # The clock of the test is far ahead of the file's time.
    assert [(use.secret, use.kind, use.source) for use in signed.uses] == [(NAME, "ssh-sign", "ssh-key")]
    assert signed.uses[0].age > 0


def test_returns_the_public_key_without_counting_a_use(folder: Path, on: Policy) -> None:
    found = signer(folder).signed(asked("/signing-key", method="GET"), on, b"")
    assert found.page.body.startswith(b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5")
    assert (found.reason, found.uses) == ("answered by the proxy: its signing key", ())


def test_signs_nothing_without_sign_commits_in_the_policy(folder: Path, policy: PolicyOf) -> None:
    why = refusal(signer(folder), policy("domains: [a.test]\n"))
    assert (str(why), why.hint, why.fault) == ("the policy does not have `sign_commits`", SETUP, False)


@each("hosts", [["a.test"], ["internal"], ["a.agent-sandbox.internal"]])
def test_does_not_sign_with_a_secret_for_a_server(hosts: list[str], folder: Path, on: Policy) -> None:
    put_secret(folder, NAME, hosts, VALUE)
    why = refusal(signer(folder), on)
    assert (str(why), why.hint, why.fault) == (f"the proxy has no signing key {NAME}", SETUP, False)


def test_reports_a_missing_signing_key(folder: Path, on: Policy) -> None:
    (folder / NAME).unlink()
    for one in (signer(folder), signer(None)):
        assert str(refusal(one, on)) == f"the proxy has no signing key {NAME}"


def test_a_key_whose_source_failed_is_a_fault(folder: Path, on: Policy) -> None:
    put_unresolved(folder, NAME, [OWN])
    why = refusal(signer(folder), on)
    assert (str(why), why.fault) == (f"secret {NAME} has no value now: its source failed", True)
    assert why.hint == "agent-sandbox secret sync, on the host machine"


def test_a_value_that_is_not_a_signing_key_is_a_fault(folder: Path, on: Policy) -> None:
    put_secret(folder, NAME, [OWN], b"ghp_a-token")
    why = refusal(signer(folder), on)
    assert (str(why), why.fault) == (
        f"secret {NAME} is not of the form EMAIL KEY, as `--from ssh-key:FILE` makes it",
        True,
    )


@each("email", ["you@example.com", "ME@example.com", "", "me@example.com.test", "m\u00e9@example.com"])
def test_refuses_another_committer(email: str, folder: Path, on: Policy) -> None:
    why = refusal(signer(folder), on, commit(email))
    assert str(why).endswith(f", and {NAME} signs only for me@example.com")
    assert why.hint == "set user.email to me@example.com, or commit with --no-gpg-sign"


@each("off", [-LONGEST_AGO - 1, LONGEST_AGO + 1])
def test_refuses_a_commit_dated_more_than_a_day_from_now(off: float, folder: Path, on: Policy) -> None:
    assert str(refusal(signer(folder), on, commit(at=NOW + off))) == (
        "the date of the commit is more than a day from now"
    )


def test_refuses_an_encoded_body(folder: Path, on: Policy) -> None:
    request = asked(headers=(("Content-Encoding", "gzip"),))
    assert str(refusal(signer(folder), on, request=request)) == "the body is encoded"


def test_limits_signatures_per_hour_and_does_not_count_refusals(folder: Path, on: Policy) -> None:
    times = [0.0]
    one = CommitSigner(folder, clock=lambda: NOW, monotonic=lambda: times[0])
    for _ in range(MOST):
        one.signed(asked(), on, commit())
        refusal(one, on, b"x")
    times[0] = WINDOW_SECONDS - 90
    why = refusal(one, on)
    assert (str(why), why.hint) == (f"{MOST} commits were signed within an hour", "wait 2 min")
    times[0] = WINDOW_SECONDS
    assert one.signed(asked(), on, commit()).page.status == 200

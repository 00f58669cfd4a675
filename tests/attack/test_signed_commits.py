"""The proxy signs commits: real git with the program in the agent image, and attacks by an agent."""

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_sandbox.features.secrets.sources.ssh_key import key_on_one_line
from agent_sandbox.proxy.secrets.placeholder import PROGRAM
from agent_sandbox.proxy.secrets.store import put_secret
from proxy_stand import ProxyProcess, get, read_answer

OWN, ME = "agent-sandbox.internal", "me@example.com"
SIGN = Path(__file__).parents[2] / "images/agent/sign-commit"
POLICY = "version: 1\nsettings: {sign_commits: git.signing-key}\ndomains: [example.com]\n"
TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


@dataclass
class Stand:
    """The proxy, a repository in the sandbox, and the file of allowed signers on the host machine."""

    proxy: ProxyProcess
    folder: Path
    key: str

    @property
    def secrets(self) -> Path:
        """The secret store."""
        return self.folder / "state" / "secrets"

    def git(self, *words: str, check: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        """Run git as in the sandbox: with the settings that the proxy wrote."""
        proxy = f"http://127.0.0.1:{self.proxy.address[1]}"
        given = {"http_proxy": proxy, "GIT_CONFIG_GLOBAL": str(self.folder / "gitconfig"), **more}
        environment = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", **given}
        return subprocess.run(
            ("git", *words),
            cwd=self.folder / "repository",
            env=environment,
            capture_output=True,
            text=True,
            check=check,
            timeout=300,
        )

    def ask_key(self) -> list[str]:
        """Ask for the public key, as git does."""
        environment = {**os.environ, "http_proxy": f"http://127.0.0.1:{self.proxy.address[1]}"}
        done = subprocess.run((SIGN, "key"), env=environment, capture_output=True, text=True, check=True, timeout=300)
        return done.stdout.split()

    def post(self, body: bytes, *fields: str, path: str = "/sign-commit", host: str = OWN) -> tuple[int, str]:
        """Send one request and return the status and the text."""
        more = "".join(f"{field}\r\n" for field in (f"Content-Length: {len(body)}", "Accept: text/plain", *fields))
        head = f"POST http://{host}{path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n"
        with self.proxy.connect() as stream:
            stream.sendall(head.encode() + body)
            status, answer = read_answer(stream)
        return status, answer.decode()

    def refused(self, body: bytes, *fields: str) -> str:
        """Send one request and return the reason of its denial."""
        status, answer = self.post(body, *fields)
        assert status == 403, answer
        return answer.partition("Reason: ")[2].partition("\n")[0]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    folder = tmp_path_factory.mktemp("signing")
    subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key"), check=True)
    key = key_on_one_line((folder / "key").read_bytes())
    (folder / "state/secrets").mkdir(parents=True)
    (folder / "repository").mkdir()
    with ProxyProcess(folder, POLICY) as proxy:
        stand = Stand(proxy, folder, key)
        written = (folder / "state/ca/gitconfig").read_text()
        (folder / "gitconfig").write_text(f"{written.replace(PROGRAM, str(SIGN))}[user]\n\tname = Me\n\temail = {ME}\n")
        public = (folder / "key.pub").read_text()
        (folder / "signers").write_text(f'{ME} namespaces="git" {public}')
        stand.git("init", "--quiet")
        yield stand


@pytest.fixture
def stand(whole: Stand) -> Stand:
    put_secret(whole.secrets, "git.signing-key", [OWN], f"{ME} {whole.key}".encode())
    whole.proxy.forget()
    return whole


def commit(email: str = ME, *, at: float | None = None, message: str = "a") -> bytes:
    when = int(time.time() if at is None else at)
    who = f"author A <a@example.com> {when} +0000\ncommitter Me <{email}> {when} +0000"
    return f"tree {TREE}\n{who}\n\n{message}\n".encode()


def test_git_signs_commits_without_having_the_key(stand: Stand) -> None:
    stand.git("commit", "--quiet", "--allow-empty", "--message=héllo\n\nmore", "--author=Other <o@example.com>")
    stand.git("checkout", "--quiet", "-b", "side")
    stand.git("commit", "--quiet", "--allow-empty", "-S", "--message=side")
    stand.git("-c", "i18n.commitEncoding=latin1", "commit", "--quiet", "--amend", "--allow-empty", "--message=ü")
    stand.git("checkout", "--quiet", "-b", "main-2", "HEAD~1")
    stand.git("merge", "--quiet", "--no-ff", "--message=merged", "side")
    stand.git("tag", "--annotate", "--message=t", "v1", "side")
    stand.git("commit", "--quiet", "--allow-empty", "--message=beside")
    stand.git("merge", "--quiet", "--no-ff", "--message=a tag", "v1")
    signers = f"gpg.ssh.allowedSignersFile={stand.folder / 'signers'}"
    for name in stand.git("rev-list", "--all").stdout.split():
        plain = ("-c", "gpg.ssh.program=ssh-keygen", "-c", signers, "verify-commit", name)
        assert f'Good "git" signature for {ME}' in stand.git(*plain).stderr
        assert "Good" in stand.git("-c", signers, "verify-commit", name).stderr
    line = stand.proxy.line(path="/sign-commit", decision="allow")
    assert line["reason"] == f"signed for {ME} with git.signing-key: héllo"
    use = line["secrets"][0]
    assert (use["secret"], use["kind"], use["source"]) == ("git.signing-key", "ssh-sign", "stored")
    assert stand.ask_key() == (stand.folder / "key.pub").read_text().split()[:2]


def test_git_commit_reports_why_a_commit_was_not_signed(stand: Stand) -> None:
    done = stand.git("-c", "user.email=you@example.com", "commit", "--allow-empty", "--message=x", check=False)
    assert done.returncode
    assert (
        f"agent-sandbox: not signed: the committer is you@example.com, and git.signing-key signs only for {ME}\n"
        in done.stderr
    )
    assert f"  hint: set user.email to {ME}, or commit with --no-gpg-sign\n" in done.stderr
    stand.git("-c", "user.email=you@example.com", "commit", "--quiet", "--no-gpg-sign", "--allow-empty", "--message=x")


def test_refuses_to_sign_tags_and_other_namespaces(stand: Stand) -> None:
    stand.git("commit", "--quiet", "--allow-empty", "--message=x")
    done = stand.git("tag", "--sign", "--message=v", "v-signed", check=False)
    assert "agent-sandbox: not signed: this is not a git commit" in done.stderr
    done = subprocess.run(
        (SIGN, "-Y", "sign", "-n", "file", "-f", "x", "x"), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "agent-sandbox: only commits are signed here\n")


NOT_COMMITS = {
    "an SSH sign-in": b"\0\0\0\x20" + b"s" * 32 + b"\x32\0\0\0\4root\0\0\0\x0essh-connection\0\0\0\x09publickey",
    "what ssh-keygen signs": b"SSHSIG\0\0\0\4file\0\0\0\0\0\0\0\6sha512\0\0\0\x40" + b"h" * 64,
    "a signed push": b"certificate version 0.1\npusher Me <me@example.com> 1 +0000\n\n",
}


def test_signs_nothing_but_commits(stand: Stand) -> None:
    said = {name: stand.refused(body) for name, body in NOT_COMMITS.items()}
    assert said == dict.fromkeys(said, "this is not a git commit")
    assert stand.post(commit())[0] == 200
    assert stand.refused(commit(), "Content-Encoding: gzip") == "the body is encoded"


def test_signs_only_for_the_committer_of_the_key_and_only_current_dates(stand: Stand) -> None:
    for email in (
        "you@example.com",
        "ME@example.com",
        "me@example.com.evil.test",
        "",
        "me@example.com\N{NO-BREAK SPACE}",
    ):
        assert stand.refused(commit(email)).startswith("the committer is ")
    for at in (0, time.time() - 90_000, time.time() + 90_000, 10**11):
        assert stand.refused(commit(at=at)) == "the date of the commit is more than a day from now"
    for at in (time.time() - 80_000, time.time() + 80_000):
        assert stand.post(commit(at=at))[0] == 200


def test_a_commit_of_more_than_a_mebibyte_is_refused(stand: Stand) -> None:
    status, answer = stand.post(commit(message="x" * (1 << 20)))
    assert (status, "a commit of more than 1024 KiB, which the proxy does not sign" in answer) == (413, True)
    assert stand.post(commit(message="x" * 1_000_000))[0] == 200


def test_signs_nothing_for_another_method_path_host_or_scheme(stand: Stand) -> None:
    assert stand.post(commit(), path="/sign-commit/")[0] == 405
    assert stand.post(commit(), path="/signing-key")[0] == 405
    assert stand.post(commit(), host="example.com")[0] == 502
    with stand.proxy.connect() as stream:
        stream.sendall(f"GET http://{OWN}/sign-commit HTTP/1.1\r\nHost: {OWN}\r\n\r\n".encode())
        assert read_answer(stream)[0] == 404
    with stand.proxy.tls(OWN) as stream:
        stream.sendall(get("/sign-commit", OWN, f"Content-Length: {len(commit())}", method="POST") + commit())
        assert read_answer(stream)[0] == 403
    assert stand.proxy.say(f"CONNECT {OWN}:80 HTTP/1.1\r\nHost: {OWN}:80\r\n\r\n".encode()).startswith(b"HTTP/1.1 403 ")


def test_does_not_sign_with_a_secret_bound_to_a_server_or_of_another_form(stand: Stand) -> None:
    put_secret(stand.secrets, "git.signing-key", ["example.com"], f"{ME} {stand.key}".encode())
    assert stand.refused(commit()) == "the proxy has no signing key git.signing-key"
    put_secret(stand.secrets, "git.signing-key", [OWN], b"ghp_a-token-of-another-kind")
    status, answer = stand.post(commit())
    assert (status, "git.signing-key is not of the form EMAIL KEY" in answer) == (502, True)


def test_a_rule_cannot_send_the_key_to_the_proxys_own_name(stand: Stand) -> None:
    """Try a policy that names that host as a host service."""
    header = "{X-Key: {secret: git.signing-key, transform: {type: raw}}}"
    transform = f"schemes: [https], transform: {{request: {{headers: {header}}}}}"
    policy = f"version: 1\nhost_services: {{own: {{to: '{OWN}:443', {transform}}}}}\n"
    folder = stand.folder / "other"
    (folder / "state/secrets").mkdir(parents=True)
    put_secret(folder / "state/secrets", "git.signing-key", [OWN], f"{ME} {stand.key}".encode())
    with ProxyProcess(folder, policy) as proxy:
        with proxy.tls(OWN) as stream:
            stream.sendall(get("/", OWN, "Accept: text/plain"))
            assert b"Reason: a key that signs commits is sent to no server\n" in read_answer(stream)[1]
        off = Stand(proxy, folder, stand.key)
        assert off.refused(commit()) == "the policy does not have `sign_commits`"
        assert (folder / "state/ca/gitconfig").read_text() == ""

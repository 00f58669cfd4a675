"""Sign commits for clients in the sandbox: at the proxy's own name, with a key that only the proxy has (ADR 60)."""

import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from agent_sandbox.policy import Policy, Request
from agent_sandbox.policy.http.host import OWN_HOST
from agent_sandbox.printable import printable
from agent_sandbox.proxy.audit.record import SecretUse
from agent_sandbox.proxy.exchange.denial import Page
from agent_sandbox.proxy.exchange.exchange import NO_VALUE, BodyLimit, Exchange
from agent_sandbox.proxy.secrets.commit_signature import FORM, NotSignedError, SigningKey, parse_commit, parse_key
from agent_sandbox.proxy.secrets.store import Secret, read_secret

SIGN_PATH, KEY_PATH = "/sign-commit", "/signing-key"
# The kind of the credential, in the audit log.
KIND = "ssh-sign"
COMMIT_BODY = BodyLimit(size=1024 * 1024, reason="a commit of more than 1024 KiB, which the proxy does not sign")
# A rebase signs each of its commits. Nobody makes more in an hour.
MOST, WINDOW_SECONDS = 500, 3600.0
# A signature must not claim that a commit was made while another key was in use.
LONGEST_AGO = 24 * 3600.0
SUBJECT = 60
SETUP = "agent-sandbox secret setup signing"


class Signed(Struct, frozen=True, kw_only=True):
    """The answer to a request, what the audit log says about it, and the use of the key."""

    page: Page
    reason: str
    uses: tuple[SecretUse, ...] = ()


class CommitSigner:
    """Answers requests for signatures with the secret that the policy names; `folder` has the secrets."""

    def __init__(
        self,
        folder: Path | None,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._clock, self._monotonic = clock, monotonic
        self._window, self._count = 0.0, 0
        self.body_limit = COMMIT_BODY

    def answers(self, request: Request) -> bool:
        """Return whether a request is for a signature or for the public key."""
        here = (request.host, request.scheme, request.port) == (OWN_HOST, "http", 80)
        return here and (request.method, request.path) in {("POST", SIGN_PATH), ("GET", KEY_PATH)}

    def answer(self, exchange: Exchange, request: Request, policy: Policy, body: bytes) -> None:
        """Answer with the signature or the public key, or with why there is none."""
        try:
            signed = self.signed(request, policy, body)
        except NotSignedError as why:
            status = NO_VALUE if why.fault else policy.settings.block_status
            exchange.deny(exchange.denial(str(why), status=status, hint=why.hint))
            return
        exchange.answer_here(signed.page, signed.reason)
        exchange.secrets = signed.uses

    def signed(self, request: Request, policy: Policy, body: bytes) -> Signed:
        """Return the response to an allowed request, or raise NotSignedError."""
        secret, key = self._key(policy.settings.sign_commits)
        if request.path == KEY_PATH:
            return Signed(page=_page(f"{key.public}\n".encode()), reason="answered by the proxy: its signing key")
        if any(name.lower() == "content-encoding" for name, _ in request.headers):
            raise NotSignedError("the body is encoded", "send the commit without Content-Encoding")
        commit = parse_commit(body)
        if commit.email != key.email:
            who = printable(commit.email)
            hint = f"set user.email to {key.email}, or commit with --no-gpg-sign"
            raise NotSignedError(f"the committer is {who}, and {secret.name} signs only for {key.email}", hint)
        if abs(commit.time - self._clock()) > LONGEST_AGO:
            hint = "leave out GIT_COMMITTER_DATE and --committer-date-is-author-date, or commit with --no-gpg-sign"
            raise NotSignedError("the date of the commit is more than a day from now", hint)
        self._count_one()
        age = max(0.0, self._clock() - secret.since)
        use = SecretUse(secret=secret.name, kind=KIND, source=secret.source, age=age)
        reason = f"signed for {key.email} with {secret.name}: {printable(commit.subject[:SUBJECT])}"
        return Signed(page=_page(key.sign(body)), reason=reason, uses=(use,))

    def _key(self, name: str) -> tuple[Secret, SigningKey]:
        if not name:
            raise NotSignedError("the policy does not have `sign_commits`", f"{SETUP}, on the host machine")
        found = read_secret(self._folder, name) if self._folder else None
        # A secret that is bound to a server never signs, whatever the policy says.
        if found is None or OWN_HOST not in found.hosts:
            raise NotSignedError(f"the proxy has no signing key {name}", f"{SETUP}, on the host machine")
        if not isinstance(found, Secret):
            why = f"secret {name} has no value now: {found.why}"
            raise NotSignedError(why, "agent-sandbox secret sync, on the host machine", fault=True)
        if (key := parse_key(found.value)) is None:
            raise NotSignedError(f"secret {name} is not of the form {FORM}", SETUP, fault=True)
        return found, key

    def _count_one(self) -> None:
        now = self._monotonic()
        if not self._count or now >= self._window + WINDOW_SECONDS:
            self._window, self._count = now, 0
        if self._count >= MOST:
            left = max(1, round((self._window + WINDOW_SECONDS - now) / 60))
            raise NotSignedError(f"{MOST} commits were signed within an hour", f"wait {left} min")
        self._count += 1


def _page(body: bytes) -> Page:
    kind, length = (b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))
    return Page(200, (kind, length, (b"cache-control", b"no-store")), body)

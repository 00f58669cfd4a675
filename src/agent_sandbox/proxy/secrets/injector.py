"""Inject secrets into request headers: only over TLS, and only for the hosts that they are bound to."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path

from agent_sandbox.policy import Request
from agent_sandbox.policy.match.injection import Credential, Injection
from agent_sandbox.policy.match.upstream import Upstream
from agent_sandbox.proxy.secrets.redactable import asks_to_hide, folded
from agent_sandbox.proxy.secrets.redaction import Echoes, secret_encodings
from agent_sandbox.proxy.secrets.store import Secret, read_secret
from agent_sandbox.proxy.wire.message import Fields


class WithoutSecretError(Exception):
    """Why a secret cannot be injected; `hint` says how to fix it."""

    def __init__(self, why: str, hint: str = "") -> None:
        super().__init__(why)
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """The header fields to inject into one request, and what echoes of them would look like."""

    fields: Fields = field(repr=False)
    echoes: Echoes = field(repr=False)

    def into(self, fields: Fields) -> Fields:
        """Return `fields` with the injected ones added, replacing those of the same names."""
        replaced = {folded(name) for name, _ in self.fields}
        kept = tuple(one for one in fields if folded(one[0]) not in replaced and not asks_to_hide(*one))
        return (*kept, *self.fields, (b"accept-encoding", b"identity"))


class Injector:
    """Reads secrets from `folder`, each when it is needed, so that changes take effect at once.

    `own_layers` are the layers that the user or the organisation writes; the project's is not among them.
    """

    def __init__(self, folder: Path | None, *, own_layers: Iterable[str] = ()) -> None:
        self._folder = folder
        self._own_layers = frozenset(own_layers)

    def check_authorities(self, upstream: Upstream | None) -> None:
        """Raise WithoutSecretError if the project's layer adds CAs: its own server could then pass for any host."""
        if upstream and upstream.ca and upstream.layer not in self._own_layers:
            why = "no secret is sent while the project's policy adds a CA, which can sign for every host"
            raise WithoutSecretError(why, "move its `upstream` setting to your own policy file")

    def filling(self, injection: Injection, request: Request, sent: Fields, *, websocket: bool) -> Filling:
        """Return what to inject into an allowed request with the fields `sent`, or raise WithoutSecretError."""
        if request.scheme != "https":
            raise WithoutSecretError("a secret is sent only over https")
        if websocket:
            raise WithoutSecretError("no secret is injected into a WebSocket: its frames are not redacted")
        brought = {folded(name) for name, _ in sent}
        for one in injection.credentials:
            if folded(one.header.encode()) in brought and not injection.replaces:
                why = f"the request already has the header `{one.header}`, into which {one.secret} is to be injected"
                how = f"send it without `{one.header}`, or set `on_existing_header: replace` in the policy"
                raise WithoutSecretError(why, how)
        filled = [self._filled(one, request.host) for one in injection.credentials]
        fields, echoes = zip(*filled, strict=True)
        return Filling(fields=fields, echoes=tuple(chain.from_iterable(echoes)))

    def _filled(self, credential: Credential, host: str) -> tuple[tuple[bytes, bytes], Echoes]:
        """Return the field to inject, and what echoes of it would look like."""
        secret = self._secret(credential, host)
        sent = credential.row.write(secret.value, credential.username or "")
        return (credential.header.encode("ascii"), sent.encode("ascii")), _echoes(secret.value, credential)

    def _secret(self, credential: Credential, host: str) -> Secret:
        found = read_secret(self._folder, credential.secret) if self._folder else None
        if found is None:
            raise WithoutSecretError(f"the proxy has no secret {credential.secret}", _how(credential.secret, host))
        if host not in found.hosts:
            how = _how(credential.secret, *found.hosts, host)
            raise WithoutSecretError(f"secret {credential.secret} is not bound to {host}", how)
        return found


def _how(name: str, *hosts: str) -> str:
    return " ".join(("agent-sandbox secret set", name, *(f"--host {host}" for host in hosts)))


# Cached, because computing them takes as long as the rest of a request.
@lru_cache(maxsize=64)
def _echoes(value: str, credential: Credential) -> Echoes:
    return secret_encodings(value, credential.row, credential.username or "")

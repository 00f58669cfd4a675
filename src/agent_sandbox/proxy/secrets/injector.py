"""Puts secrets into the headers of a request: over TLS alone, to the hosts that they are bound to, and to no others."""

from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path

from mitmproxy import http

from agent_sandbox.policy import Request
from agent_sandbox.policy.match.injection import Credential, Injection
from agent_sandbox.policy.match.upstream import Upstream
from agent_sandbox.proxy.secrets.redactable import asks_to_hide, folded
from agent_sandbox.proxy.secrets.redaction import Echoes, secret_encodings
from agent_sandbox.proxy.secrets.store import Secret, read_secret
from agent_sandbox.proxy.wire.header_fields import Fields


class WithoutSecretError(Exception):
    """Why a secret is not put in, and how that can be mended."""

    def __init__(self, why: str, hint: str = "") -> None:
        super().__init__(why)
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """What goes into one request: fields by their names in lower case, and what an echo of them would look like."""

    fields: Fields = field(repr=False)
    echoes: Echoes = field(repr=False)

    def into(self, fields: Fields) -> Fields:
        """Return the fields of a request with these in place of any of the same name."""
        replaced = {folded(name) for name, _ in self.fields}
        kept = tuple(one for one in fields if folded(one[0]) not in replaced and not asks_to_hide(*one))
        return (*kept, *self.fields, (b"accept-encoding", b"identity"))


class Injector:
    """Knows where the secrets lie. Each is read when it is wanted, so what its owner says counts at once.

    `own_layers` are those that the owner writes, and a project's is none of them.
    """

    def __init__(self, folder: Path | None, *, own_layers: Iterable[str] = ()) -> None:
        self._folder = folder
        self._own_layers = frozenset(own_layers)

    def check_authorities(self, upstream: Upstream | None) -> None:
        """Raise WithoutSecretError where a project says who may sign: its own server could pass for any host."""
        if upstream and upstream.ca and upstream.layer not in self._own_layers:
            why = "no secret is sent where the project names an authority that may sign for every host"
            raise WithoutSecretError(why, "write its `upstream` into your own policy instead")

    def filling(self, injection: Injection, request: Request, written: http.Request, *, websocket: bool) -> Filling:
        """Return what goes into a request that the policy allows so, or raise WithoutSecretError."""
        if request.scheme != "https":
            raise WithoutSecretError("a secret goes over https alone")
        if websocket:
            raise WithoutSecretError("no secret is put into a WebSocket, whose frames are not looked through")
        brought = {folded(name) for name, _ in written.data.headers.fields}
        for one in injection.credentials:
            if folded(one.header.encode()) in brought and not injection.replaces:
                why = f"the request brings `{one.header}` along, into which {one.secret} goes"
                how = f"ask without `{one.header}`, or have it replaced: `on_existing_header: replace` in the policy"
                raise WithoutSecretError(why, how)
        filled = [self._filled(one, request.host) for one in injection.credentials]
        fields, echoes = zip(*filled, strict=True)
        return Filling(fields=fields, echoes=tuple(chain.from_iterable(echoes)))

    def _filled(self, credential: Credential, host: str) -> tuple[tuple[bytes, bytes], Echoes]:
        """Return the field, and what an echo of it would look like."""
        secret = self._secret(credential, host)
        sent = _value(credential, secret)
        return (credential.header.encode("ascii"), sent.encode("ascii")), _echoes(secret.value, sent)

    def _secret(self, credential: Credential, host: str) -> Secret:
        found = read_secret(self._folder, credential.secret) if self._folder else None
        if found is None:
            raise WithoutSecretError(f"the proxy has no secret {credential.secret}", _how(credential.secret, host))
        if host not in found.hosts:
            how = _how(credential.secret, *found.hosts, host)
            raise WithoutSecretError(f"secret {credential.secret} is not for {host}", how)
        return found


def _how(name: str, *hosts: str) -> str:
    return " ".join(("agent-sandbox secret set", name, *(f"--host {host}" for host in hosts)))


def _value(credential: Credential, secret: Secret) -> str:
    if credential.username is None:
        return f"Bearer {secret.value}"
    return f"Basic {b64encode(f'{credential.username}:{secret.value}'.encode('ascii')).decode('ascii')}"


# It takes as long as the rest of a request together, and is the same for each.
@lru_cache(maxsize=64)
def _echoes(value: str, sent: str) -> Echoes:
    return secret_encodings(value, [sent])

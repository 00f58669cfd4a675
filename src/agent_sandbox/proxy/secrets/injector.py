"""Inject secrets into request headers: only over TLS, and only for the hosts that they are bound to."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from agent_sandbox.policy import Policy, Request
from agent_sandbox.policy.http.query import has_parameter
from agent_sandbox.policy.match.injection import Credential, Existing, Injection
from agent_sandbox.policy.match.upstream import Upstream
from agent_sandbox.proxy.audit.record import SecretUse
from agent_sandbox.proxy.secrets.placeholder import Placeholders, is_placeholder
from agent_sandbox.proxy.secrets.redactable import asks_to_hide, folded
from agent_sandbox.proxy.secrets.redaction import NO_ECHOES, Echoes, secret_encodings
from agent_sandbox.proxy.secrets.store import NotGivenError, Secret, Unresolved, read_secret
from agent_sandbox.proxy.wire.message import Fields, RequestHead

if TYPE_CHECKING:
    from agent_sandbox.proxy.secrets.sigv4 import Signing


class WithoutSecretError(NotGivenError):
    """Why a secret cannot be injected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """What to inject into one request, and what echoes of it would look like."""

    fields: Fields = field(default=(), repr=False)
    echoes: Echoes = field(default=NO_ECHOES, repr=False)
    # Whether only the session token of a signature is sent, which successful responses are not searched for.
    only_token: bool = False
    # Parameters of the query, as they are written.
    parameters: Fields = field(default=(), repr=False)
    # Headers that are removed, as `folded` returns them.
    replaced: frozenset[bytes] = frozenset()
    # Parameters of the query that are removed.
    dropped: tuple[str, ...] = ()
    uses: tuple[SecretUse, ...] = ()
    # How to sign the request, if the secret signs it.
    signing: "Signing | None" = None

    @property
    def reads_body(self) -> bool:
        """Whether the body is needed, because it is signed."""
        return self.signing is not None and not self.signing.body_hash

    def into_request(self, head: RequestHead, body: bytes) -> RequestHead:
        """Return the head with everything injected; `body` counts only if it is signed."""
        head = replace(head, fields=self.into(head.fields), target=self.into_target(head.target))
        return self.signing.sign(head, body) if self.signing else head

    def into(self, fields: Fields) -> Fields:
        """Return `fields` with the injected ones added, in place of the replaced ones."""
        kept = tuple(one for one in fields if folded(one[0]) not in self.replaced)
        if not self.echoes or self.only_token:
            return (*kept, *self.fields)
        shown = (one for one in kept if not asks_to_hide(*one))
        return (*shown, *self.fields, (b"accept-encoding", b"identity"))

    def into_target(self, target: bytes) -> bytes:
        """Return the target with the injected parameters added to its query, in place of those of the same names."""
        names = (*self.dropped, *(name.decode("ascii") for name, _ in self.parameters))
        if not names:
            return target
        path, _, query = target.partition(b"?")
        pieces = query.split(b"&") if query else []
        kept = [one for one in pieces if not any(has_parameter(one.decode("ascii"), name) for name in names)]
        written = b"&".join((*kept, *(name + b"=" + value for name, value in self.parameters)))
        return path + b"?" + written if written else path


NOTHING = Filling()


class Injector:
    """Reads secrets from `folder`, each when it is needed, so that changes take effect at once.

    `own_layers` are the layers that the user or the organisation writes; the project's is not among them.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        own_layers: Iterable[str] = (),
        placeholders: Placeholders | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._own_layers = frozenset(own_layers)
        self._placeholders = placeholders or Placeholders(b"")

    def check_authorities(self, upstream: Upstream | None) -> None:
        """Raise WithoutSecretError if the project's layer adds CAs: its own server could then pass for any host."""
        if upstream and upstream.ca and upstream.layer not in self._own_layers:
            why = "no secret is sent while the project's policy adds a CA, which can sign for every host"
            raise WithoutSecretError(why, "move its `upstream` setting to your own policy file")

    def filling(self, injection: Injection, request: Request, sent: Fields) -> Filling:
        """Return what to inject into an allowed request with the fields `sent`, or raise WithoutSecretError."""
        if request.scheme != "https":
            raise WithoutSecretError("a secret is sent only over https")
        own = next(self._own(injection, request.query, sent), None)
        if own and injection.existing is Existing.KEEP:
            return NOTHING
        if own:
            raise _already(*own)
        now = self._clock()
        found = [(one, self._secret(one, request.host)) for one in injection.credentials]
        sent_ones = [pair for pair in found if not pair[0].row.signs]
        pairs = [(one.row.in_query, _written(one, secret)) for one, secret in sent_ones]
        # There is at most one: a signature has its own header.
        signing = next((_signing(one, secret, request, sent) for one, secret in found if one.row.signs), None)
        token = ((signing.keys.token, signing.credential),) if signing and signing.keys.token else ()
        return Filling(
            fields=tuple(pair for in_query, pair in pairs if not in_query),
            parameters=tuple(pair for in_query, pair in pairs if in_query),
            echoes=_echoes((*((secret.value, one) for one, secret in sent_ones), *token)),
            only_token=not sent_ones,
            replaced=frozenset(chain.from_iterable(map(_headers, injection.credentials))),
            # Those that are here hold the placeholder.
            dropped=tuple(name for one, _ in found for name in one.parameters if has_parameter(request.query, name)),
            uses=tuple(_use(one, secret, now=now) for one, secret in found),
            signing=signing,
        )

    def stray_placeholder(self, policy: Policy, head: RequestHead) -> WithoutSecretError | None:
        """Return why a request with a leftover placeholder of this sandbox must not be forwarded, or None."""
        if not policy.asks_secrets or not (place := self._placeholders.place(head.target, head.fields)):
            return None
        why = f"`{place}` has a placeholder, which the proxy replaces only where the policy and its owner say so"
        return WithoutSecretError(why, "agent-sandbox secret list")

    def _own(self, injection: Injection, query: str, sent: Fields) -> Iterator[tuple[Credential, str]]:
        """Yield each place where the client sends its own credential that would not be replaced, with ours."""
        for one in injection.credentials:
            placeholder = self._placeholders.ending(one.secret)
            yield from ((one, f"?{name}") for name in one.parameters if _has_own(query, name, placeholder))
            yield from ((one, f"?{name}") for name in one.row.parameters if has_parameter(query, name))
            if injection.existing is not Existing.REPLACE:
                if one.row.in_query and _has_own(query, one.header, placeholder):
                    yield one, one.place
                taken = _headers(one)
                own = (name for name, value in sent if folded(name) in taken and not is_placeholder(value, placeholder))
                yield from ((one, folded(name).decode("latin-1")) for name in own)

    def _secret(self, credential: Credential, host: str) -> Secret:
        found = read_secret(self._folder, credential.secret) if self._folder else None
        if found is None:
            raise WithoutSecretError(f"the proxy has no secret {credential.secret}", _how(credential.secret, host))
        if host not in found.hosts:
            how = _how(credential.secret, *found.hosts, host)
            raise WithoutSecretError(f"secret {credential.secret} is not bound to {host}", how)
        if isinstance(found, Unresolved):
            why = f"secret {credential.secret} has no value now: {found.why}"
            raise WithoutSecretError(why, "agent-sandbox secret sync", fault=True)
        return found


def _written(credential: Credential, secret: Secret) -> tuple[bytes, bytes]:
    """Return the field to inject."""
    sent = credential.row.write(secret.value, credential.username or "")
    return credential.header.encode("ascii"), sent.encode("ascii")


def _signing(credential: Credential, secret: Secret, request: Request, sent: Fields) -> "Signing":
    # Few sandboxes use AWS.
    from agent_sandbox.proxy.secrets.sigv4 import FORM, NotSignableError, parse_keys, signing  # noqa: PLC0415

    keys = parse_keys(secret.value)
    if keys is None:
        why = f"secret {credential.secret} is not of the form {FORM}"
        raise WithoutSecretError(why, _how(credential.secret, *secret.hosts), fault=True)
    try:
        return signing(credential, keys, request, sent)
    except NotSignableError as doubt:
        raise WithoutSecretError(str(doubt), doubt.hint) from doubt


def _use(credential: Credential, secret: Secret, *, now: float) -> SecretUse:
    age = max(0.0, now - secret.since)
    return SecretUse(secret=secret.name, kind=credential.kind, source=secret.source, age=age)


def _already(one: Credential, header: str) -> WithoutSecretError:
    if header.startswith("?") and one.row.signs:
        why = f"the request is a presigned URL (`{header}`), which the proxy does not sign again"
        return WithoutSecretError(why, "send the request itself, signed in its `Authorization` header")
    if header.startswith("?") or header != folded(one.header.encode()).decode():
        why = f"the request has its own credential in `{header}`, where the proxy would inject {one.secret}"
        return WithoutSecretError(why, f"send it without `{header}`, or set `on_existing_header` in the policy")
    why = f"the request already has the header `{one.header}`, where the proxy would inject {one.secret}"
    how = f"send it without `{one.header}`, or set `on_existing_header: replace` in the policy"
    return WithoutSecretError(why, how)


@lru_cache(maxsize=64)
def _headers(credential: Credential) -> frozenset[bytes]:
    """Return the headers that the credential replaces."""
    own = () if credential.row.in_query else (credential.header,)
    return frozenset(folded(name.encode()) for name in (*own, *credential.others, *credential.row.others))


def _has_own(query: str, name: str, placeholder: str) -> bool:
    """Return whether the query has the parameter with another value than the placeholder."""
    pieces = (piece for piece in query.split("&") if has_parameter(piece, name))
    return any(not is_placeholder(piece.partition("=")[2].encode("ascii"), placeholder) for piece in pieces)


def _how(name: str, *hosts: str) -> str:
    return " ".join(("agent-sandbox secret set", name, *(f"--host {host}" for host in hosts)))


# Cached, because computing them takes as long as the rest of a request.
@lru_cache(maxsize=64)
def _echoes(sent: tuple[tuple[str, Credential], ...]) -> Echoes:
    """Return what echoes of these values look like, each sent as a credential."""
    every = (secret_encodings(value, credential.row, credential.username or "") for value, credential in sent)
    return Echoes(chain.from_iterable(every))

"""Sign requests with AWS Signature Version 4, whose clients in the sandbox sign with placeholders.

The time, region, service and the way in which the body is hashed come from the client's own signature. Everything else
is taken from the request as it is forwarded. The secret key never leaves the proxy.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass, field
from urllib.parse import quote, unquote_to_bytes

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.bounded_json import NotJsonError, read_json
from agent_sandbox.policy import Request
from agent_sandbox.policy.match.injection import Credential
from agent_sandbox.proxy.wire.message import Fields, RequestHead, value_of

KEY_ID, KEY, TOKEN_TEXT = r"[A-Za-z0-9_]{8,128}", r"[\x21-\x39\x3b-\x7e]{8,}", r"[\x21-\x39\x3b-\x7e]+"
KEYS = re.compile(rf"(?P<key_id>{KEY_ID}):(?P<secret>{KEY})(?::(?P<token>{TOKEN_TEXT}))?")
FORM = "ACCESS_KEY_ID:SECRET_ACCESS_KEY, with :SESSION_TOKEN if there is one"
CLAIM = re.compile(
    rb"AWS4-HMAC-SHA256 Credential=[^/,\s]+/(?P<date>\d{8})/(?P<region>[^/,\s]+)/(?P<service>[^/,\s]+)/aws4_request, *"
    rb"SignedHeaders=[^,\s]+, *Signature=[0-9a-f]{64}"
)
DATE = re.compile(rb"\d{8}T\d{6}Z")
SHA256 = re.compile(rb"[0-9a-f]{64}")
# The body has no signature of its own. Other streamed bodies have one for each chunk, by the client's key.
UNSIGNED = frozenset({b"UNSIGNED-PAYLOAD", b"STREAMING-UNSIGNED-PAYLOAD-TRAILER"})
# The paths of these services are encoded once in what is signed, those of all others twice.
ENCODED_ONCE = frozenset({"s3", "s3-object-lambda", "s3-outposts", "s3express"})
UNRESERVED = "-_.~"
AUTHORIZATION, DATED, HASHED, TOKEN = b"authorization", b"x-amz-date", b"x-amz-content-sha256", b"x-amz-security-token"
SIGNED = frozenset({b"host", b"content-type", b"content-md5"})


class NotSignableError(ValueError):
    """Why a request cannot be signed; `hint` says how to fix it."""

    def __init__(self, why: str, hint: str) -> None:
        super().__init__(why)
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The keys of an account, or of a session."""

    key_id: str = field(repr=False)
    secret: str = field(repr=False)
    token: str | None = field(repr=False)


class Signing(Struct, frozen=True, kw_only=True):
    """How to sign one request. `body_hash` is empty if the proxy has to compute it from the body."""

    keys: Keys
    credential: Credential
    date: bytes
    body_hash: bytes

    def sign(self, head: RequestHead, body: bytes) -> RequestHead:
        """Return the head with the signature, and with the session token if there is one."""
        token = ((TOKEN, self.keys.token.encode("ascii")),) if self.keys.token else ()
        head = replace(head, fields=(*head.fields, *token))
        signed = _signed_fields(head)
        names = b";".join(signed)
        path, _, query = head.target.partition(b"?")
        lines = (
            head.method,
            _canonical_path(path, str(self.credential.service)),
            _canonical_query(query),
            *(name + b":" + value for name, value in signed.items()),
            b"",
            names,
            self.body_hash or hashlib.sha256(body).hexdigest().encode(),
        )
        scope = (self.date[:8].decode(), str(self.credential.region), str(self.credential.service), "aws4_request")
        hashed = hashlib.sha256(b"\n".join(lines)).hexdigest()
        text = "\n".join(("AWS4-HMAC-SHA256", self.date.decode(), "/".join(scope), hashed))
        key = f"AWS4{self.keys.secret}".encode()
        for part in scope:
            key = hmac.digest(key, part.encode(), "sha256")
        rest = f"SignedHeaders={names.decode()}, Signature={hmac.digest(key, text.encode(), 'sha256').hex()}"
        written = self.credential.row.write("/".join((self.keys.key_id, *scope)), rest)
        return replace(head, fields=(*head.fields, (AUTHORIZATION, written.encode("ascii"))))


def parse_keys(value: str) -> Keys | None:
    """Return the keys in the value of a secret, None if it has another form.

    >>> parse_keys("AKIDEXAMPLE:secret-key").token is None
    True
    """
    found = KEYS.fullmatch(_joined(value) if value.startswith("{") else value)
    return Keys(**found.groupdict()) if found else None


def _joined(value: str) -> str:
    """Return the keys in a JSON object, as AWS's programs print one, with colons between them."""
    try:
        said = read_json(value.encode("ascii"))
    except NotJsonError:
        return ""
    named = (said.get(name) for name in ("AccessKeyId", "SecretAccessKey", "SessionToken"))
    return ":".join(one for one in named if isinstance(one, str))


def signing(credential: Credential, keys: Keys, request: Request, sent: Fields) -> Signing:
    """Return how to sign a request that the client sent with these fields, or raise NotSignableError."""
    claims = [value for name, value in sent if name.lower() == AUTHORIZATION]
    claim = CLAIM.fullmatch(claims[0].strip()) if len(claims) == 1 else None
    if claim is None:
        raise NotSignableError(
            "the request has no AWS signature (version 4) in its `Authorization` header",
            "sign it with the placeholders; presigned URLs and signatures of version 4a are not supported",
        )
    signed = tuple(claim[name].decode("latin-1") for name in ("service", "region"))
    if signed != (credential.service, credential.region):
        what = f"signed for {signed[0]} in {signed[1]}, not for {credential.service} in {credential.region}"
        raise NotSignableError(
            f"the request is {what}", "set the region of the client, or `region` and `service` in the policy"
        )
    date = value_of(sent, DATED).encode("utf-8", "surrogateescape")
    if not DATE.fullmatch(date) or date[:8] != claim["date"]:
        what = "the request has no `x-amz-date` of the day of its signature"
        raise NotSignableError(what, "send one `x-amz-date`, with the signing time")
    if "+" in request.query:
        raise NotSignableError("the query has a `+`, which servers read in two ways", "write it as %20 or %2B")
    return Signing(keys=keys, credential=credential, date=date, body_hash=_body_hash(request, sent))


def _body_hash(request: Request, sent: Fields) -> bytes:
    """Return the client's `x-amz-content-sha256`: a hash or a marker; empty if the proxy has to compute the hash."""
    said = value_of(sent, HASHED).encode("utf-8", "surrogateescape")
    if said in UNSIGNED or SHA256.fullmatch(said):
        return said
    if said:
        raise NotSignableError(
            f"the proxy cannot sign a body of the form {said[:60].decode('ascii', 'backslashreplace')}",
            "turn off signed chunks in the client, or have it send the hash of the whole body",
        )
    return hashlib.sha256().hexdigest().encode() if request.body_size == 0 else b""


def _signed_fields(head: RequestHead) -> dict[bytes, bytes]:
    """Return the fields to sign, by name, with their values in canonical form."""
    values: dict[bytes, list[bytes]] = {}
    for name, value in (*head.fields, (b"host", head.authority)) if head.is_http2 else head.fields:
        if name.lower() in SIGNED or name.lower().startswith(b"x-amz-"):
            values.setdefault(name.lower(), []).append(b" ".join(value.split()))
    return {name: b",".join(values[name]) for name in sorted(values)}


def _canonical_path(path: bytes, service: str) -> bytes:
    text = unquote_to_bytes(path) if service in ENCODED_ONCE else path
    return quote(text, safe=f"/{UNRESERVED}").encode("ascii")


def _canonical_query(query: bytes) -> bytes:
    pairs = (piece.partition(b"=") for piece in query.split(b"&") if piece)
    encoded = sorted((_encoded(name), _encoded(value)) for name, _, value in pairs)
    return "&".join(f"{name}={value}" for name, value in encoded).encode("ascii")


def _encoded(text: bytes) -> str:
    return quote(unquote_to_bytes(text), safe=UNRESERVED)

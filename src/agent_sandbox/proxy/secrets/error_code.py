"""Error codes with which a server refuses a credential: AWS answers 400 or 403 with one, where others answer 401."""

import re

from agent_sandbox.policy.match.credential_kind import KINDS
from agent_sandbox.proxy.audit.record import SecretUse
from agent_sandbox.proxy.wire.message import Fields, value_of

HEADER = b"x-amzn-errortype"
# `<Code>CODE<` in XML, `"code":"CODE"` or `"__type":"a.namespace#CODE"` in JSON. A message may quote the request: XML
# need not escape `"` there, and JSON not `<`.
BEFORE = rb'\s*(?:(?=<)(?s:.*)<Code>|(?=\{)(?s:.*)"(?:__type|[Cc]ode)"\s*:\s*"(?:[\w.]{1,100}#)?)'
# Bytes of a body that are searched. The code comes first.
MOST = 1024


class ErrorCode:
    """Looks for one of the codes in an error response, and changes nothing."""

    holds_head = False

    def __init__(self, codes: tuple[str, ...], fields: Fields) -> None:
        self._code = re.compile(BEFORE + f"(?:{'|'.join(map(re.escape, codes))})".encode() + b'[<"]')
        # A URL may follow.
        self._in_header = value_of(fields, HEADER).partition(":")[0] in codes
        self._begin = b""

    @property
    def is_found(self) -> bool:
        """Whether the server refused the credential."""
        return self._in_header or self._code.match(self._begin) is not None

    def feed(self, data: bytes) -> tuple[bytes]:
        """Return the data."""
        self._begin += data[: MOST - len(self._begin)]
        return (data,)

    def end(self) -> bytes:
        """Return nothing: all data was passed on."""
        return b""

    def close(self) -> None:
        """Keep the beginning, for the record."""


def codes_for(secrets: tuple[SecretUse, ...]) -> tuple[str, ...]:
    """Return the codes with which servers refuse these secrets."""
    return tuple(code for one in secrets if one.kind in KINDS for code in KINDS[one.kind].error_codes)

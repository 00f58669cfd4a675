"""Why TLS with a server failed, in our words, with what to do: the texts of OpenSSL are for its developers."""

from typing import Any

from OpenSSL import SSL

OWN_TLS = "with `inspect: false`, the client does TLS with this host itself"
TRUST = "`upstream: {ca: FILE}` in the policy trusts another authority"
CLOCK = "if that is wrong, set the clock of this machine"
CLOSED = f"the server closed the connection during the TLS handshake; {OWN_TLS}"
LATE = "the server did not complete the TLS handshake in time; agent-sandbox doctor checks the link"
OTHER_PROTOCOL = "the server chose a protocol that was not offered"
WANTS_CERTIFICATE = f"the server asks for a client certificate; {OWN_TLS}"
# By a part of OpenSSL's text, in the order in which they are looked for.
REASONS = {
    "hostname mismatch": "the server's certificate is for another host",
    "ip address mismatch": "the server's certificate is for another host",
    "certificate has expired": f"the server's certificate has expired; {CLOCK}",
    "not yet valid": f"the server's certificate is not valid yet; {CLOCK}",
    "self-signed certificate in certificate chain": f"the server's certificate is from an unknown authority; {TRUST}",
    "self-signed": f"the server's certificate is self-signed; {TRUST}",
    "local issuer": (
        f"the server's certificate is from an unknown authority, or its intermediate certificates are missing; {TRUST}"
    ),
    "verify the first": f"the server does not send its intermediate certificates; {TRUST}",
    "verify failed": "the server's certificate is not valid",
    "certificate required": WANTS_CERTIFICATE,
    "alert bad certificate": WANTS_CERTIFICATE,
    "alert certificate unknown": WANTS_CERTIFICATE,
    "alert unknown ca": WANTS_CERTIFICATE,
    "protocol version": f"the server speaks only versions of TLS before 1.2; {OWN_TLS}",
    "tls version": f"the server speaks only versions of TLS before 1.2; {OWN_TLS}",  # mitmproxy's own text
    "unsupported protocol": f"the server speaks only versions of TLS before 1.2; {OWN_TLS}",
    "unrecognized name": "the server does not know this host",
    "no application protocol": "the server speaks neither HTTP/1.1 nor HTTP/2",
    "wrong version number": "the server does not speak TLS on this port",
    "packet length too long": "the server does not speak TLS on this port",
    "record layer failure": "the server does not speak TLS on this port",
    "not speak tls": "the server does not speak TLS on this port",
    "handshake failure": (
        f"the server refused the TLS handshake: it may ask for a client certificate, or other ciphers; {OWN_TLS}"
    ),
    "too small": f"the server's keys are too weak; {OWN_TLS}",
    "too weak": f"the server's keys are too weak; {OWN_TLS}",
    "alert": f"the server refused the TLS handshake; {OWN_TLS}",
    "closed": CLOSED,
}
UNKNOWN = f"the TLS handshake with the server failed; {OWN_TLS}"


def explain(text: str) -> str:
    """Return why TLS with a server failed, by what OpenSSL says of it.

    >>> explain("Certificate verify failed: hostname mismatch")
    "the server's certificate is for another host"
    """
    return next((why for part, why in REASONS.items() if part in text.lower()), UNKNOWN)


def explain_client(error: SSL.Error, host: str) -> str:
    """Return why TLS with a client failed that was shown our certificate for `host`."""
    text = _last(error)
    if any(part in text for part in ("protocol version", "unsupported protocol", "version too low")):
        return "The client offers only versions of TLS before 1.2"
    if any(part in text for part in ("unknown ca", "bad certificate", "certificate unknown")):
        return f"The client does not trust the proxy's certificate for {host}"
    return f"The TLS handshake of the client failed; it may not trust the proxy's certificate for {host}"


def _last(error: SSL.Error) -> str:
    return str(error.args[0][-1][-1]) if error.args and error.args[0] else ""


def why_failed(error: SSL.Error, tls: SSL.Connection) -> str:
    """Return why a handshake of `tls`, or reading from it, failed."""
    last = _last(error)
    if last != "certificate verify failed":
        return explain(last)
    lib: Any = SSL._lib  # type: ignore[attr-defined]  # noqa: SLF001 - pyOpenSSL has no public call
    code = lib.SSL_get_verify_result(tls._ssl)  # noqa: SLF001
    text: Any = SSL._ffi.string(lib.X509_verify_cert_error_string(code))  # type: ignore[attr-defined] # noqa: SLF001
    return explain(f"{text.decode()}: {last}")

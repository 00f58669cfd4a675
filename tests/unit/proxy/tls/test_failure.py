from OpenSSL import SSL

from agent_sandbox.proxy.tls.failure import REASONS, UNKNOWN, explain, explain_client, why_failed
from table_tests import each

OWN = "with `inspect: false`, the client does TLS with this host itself"


@each(
    ("text", "why"),
    [
        ("Certificate verify failed: hostname mismatch", "the server's certificate is for another host"),
        ("tlsv13 alert certificate required", f"the server asks for a client certificate; {OWN}"),
        (
            "Error([('', '', 'tlsv1 alert protocol version')])",
            f"the server speaks only versions of TLS before 1.2; {OWN}",
        ),
        ("The remote server does not speak TLS.", "the server does not speak TLS on this port"),
        ("tlsv1 alert internal error", f"the server refused the TLS handshake; {OWN}"),
        ("connection closed", f"the server closed the connection during the TLS handshake; {OWN}"),
        ("a text of the next version", UNKNOWN),
    ],
)
def test_explains_a_failed_handshake_in_our_words(text: str, why: str) -> None:
    assert explain(text) == why


def test_an_explanation_is_explained_as_itself_or_not_at_all() -> None:
    assert [why for why in REASONS.values() if "OpenSSL" in why or "mitmproxy" in why] == []


def test_explains_an_error_without_a_reason() -> None:
    assert why_failed(SSL.Error(), SSL.Connection(SSL.Context(SSL.TLS_CLIENT_METHOD))) == UNKNOWN


@each(
    ("reason", "why"),
    [
        ("unsupported protocol", "The client offers only versions of TLS before 1.2"),
        ("tlsv1 alert unknown ca", "The client does not trust the proxy's certificate for a.test"),
        ("", "The TLS handshake of the client failed; it may not trust the proxy's certificate for a.test"),
    ],
)
def test_explains_a_failed_handshake_of_a_client(reason: str, why: str) -> None:
    assert explain_client(SSL.Error([("SSL routines", "", reason)]), "a.test") == why

import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import pytest
from msgspec.structs import replace

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Policy
from agent_sandbox.proxy.audit.record import AuditRecord
from agent_sandbox.proxy.front.dns import NameServer
from policy_texts import PolicyOf

HERE = "10.0.0.2"
CLIENT = "10.0.0.3"


class Stage:
    """A name server and its audit records."""

    def __init__(self, policy: Policy) -> None:
        self.lines: list[AuditRecord] = []
        self.server = NameServer(policy=lambda: policy, address=HERE, record=self.lines.append)

    def ask(self, name: str, kind: str = "A") -> dns.message.Message:
        """Send a query, and return the answer."""
        return self.send(dns.message.make_query(name, kind))

    def send(self, question: dns.message.Message) -> dns.message.Message:
        """Send a message, and return the answer."""
        answer = self.server.answer(question.to_wire(), CLIENT)
        assert answer
        return dns.message.from_wire(answer)


@pytest.fixture
def stage(policy: PolicyOf) -> Stage:
    return Stage(policy("domains: [a.test, '*.wild.test', {host: b.test, ports: [80]}, {host: c.test, ports: [8443]}]"))


def texts(answer: dns.message.Message) -> list[str]:
    return [str(record) for record in answer.answer]


@pytest.mark.parametrize("name", ["a.test", "A.Test.", "x.wild.test", "b.test"])
def test_an_allowed_name_resolves_to_the_proxy(stage: Stage, name: str) -> None:
    answer = stage.ask(name)
    assert answer.rcode() == dns.rcode.NOERROR
    assert texts(answer) == [f"{name.rstrip('.')}. 5 IN A 10.0.0.2"]
    line = stage.lines[0]
    assert (line.event, line.decision, line.host, line.method, line.client) == (
        Event.DNS,
        "allow",
        name.rstrip(".").lower(),
        "A",
        CLIENT,
    )
    assert line.rule == "policy.yaml:2"


@pytest.mark.parametrize("kind", ["AAAA", "HTTPS", "SVCB"])
def test_aaaa_https_and_svcb_queries_get_an_empty_answer(stage: Stage, kind: str) -> None:
    answer = stage.ask("a.test", kind)
    assert (answer.rcode(), texts(answer)) == (dns.rcode.NOERROR, [])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("evil.test", "no rule allows host evil.test"),
        ("c.test", "host c.test is allowed, port 443 is not: policy.yaml:2 allows any method c.test on port 8443"),
        ("wild.test", "no rule allows host wild.test: policy.yaml:2 allows any method *.wild.test"),
        (".", "ambiguous: not a host name: '.'"),
        ("a\\000b.test", "ambiguous: not a host name: 'a\\\\000b.test'"),
        ("xn--a.test", "ambiguous: not valid punycode: 'xn--a'"),
    ],
)
def test_a_denied_name_gets_nxdomain(stage: Stage, name: str, reason: str) -> None:
    answer = stage.ask(name)
    assert (answer.rcode(), texts(answer)) == (dns.rcode.NXDOMAIN, [])
    assert (stage.lines[0].decision, stage.lines[0].reason) == ("deny", reason)


@pytest.mark.parametrize("kind", ["TXT", "ANY", "NULL", "MX", "AXFR", "PTR"])
def test_refuses_other_query_types_even_for_allowed_names(stage: Stage, kind: str) -> None:
    answer = stage.ask("a.test", kind)
    assert (answer.rcode(), texts(answer)) == (dns.rcode.REFUSED, [])
    assert (stage.lines[0].decision, stage.lines[0].reason) == ("deny", f"queries of type {kind} are not answered")


def test_refuses_a_query_of_another_class(stage: Stage) -> None:
    assert stage.send(dns.message.make_query("a.test", "A", rdclass="CH")).rcode() == dns.rcode.REFUSED


def test_refuses_a_message_that_is_not_a_query_with_one_question(stage: Stage) -> None:
    nothing, update = dns.message.Message(), dns.message.make_query("a.test", "A")
    update.set_opcode(dns.opcode.NOTIFY)
    for message in (nothing, update):
        assert stage.send(message).rcode() == dns.rcode.REFUSED
    assert [line.reason for line in stage.lines] == ["not a query with exactly one question"] * 2


def test_answers_edns_queries_without_padding(stage: Stage) -> None:
    answer = stage.send(dns.message.make_query("a.test", "A", use_edns=0, pad=128, want_dnssec=True))
    assert (answer.edns, len(texts(answer)), answer.options) == (0, 1, ())


HEADER, QUESTION = b"\0\1\1\0", b"\1a\4test\0\0\1\0\1"
# A name of 126 labels, and records that point to it: each one took as long to parse as the name.
HEAVY = HEADER + b"\0\1\0\0\0\0\0\x18" + b"\1a" * 126 + b"\0\0\1\0\1" + b"\xc0\x0c\0\2\0\1\0\0\0\0\0\2\xc0\x0c" * 24


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 11,
        b"\0\0\1\0\0\1\0\0\0\0\0\0\x3fabc",
        b"GET / HTTP/1.1\r\n\r\n",
        HEADER + b"\0\1\0\0\0\0\0\0" + QUESTION + bytes(512),
        HEADER + b"\0\2\0\0\0\0\0\0" + QUESTION * 2,
        HEADER + b"\0\1\0\1\0\0\0\0" + QUESTION + b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4abcd",
        HEAVY,
    ],
)
def test_a_malformed_message_gets_no_answer_and_is_recorded(stage: Stage, data: bytes) -> None:
    assert stage.server.answer(data, CLIENT) is None
    assert [(line.event, line.reason) for line in stage.lines] == [(Event.DNS, "not a DNS query with one question")]


def test_does_not_answer_a_dns_response(stage: Stage) -> None:
    message = dns.message.make_query("a.test", "A")
    message.flags |= dns.flags.QR
    assert stage.server.answer(message.to_wire(), CLIENT) is None


def test_the_name_of_the_page_about_the_sandbox_always_resolves(stage: Stage) -> None:
    assert texts(stage.ask("agent-sandbox.internal")) == ["agent-sandbox.internal. 5 IN A 10.0.0.2"]
    assert stage.ask("x.agent-sandbox.internal").rcode() == dns.rcode.NXDOMAIN


def test_a_name_that_a_person_is_asked_about_resolves_to_the_proxy(stage: Stage) -> None:
    stage.server = replace(
        stage.server, asks=lambda host, port, denied: (host, port, denied.allowed) == ("z.test", 443, False)
    )
    assert texts(stage.ask("z.test")) == ["z.test. 5 IN A 10.0.0.2"]
    (line,) = stage.lines
    assert (line.decision, line.reason) == (
        "allow",
        "no rule allows host z.test; resolved, because a person is asked about the request",
    )
    assert stage.ask("y.test").rcode() == dns.rcode.NXDOMAIN

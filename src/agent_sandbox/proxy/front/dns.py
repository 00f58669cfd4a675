"""The agent's only DNS server: allowed names resolve to the proxy itself, all others to NXDOMAIN.

It forwards no query, so no name leaves the sandbox before a request to it is allowed. A program that ignores the proxy
variables connects to the address that it gets, which is the transparent proxy.
"""

import struct
from collections.abc import Callable

import dns.exception
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset
from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Ambiguous, Decision, Effect, Policy, canonical_host, decide_connect
from agent_sandbox.policy.http.host import OWN_HOST
from agent_sandbox.proxy.audit.record import AuditRecord
from agent_sandbox.proxy.front.dns_sockets import LONGEST_QUESTION
from agent_sandbox.proxy.front.transparent import HTTP_PORT, TLS_PORT

# The answer is only the proxy's own address, and the request is denied until the person has answered.
ASKED_LATER = "resolved, because a person is asked about the request"
TTL_SECONDS = 5  # the policy may change, and an answer costs next to nothing
# Only queries with one question and at most one OPT record are parsed: parsing others can take seconds.
PLAIN = struct.Struct("!4xHHHH")  # of the header: questions, answers, authorities, additional records
# Programs also query these and do without: IPv6 addresses, hints for HTTP/3 and ECH. The answer is always empty.
NOTHING_THERE = frozenset({dns.rdatatype.AAAA, dns.rdatatype.SVCB, dns.rdatatype.HTTPS})

Asks = Callable[[str, int, Decision], bool]
Record = Callable[[AuditRecord], None]


def _never(*_: object) -> bool:
    return False


class NameServer(Struct, frozen=True, kw_only=True):
    """Answers DNS queries. `address` is the address at which the agent reaches the proxy.

    `asks` says whether a person would be asked about a request that is denied so far.
    """

    policy: Callable[[], Policy]
    address: str
    record: Record
    asks: Asks = _never

    def answer(self, question: bytes, client: str) -> bytes | None:
        """Return the response to one message, None if it is not a DNS query."""
        line = AuditRecord(event=Event.DNS, port=53, client=client)
        try:
            _require_plain(question)
            asked = dns.message.from_wire(question, ignore_trailing=False)
        except (dns.exception.DNSException, ValueError):
            self.record(replace(line, reason="not a DNS query with one question"))
            return None
        if asked.flags & dns.flags.QR:
            return None
        answer = dns.message.make_response(asked, pad=0)
        self.record(self._decide(asked, answer, line))
        return answer.to_wire()

    def _decide(self, asked: dns.message.Message, answer: dns.message.Message, line: AuditRecord) -> AuditRecord:
        """Fill `answer`, REFUSED or NXDOMAIN unless the policy allows the name, and return the completed `line`."""
        answer.set_rcode(dns.rcode.REFUSED)
        if asked.opcode() != dns.opcode.QUERY or len(asked.question) != 1:
            return replace(line, reason="not a query with exactly one question")
        (question,) = asked.question
        name, kind = question.name.to_text(omit_final_dot=True), dns.rdatatype.to_text(question.rdtype)
        line = replace(line, host=name, method=kind)
        if question.rdclass != dns.rdataclass.IN or question.rdtype not in {dns.rdatatype.A, *NOTHING_THERE}:
            return replace(line, reason=f"queries of type {kind} are not answered")
        answer.set_rcode(dns.rcode.NXDOMAIN)
        try:
            host = canonical_host(name)
        except Ambiguous as doubt:
            return replace(line, reason=f"ambiguous: {doubt}")
        decision = decide_name(self.policy(), host)
        if not decision.allowed and self.asks(host, TLS_PORT, decision):
            decision = replace(decision, effect=Effect.ALLOW, reason=f"{decision.reason}; {ASKED_LATER}")
        if decision.allowed:
            answer.set_rcode(dns.rcode.NOERROR)
            if question.rdtype == dns.rdatatype.A:
                answer.answer.append(dns.rrset.from_text(question.name, TTL_SECONDS, "IN", "A", self.address))
        return replace(line, host=host, decision=decision.effect, rule=decision.rule, reason=decision.reason)


def _require_plain(question: bytes) -> None:
    if not PLAIN.size <= len(question) <= LONGEST_QUESTION:
        raise ValueError("too short or too long")
    questions, answers, authorities, additional = PLAIN.unpack_from(question)
    if questions > 1 or answers or authorities or additional > 1:
        raise ValueError("more than a question")


def decide_name(policy: Policy, host: str) -> Decision:
    """Decide a name: allowed if the policy may allow a request to it on a port of the transparent proxy.

    The name of the sandbox's own page is always allowed.
    """
    if host == OWN_HOST:
        return Decision(effect=Effect.ALLOW, rule=None, origin=None, reason="the page about this sandbox")
    decisions = [decide_connect(policy, host=host, port=port) for port in (TLS_PORT, HTTP_PORT)]
    return next((decision for decision in decisions if decision.allowed), decisions[0])

"""The page about the sandbox: what it says, and that nothing of it leaves."""

import json
from typing import cast

import pytest

from agent_sandbox.policy import Policy, Request, parse_request
from agent_sandbox.policy.engine.rule_set import RuleSet
from agent_sandbox.proxy.decide.own_page import DENIALS, RULES, OwnPage
from agent_sandbox.proxy.decide.service_hints import ServiceHints
from agent_sandbox.proxy.exchange.denial import Page
from policy_texts import PolicyOf

OWN = "agent-sandbox.internal"


def denied(host: str, **fields: object) -> dict[str, object]:
    seen = {"time": "T", "method": "GET", "scheme": "https", "port": 443, "path": "/", "reason": "no", "cause": ""}
    return {**seen, "host": host, **fields}


def ask(
    policy: Policy,
    *denials: dict[str, object],
    host: str = OWN,
    port: int = 80,
    scheme: str = "http",
    method: str = "GET",
    target: str = "/",
    accept: str = "*/*",
) -> Page | None:
    page = OwnPage(lambda count: list(denials)[-count:], ServiceHints(dict).advise)
    return page.answer(parse_request(scheme=scheme, host=host, port=port, method=method, target=target), policy, accept)


def shown(policy: Policy, *denials: dict[str, object], **asked: str) -> Page:
    """Return the page."""
    page = ask(policy, *denials, **asked)  # type: ignore[arg-type] # none of them is the port
    assert page
    return page


def test_the_page_lists_the_rules_the_denials_and_what_would_allow_them(policy: PolicyOf) -> None:
    rules = policy("allow: [GET https://a.test/x]\ndeny: [POST https://b.test/y]\n")
    page = shown(rules, denied("c.test", path="/z", reason="no rule allows host c.test"))
    assert page.body.decode() == (
        "This is agent-sandbox. Requests leave this machine only through its proxy, and only as the policy allows.\n"
        "A response with the header `x-agent-sandbox: blocked` comes from the proxy, not from the server.\n"
        "Its text says why the request was denied, and after `To allow it` what would allow it.\n"
        "You cannot change the policy from inside, and no request gets around it. Do not look for a workaround.\n"
        "If you need what was denied, tell the person you work for what you need and why, and quote that text.\n"
        "\n"
        "Allowed:\n"
        "  GET, HEAD https://a.test/x\n"
        "Always denied:\n"
        "  POST https://b.test/y\n"
        "\n"
        "Your last denied requests:\n"
        "  T  GET c.test/z: no rule allows host c.test\n"
        "    To allow it: run `agent-sandbox policy allow 'GET https://c.test/z'` on the host machine\n"
    )


def test_the_page_says_what_would_allow_a_push(policy: PolicyOf) -> None:
    denial = denied("github.com", path="/o/r.git/info/refs", tool="git push")
    page = shown(policy("domains: [{host: github.com, rules: [{methods: [GET]}]}]"), denial, target="/status.json")
    (one,) = json.loads(page.body)["denials"]
    assert one["to_allow"] == (
        "run `agent-sandbox secret setup github --repo o/r` on the host machine: it asks for a token if there is none"
    )


@pytest.mark.parametrize(("target", "accept"), [("/status.json", "*/*"), ("/", "application/json")])
def test_the_page_is_json_for_programs(policy: PolicyOf, target: str, accept: str) -> None:
    page = shown(policy("domains: [a.test]"), denied("c.test"), target=target, accept=accept)
    found = json.loads(page.body)
    assert found["allowed"] == ["any method a.test"]
    assert [one["host"] for one in found["denials"]] == ["c.test"]


def test_lists_repeated_denials_once_and_the_newest_first(policy: PolicyOf) -> None:
    records = [denied(f"h{number}.test") for number in range(DENIALS + 5)] * 2
    page = shown(policy("domains: [a.test]"), *records, target="/status.json")
    hosts = [one["host"] for one in json.loads(page.body)["denials"]]
    assert hosts == [f"h{number}.test" for number in reversed(range(5, DENIALS + 5))]


def test_cuts_long_policies(policy: PolicyOf) -> None:
    page = shown(policy(f"domains: [{', '.join(f'h{number}.test' for number in range(RULES + 7))}]"))
    assert "  and 7 more rules\n" in page.body.decode()


def test_a_policy_that_allows_nothing_is_explained(policy: PolicyOf) -> None:
    page = shown(policy("domains: []"))
    assert "Nothing is allowed: " in page.body.decode()
    assert "\nAllowed:\n  nothing\n" in page.body.decode()


def test_gives_no_advice_if_the_body_was_decisive(policy: PolicyOf) -> None:
    record = denied("c.test", method="POST", cause="operation")
    page = shown(policy("domains: [a.test]"), record, target="/status.json")
    assert json.loads(page.body)["denials"][0]["to_allow"] == ""


def test_escapes_text_from_clients(policy: PolicyOf) -> None:
    page = shown(policy("domains: [a.test]"), denied("c.test", path="/\x1b[31m\n", method="\x1b"))
    assert b"\x1b" not in page.body


@pytest.mark.parametrize(("method", "target", "status"), [("POST", "/", 405), ("DELETE", "/", 405), ("GET", "/x", 404)])
def test_answers_other_requests_to_the_pages_host(policy: PolicyOf, method: str, target: str, status: int) -> None:
    page = shown(policy("domains: [a.test]"), method=method, target=target)
    assert page.status == status


@pytest.mark.parametrize(
    "other", [{"scheme": "https", "port": 443}, {"port": 8080}, {"host": f"x.{OWN}"}, {"host": f"{OWN}.a.test"}]
)
def test_leaves_requests_to_other_hosts_to_the_policy(policy: PolicyOf, other: dict[str, str | int]) -> None:
    assert ask(policy("domains: [a.test]"), **other) is None  # type: ignore[arg-type]


class Counted:
    """A policy that counts how often its rules are read."""

    def __init__(self, policy: Policy) -> None:
        self.count, self.refusal, self._policy = 0, policy.refusal, policy

    @property
    def rules(self) -> RuleSet:
        """Count the reading, and return the rules."""
        self.count += 1
        return self._policy.rules


def test_reads_the_rules_once_per_policy(policy: PolicyOf) -> None:
    page = OwnPage(lambda _: [], ServiceHints(dict).advise)
    request = parse_request(scheme="http", host=OWN, port=80, method="GET", target="/")
    first, other = (Counted(policy(f"domains: [{host}]")) for host in ("a.test", "b.test"))

    def lists(current: Counted, host: bytes) -> bool:
        answer = page.answer(request, cast("Policy", current), "")
        return answer is not None and host in answer.body

    assert lists(first, b"a.test")
    read = first.count
    assert lists(first, b"a.test")
    assert first.count == read > 0
    assert (lists(other, b"b.test"), lists(other, b"a.test")) == (True, False)


def test_computes_advice_once_per_policy(policy: PolicyOf) -> None:
    asked: list[str] = []

    def advise(request: Request, _policy: Policy) -> str:
        asked.append(request.host)
        return f"allow {request.host}"

    records = [denied("a.test"), denied("b.test")]
    page = OwnPage(lambda _: records, advise)
    request = parse_request(scheme="http", host=OWN, port=80, method="GET", target="/status.json")

    def advice(current: Policy) -> list[str]:
        answer = page.answer(request, current, "")
        assert answer
        return [one["to_allow"] for one in json.loads(answer.body)["denials"]]

    first = policy("domains: [x.test]")
    assert advice(first) == advice(first) == ["allow b.test", "allow a.test"]
    records.append(denied("c.test"))
    assert advice(first) == ["allow c.test", "allow b.test", "allow a.test"]
    assert asked == ["b.test", "a.test", "c.test"]
    advice(policy("domains: [y.test]"))
    assert asked[3:] == ["c.test", "b.test", "a.test"]

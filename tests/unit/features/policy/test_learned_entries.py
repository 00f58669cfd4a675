from collections.abc import Callable

import pytest

from agent_sandbox.features.policy.learned_entries import (
    MOST_ENTRIES,
    OTHER_NEEDS,
    Chosen,
    as_text,
    choose,
    replayed,
    without_warning,
)
from agent_sandbox.policy import Policy, compile_policy
from agent_sandbox.policyfile import parse_layer
from agent_sandbox.policytools.suggest.denials import read_traffic
from agent_sandbox.policytools.suggest.learning import Learned, learn, replay
from log_lines import denied
from table_tests import each

LINES = (
    denied("GET https://npm.test/left-pad\x1b[2J", path="/left-pad", tool="npm"),
    denied("GET https://a.test/c/5d41402abc4b"),
    denied("GET https://status.test/"),
    denied("PUT https://a.test/x"),
    denied("GET https://github.com/o/n.git/info/refs", tool="git push"),
    denied("GET https://10.0.0.1/"),
)


def policy(text: str) -> Policy:
    layer = parse_layer(text, name="project", file="policy.yaml", shown="policy.yaml", services=())
    return compile_policy([layer], {})


def learned(*lines: str) -> Learned:
    return learn(read_traffic(lines, since=""), policy(""), {"statuspage": policy("domains: [status.test]")})


def answers(*words: str) -> Callable[[str], str]:
    rest = iter(words)
    return lambda _question: next(rest)


def names(chosen: Chosen) -> list[str]:
    return [*chosen.services, *(rule.text for rule in chosen.rules)]


def test_entries_are_shown_with_counts_examples_and_warnings() -> None:
    assert [*as_text(learned(*LINES))] == [
        "services: node",
        "  once, it looks like npm, such as GET npm.test/left-pad",
        "allow: GET https://a.test/c/*",
        "  once, such as GET a.test/c/5d41402abc4b",
        "  `*` stands for 1 value: 5d41402abc4b",
        "allow: GET https://status.test/",
        "  once, such as GET status.test/",
        "  the service statuspage would allow it too, with everything else that it allows",
        "allow: POST https://github.com/o/n.git/git-receive-pack",
        "  once, it looks like git push, such as GET github.com/o/n.git/info/refs",
        "  careful: it writes: the agent can send data out this way",
        "allow: PUT https://a.test/x",
        "  once, such as PUT a.test/x",
        "  careful: it writes: the agent can send data out this way",
        "left out:",
        "  once, a private host: GET 10.0.0.1/",
    ]


def test_shortens_the_list_of_values_that_a_star_replaces() -> None:
    lines = [*as_text(learned(*(denied(f"GET https://a.test/i/{number}") for number in range(5))))]
    assert lines[2] == "  `*` stands for 5 values: 0, 1, 2, ..."


def test_reports_that_there_is_nothing_to_learn() -> None:
    assert [*as_text(learned())] == ["nothing to learn: every request was allowed, or is left out"]


def test_shows_and_accepts_a_limited_number_of_entries() -> None:
    many = learned(*(denied(f"GET https://h{number}.test/") for number in range(MOST_ENTRIES + 5)))
    assert [*as_text(many)][-1] == "and 5 more, seen less often"
    assert len(without_warning(many).rules) == MOST_ENTRIES


def test_accepts_entries_without_a_warning_without_asking() -> None:
    assert names(without_warning(learned(*LINES))) == [
        "node",
        "GET https://a.test/c/*",
        "GET https://status.test/",
    ]
    assert not without_warning(learned())


@each(
    ("words", "expected"),
    [
        (("y", "y", "n", ""), ["node", "GET https://a.test/c/*"]),
        (("r", "r", "s", "y"), ["statuspage", "GET https://npm.test/left-pad", "PUT https://a.test/x"]),
        (("s", "q"), []),
    ],
)
def test_the_user_chooses_entries_one_by_one(words: tuple[str, ...], expected: list[str]) -> None:
    assert names(choose(learned(*LINES), answers(*words))) == expected


def test_does_not_ask_about_a_push_that_needs_a_token(capsys: pytest.CaptureFixture[str]) -> None:
    assert not choose(learned(LINES[4]), answers())
    assert capsys.readouterr().err == "run this command: agent-sandbox secret setup github --repo o/n\n"


def test_a_question_names_its_keys() -> None:
    questions: list[str] = []

    def ask(question: str) -> str:
        questions.append(question)
        return ""

    choose(learned(*LINES), ask)
    assert questions == [
        "add it? (1 of 5) [y/r/N/q; r adds the single rules]",
        "add it? (2 of 5) [y/N/q]",
        "add it? (3 of 5) [y/s/N/q; s adds the service statuspage]",
        "add it? (5 of 5) [y/N/q]",
    ]


def test_a_replay_lists_failures_untried_services_and_left_out_requests_it_allows() -> None:
    found = learned(
        *(denied(f"GET https://h{number}.test:8443/") for number in range(12)),
        denied("GET https://npm.test/x", tool="npm"),
        *(denied(f"GET https://a.test/{number}/{'x' * 200}") for number in range(12)),
    )
    result = replay(found, policy("domains: [a.test]"))
    lines = [*replayed(result, untried=found.entries[:1])]
    assert lines[0] == f"replay: 0 of 13 recorded requests pass {OTHER_NEEDS}"
    assert lines[1] == "  deny  GET https://h0.test:8443/  no rule allows host h0.test"
    assert lines[11:13] == ["  and 3 more", "  node is not tried: it is written from the configuration of this machine"]
    assert lines[13] == f"  careful: left out, but an entry allows it: GET https://a.test/0/{'x' * 200}"
    assert lines[-1] == "  and 2 more that were left out"

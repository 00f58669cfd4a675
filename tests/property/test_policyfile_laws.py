"""The laws of policy files: any bytes give a policy or problems with places, and suggested lines work."""

import shlex

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from agent_sandbox.policy import Ambiguous, Effect, Layer, advise, compile_policy, decide, parse_request
from agent_sandbox.policyfile import parse_layer
from agent_sandbox.policyfile.text.decoding import decode_policy
from agent_sandbox.policytools.edit.short_rule import read_short_rule
from agent_sandbox.problems import UserError

WORDS = ("domains", "deny", "allow", "host", "rules", "methods", "GET", "a.test", "*.a.test", "no", "[", "]", "{", "}")
SIGNS = (":", ": ", "- ", "\n", "\n  ", "\n    ", "\t", ", ", "&a ", "*a", "!!str ", "'", '"', "#", "---\n", "<<", "é")
scribbles = st.lists(st.sampled_from(WORDS + SIGNS), max_size=30).map("".join)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.sampled_from(WORDS), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from((*WORDS, "ports", "path", "query")), inner, max_size=3),
    ),
    max_leaves=12,
)


def load(text: str) -> Layer:
    return parse_layer(text, name="project", file="p", shown="p", services=())


def is_told(error: UserError) -> bool:
    return all(problem.what and problem.where.startswith("p:") for problem in error.problems[:100])


def assert_a_layer_or_problems(text: str) -> None:
    try:
        layer = load(text)
    except UserError as error:
        if not is_told(error):
            raise
        return
    assert compile_policy([layer], {}).digest


@given(st.binary(max_size=60))
@example(b"\xff\xfe")
@example(b"domains: [a.test]\xc3")
def test_any_bytes_give_a_layer_or_problems(content: bytes) -> None:
    try:
        text = decode_policy(content, file="p")
    except UserError as error:
        if len(error.problems) != 1:
            raise
        return
    assert_a_layer_or_problems(text)


@given(scribbles)
@example("domains: [a.test\n")
@example("? ")
@example("- ? -")
def test_any_text_gives_a_layer_or_problems_with_places(text: str) -> None:
    assert_a_layer_or_problems(text)


@given(values)
def test_any_yaml_gives_a_layer_or_problems_with_places(value: object) -> None:
    assert_a_layer_or_problems(yaml.safe_dump(value))


segments = st.text(
    st.characters(codec="ascii", exclude_characters="/?#;%", min_codepoint=33, max_codepoint=126), max_size=6
)


@given(
    st.sampled_from(("GET", "POST")),
    st.sampled_from(("a.test", "[2606:4700::1]", "203.0.113.1")),
    st.sampled_from((443, 80, 8443)),
    st.lists(segments, max_size=3),
)
@example("GET", "a.test", 443, ["a:"])
@example("GET", "a.test", 443, ["\"'", "#", "*", "**"])
@example("GET", "a.test", 443, ["{repo}"])
def test_the_suggested_command_allows_the_denied_request(method: str, host: str, port: int, parts: list[str]) -> None:
    try:
        request = parse_request(scheme="https", host=host, port=port, method=method, target="/" + "/".join(parts))
    except Ambiguous:
        return
    other = "domains: [other.test]"
    same = f'domains: [{{host: "{host}", rules: [{{methods: [DELETE]}}]}}]'
    for text in (other, same):
        decision = decide(compile_policy([load(text)], {}), request)
        program, *words, rule = shlex.split(advise(request, decision).split("`")[1])
        assert (program, words) == ("agent-sandbox", ["policy", "allow"])
        written = read_short_rule(Effect.ALLOW, [rule])
        assert decide(compile_policy([written.alone], {}), request).allowed

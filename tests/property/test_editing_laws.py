"""The laws of editing in place, on files in every style that a person can choose."""

import json
import re
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from agent_sandbox.policy import Effect, Layer, Policy, Request, compile_policy, decide, parse_request
from agent_sandbox.policy.http.path import readings
from agent_sandbox.policyfile import parse_layer
from agent_sandbox.policytools.edit.editing import Edited, Readers, edit
from agent_sandbox.policytools.edit.short_rule import ShortRule, read_short_rule
from agent_sandbox.problems import UserError

HOSTS = ("a.test", "b.a.test", "203.0.113.1")
PATHS = ("/", "/a", "/a/b", "/*", "/a/*", "/**", "/b:")
COMMENTS = ("", " # why", " # a, [b], {c}: 'd'", ' # "')
ABOVE = ("", "# c\n", "\n", "# - GET https://x.test/\n\n", "    # deeper\n")

lines = st.builds(
    "{} {}://{}{}{}".format,
    st.sampled_from(("GET", "POST", "DELETE")),
    st.sampled_from(("http", "https")),
    st.sampled_from(HOSTS),
    st.sampled_from(PATHS),
    st.sampled_from(("", "?x=1")),
)
denies = st.one_of(lines, st.sampled_from((*HOSTS, "*.a.test", ".a.test")))
hosts = st.sampled_from((*HOSTS, "*.a.test"))
texts = st.sampled_from(("'{}'", '"{}"'))


@st.composite
def blocks(draw: st.DrawFn, entries: st.SearchStrategy[str]) -> str:
    """Return an indented list, with comments between and after the items."""
    indent, gap = " " * draw(st.integers(0, 4)), " " * draw(st.integers(1, 3))
    items = draw(st.lists(st.tuples(entries, texts, st.sampled_from(COMMENTS), st.sampled_from(ABOVE)), min_size=1))
    body = "".join(f"{above}{indent}-{gap}{how.format(item)}{why}\n" for item, how, why, above in items)
    return f"{draw(st.sampled_from(COMMENTS))}\n{body}"


@st.composite
def flows(draw: st.DrawFn, entries: st.SearchStrategy[str]) -> str:
    """Return a list in brackets, on one line or several, with or without a trailing comma."""
    items = draw(st.lists(entries, max_size=3))
    apart = draw(st.sampled_from((", ", ",", ",\n    ", ", # c, ]\n  ")))
    end = draw(st.sampled_from(("", " ", "\n  ", " # d, ]\n  ", *([", ", ",\n"] if items else []))))
    return f" [{apart.join(map(json.dumps, items))}{end}]{draw(st.sampled_from(COMMENTS))}\n"


@st.composite
def files(draw: st.DrawFn) -> str:
    """Return a policy file with its sections in any order, each in its own style."""
    kinds = {"domains": hosts, "allow": lines, "deny": denies}
    names = draw(st.permutations(sorted(kinds)))[: draw(st.integers(0, 3))]
    text = draw(st.sampled_from(("", "---\n", "version: 1\n", "# c\n\nversion: 1\n")))
    for name in names:
        empty = st.sampled_from(("\n", " # c\n", "\n  # - x\n", " null # c\n", " ~\n", "\n  null\n"))
        text += (
            draw(st.sampled_from(ABOVE)) + f"{name}:" + draw(st.one_of(empty, blocks(kinds[name]), flows(kinds[name])))
        )
    text += draw(st.sampled_from(("", "# the end\n", "\n", *(["...\n"] if names else []))))
    text = text.replace("\n", draw(st.sampled_from(("\n", "\r\n"))))
    return text.rstrip("\r\n") if draw(st.booleans()) else text


requests = st.builds(
    lambda scheme, host, method, path, query: parse_request(
        scheme=scheme, host=host, port={"http": 80, "https": 443}[scheme], method=method, target=f"{path}{query}"
    ),
    st.sampled_from(("http", "https")),
    st.sampled_from((*HOSTS, "c.test")),
    st.sampled_from(("GET", "HEAD", "POST", "DELETE")),
    st.sampled_from(("/", "/a", "/a/b", "/a/c", "/b:")),
    st.sampled_from(("", "?x=1", "?x=2")),
)
rules = st.one_of(
    lines.map(lambda line: read_short_rule(Effect.ALLOW, (line,))),
    denies.map(lambda line: read_short_rule(Effect.DENY, (line,))),
)


def layer(text: str) -> Layer:
    return parse_layer(text, name="project", file="p", shown="p", services=())


def policy(of: Layer) -> Policy:
    return compile_policy([of], {})


READ = Readers(file="p", layer=layer, policy=policy)


def edited(text: str, rule: ShortRule) -> Edited | None:
    """Return the edit; None if nothing has to change, or if a deny prevents it."""
    try:
        outcome = edit(text, rule, READ)
    except UserError as error:
        if "a deny always wins" not in str(error) and "would still be denied" not in str(error):
            raise
        return None
    return outcome if isinstance(outcome, Edited) else None


def ruled(rule: ShortRule, request: Request) -> bool:
    """Return whether the rule matches the request."""
    asked = rule.rule.conditions.host.matches(request.host)
    return asked and rule.rule.matches(request, readings(request.path))


@given(files(), rules)
@example("deny: [a.test # d, ]\n  ]\n", read_short_rule(Effect.DENY, ("b.a.test",)))
def test_an_edit_inserts_text_in_one_place_and_removes_at_most_a_null(text: str, rule: ShortRule) -> None:
    after = edited(text, rule)
    if after is None:
        return
    bare = re.sub(rf"^{rule.section}:(\s*?) *(?:null|~)", rf"{rule.section}:\1", text, flags=re.MULTILINE)
    size = len(after.text) - len(bare)
    places = [at for at in range(len(bare) + 1) if after.text == bare[:at] + after.text[at : at + size] + bare[at:]]
    assert places
    assert "#" not in after.text[places[0] : places[0] + size]
    ending = "\r\n" if "\r\n" in text else "\n"
    assert after.text.replace(ending, "").count("\n") == text.replace(ending, "").count("\n")


@given(files(), rules, requests)
def test_an_edit_changes_only_decisions_on_requests_of_its_rule(text: str, rule: ShortRule, request: Request) -> None:
    after = edited(text, rule)
    if after is None:
        return
    before, now = (decide(policy(layer(source)), request) for source in (text, after.text))
    if not ruled(rule, request):
        assert now.effect is before.effect
    elif rule.effect is Effect.DENY:
        assert now.effect is Effect.DENY
    else:
        assert now.allowed or any(rule_denies(layer(text), request))


def rule_denies(of: Layer, request: Request) -> list[Any]:
    found = policy(of).index.rules_for(request.host)
    return [rule for rule in found if rule.effect is Effect.DENY and rule.matches(request, readings(request.path))]


@given(files(), rules)
def test_an_edit_reports_the_line_of_its_entry_and_is_made_only_once(text: str, rule: ShortRule) -> None:
    after = edited(text, rule)
    if after is None:
        return
    assert rule.text in after.text.splitlines()[after.line - 1]
    assert edited(after.text, rule) is None

"""The laws of reading GraphQL: every body is parsed or ambiguous, and no field of an operation is missed."""

import json
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.policy.http.graphql_body import read_operation
from agent_sandbox.policy.http.graphql_operation import Operation

PIECES = (
    "{",
    "}",
    "query",
    "mutation",
    "fragment F on T",
    "...F",
    "...",
    "a",
    "b:",
    '"x',
    '"""',
    "#",
    "\n",
    "@skip",
    "(a:1)",
)
KEYS = ("query", "variables", "operationName", "extensions", "Query")


@dataclass
class Document:
    """A document under construction: its fragments, and the fields at its top level."""

    fragments: list[str] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)

    def selection(self, part: tuple[str, object]) -> str:
        kind, what = part
        if kind == "field":
            self.asked.add(str(what))
            return f'alias{what}: {what}(x: "}} mutation {{ hidden }}") {{ below ... {{ {what}x }} }}'
        inner = " ".join(map(self.selection, what))  # type: ignore[call-overload] # a list, as `wrapped` draws it
        if kind == "inline":
            return f"... on Query {{ {inner} }}"
        self.fragments.append(inner)
        return f"...F{len(self.fragments)}"

    def text(self, parts: list[tuple[str, object]]) -> str:
        body = " ".join(map(self.selection, parts))
        fragments = "\n".join(f"fragment F{n} on Query {{ {one} }}" for n, one in enumerate(self.fragments, start=1))
        return f"query Q {{ {body} }}\n{fragments}"


fields = st.tuples(st.just("field"), st.sampled_from(("viewer", "node", "search")))
wrapped = st.recursive(
    fields,
    lambda inner: st.tuples(st.sampled_from(("inline", "named")), st.lists(inner, min_size=1, max_size=2)),
    max_leaves=5,
)


@given(st.lists(wrapped, min_size=1, max_size=3))
def test_finds_exactly_the_top_level_fields_in_any_fragments(parts: list[tuple[str, object]]) -> None:
    document = Document()
    body = json.dumps({"query": document.text(parts)}).encode()
    found = read_operation(body)
    assert replace(found, selections=None) == Operation(kind="query", fields=frozenset(document.asked))


documents = st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join)
values: st.SearchStrategy[object] = st.one_of(documents, st.none(), st.integers(), st.just({}), st.just([]))


@given(
    st.one_of(
        st.binary(max_size=40), st.dictionaries(st.sampled_from(KEYS), values).map(lambda of: json.dumps(of).encode())
    )
)
def test_every_body_is_parsed_or_ambiguous(body: bytes) -> None:
    operation = read_operation(body)
    assert bool(operation.doubt) != bool(operation.fields)
    assert operation.kind in ({""} if operation.doubt else {"query", "mutation", "subscription"})

"""The laws of reading MCP: every body is a message or ambiguous; no lenient reader sees an undecided call."""

import codecs
import json
from collections.abc import Callable, Iterator
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.policy.http.mcp_body import read_message
from agent_sandbox.policy.match.mcp_pattern import mcp_pattern
from agent_sandbox.proxy.exchange.tool_list import ToolListError, filtered

SEARCH = mcp_pattern(["search"], [])
NAMES = ('"search"', '"delete"', '"SEARCH"', '"s\\u0065arch"', '["delete"]', "null")
METHODS = ('"tools/call"', '"ping"', '"tools\\/call"', '"TOOLS/CALL"')
KEYS = {
    "method": ('"method"', '"Method"', '"m\\u0065thod"', '"me\\u017f"'),
    "params": ('"params"', '"PARAMS"', '"param\\u017f"'),
    "name": ('"name"', '"Name"', '"n\\u0061me"'),
}


def member(key: str, values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds("{}: {}".format, st.sampled_from(KEYS[key]), values)


def object_of(*members: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(st.one_of(*members), min_size=1, max_size=3).map(lambda parts: f"{{{', '.join(parts)}}}")


params = object_of(member("name", st.sampled_from(NAMES)), st.just('"arguments": {"name": "delete"}'))
usual = st.just('"jsonrpc": "2.0", "id": 1')
messages = st.builds(
    lambda *parts: f"{{{', '.join(parts)}}}",
    usual,
    member("method", st.sampled_from(METHODS)),
    member("params", params),
    st.one_of(member("method", st.sampled_from(METHODS)), member("params", params), st.just('"id": 2')),
) | st.builds(
    lambda *parts: f"{{{', '.join(parts)}}}",
    usual,
    member("method", st.sampled_from(METHODS)),
    member("params", params),
)
WRAPPED = ("{0}", "[{0}]", "[{0}, {1}]", "{0}\n{1}", "{0} // {1}", "\ufeff{0}", " {0} ", "{0}\0{1}")
CODECS = ("utf-8", "utf-8", "utf-16", "utf-32-le")
bodies = st.builds(
    lambda form, one, other, codec: form.format(one, other).encode(codec),
    st.sampled_from(WRAPPED),
    messages,
    messages,
    st.sampled_from(CODECS),
)


def called(body: bytes) -> Iterator[object]:
    """Yield the tools that a lenient server would call: any encoding, key order, case, batch or trailing data."""
    for codec in ("utf-8-sig", "utf-16", "utf-32-le", "latin-1"):
        with suppress(ValueError):
            text = codecs.decode(body, codec)
            for start in (place for place, letter in enumerate(text) if letter in "{["):
                for first in (True, False):
                    with suppress(ValueError):
                        yield from tools(
                            json.JSONDecoder(object_pairs_hook=lenient(first=first)).raw_decode(text[start:])[0]
                        )


def lenient(*, first: bool) -> Callable[[list[tuple[str, object]]], dict[str, object]]:
    def hook(pairs: list[tuple[str, object]]) -> dict[str, object]:
        ordered = reversed(pairs) if first else pairs
        return {key.casefold(): value for key, value in ordered}

    return hook


def tools(said: object) -> Iterator[object]:
    if isinstance(said, list):
        for one in said:
            yield from tools(one)
    elif isinstance(said, dict) and str(said.get("method")).casefold() == "tools/call":
        params = said.get("params")
        yield params.get("name") if isinstance(params, dict) else None


@given(bodies)
def test_no_lenient_server_calls_a_tool_that_is_not_allowed(body: bytes) -> None:
    if SEARCH.takes(read_message(body)):
        assert set(called(body)) <= {"search"}


@given(st.one_of(st.binary(max_size=40), bodies))
def test_every_body_is_a_message_or_ambiguous(body: bytes) -> None:
    message = read_message(body)
    assert bool(message.doubt) != bool(message.method)
    assert bool(message.tool) == (message.method == "tools/call")


LISTED = ('"name"', '"Name"', '"n\\u0061me"', '"x"')
listing = st.builds(
    '{{"result": {{{}: [{}]}}}}'.format,
    st.sampled_from(('"tools"', '"Tools"', '"tool\\u017f"', '"t\\u006fols"')),
    st.lists(
        st.lists(
            st.builds("{}: {}".format, st.sampled_from(LISTED), st.sampled_from(NAMES)), min_size=1, max_size=2
        ).map(lambda parts: f"{{{', '.join(parts)}}}"),
        max_size=3,
    ).map(", ".join),
)


@given(listing)
def test_no_lenient_client_sees_a_tool_that_is_not_allowed(body: str) -> None:
    try:
        shown = filtered(body.encode(), "search".__eq__)
    except ToolListError:
        return
    for first in (True, False):
        said = json.loads(shown, object_pairs_hook=lenient(first=first))
        assert {tool.get("name") for tool in said["result"].get("tools", [])} <= {"search"}

import sys
from collections.abc import Callable

import pytest

from agent_sandbox.policy import Policy
from agent_sandbox.proxy.decide.warmup import BODIES, PARSER, warm_up

ASKING = "domains: [{host: a.test, rules: [{graphql: {query: [viewer]}}]}]"

MCP = "domains: [{host: a.test, rules: [{mcp: {tools: [search]}}]}]"


@pytest.mark.parametrize(
    ("text", "imported"), [(ASKING, {BODIES, PARSER}), (MCP, {BODIES}), ("domains: [a.test]", set())]
)
async def test_the_parser_is_imported_before_it_is_needed_and_only_where_it_may_be(
    policy: Callable[[str], Policy], monkeypatch: pytest.MonkeyPatch, text: str, imported: set[str]
) -> None:
    current = policy(text)
    for name in (BODIES, PARSER):
        monkeypatch.delitem(sys.modules, name, raising=False)
    await warm_up(lambda: current, after=0)
    assert {BODIES, PARSER} & sys.modules.keys() == imported

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from agent_sandbox.proxy.decide.warmup import PARSER, warm_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_sandbox.policy import Policy

ASKING = "domains: [{host: a.test, rules: [{graphql: {query: [viewer]}}]}]"


@pytest.mark.parametrize(("text", "imported"), [(ASKING, True), ("domains: [a.test]", False)])
async def test_the_parser_is_imported_before_it_is_needed_and_only_where_it_may_be(
    policy: Callable[[str], Policy], monkeypatch: pytest.MonkeyPatch, text: str, *, imported: bool
) -> None:
    current = policy(text)
    monkeypatch.delitem(sys.modules, PARSER, raising=False)
    await warm_up(lambda: current, after=0)
    assert (PARSER in sys.modules) is imported

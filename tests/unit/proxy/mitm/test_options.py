from __future__ import annotations

import pytest

from agent_sandbox.proxy.mitm.options import EngineOptions, as_mitmproxy


def test_what_would_open_a_hole_is_off() -> None:
    options = as_mitmproxy(EngineOptions())
    assert (options.connection_strategy, options.rawtcp, options.validate_inbound_headers) == ("lazy", False, True)


def test_an_option_that_nobody_thought_of_is_an_error() -> None:
    with pytest.raises(AttributeError):
        _ = as_mitmproxy(EngineOptions()).ssl_insecure

import pytest

from agent_sandbox.proxy.mitm.options import EngineOptions, as_mitmproxy


def test_turns_off_unsafe_options_of_mitmproxy() -> None:
    options = as_mitmproxy(EngineOptions())
    assert (options.connection_strategy, options.validate_inbound_headers) == ("lazy", True)
    assert (options.rawtcp, options.websocket) == (False, False)


def test_reading_an_unknown_option_raises_an_error() -> None:
    with pytest.raises(AttributeError):
        _ = as_mitmproxy(EngineOptions()).ssl_insecure

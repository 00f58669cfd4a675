from agent_sandbox.policy.engine.settings import Settings, dump_settings, settings_of
from agent_sandbox.policy.match.upstream import Upstream


def test_unset_settings_have_their_defaults() -> None:
    assert settings_of({}) == Settings(block_status=403, inspect=True, reload="restart")


def test_keeps_settings_that_are_set() -> None:
    said = {"block_status": 418, "inspect": False, "reload": "watch"}
    assert settings_of(said) == Settings(block_status=418, inspect=False, reload="watch")


def test_settings_are_dumped_as_plain_data() -> None:
    upstream = Upstream(layer="user")
    usual = {"block_status": 403, "inspect": True, "reload": "restart", "upstream": None, "ask": "", "ask_timeout": 60}
    usual |= {"http1": "auto", "sign_commits": ""}
    assert dump_settings(Settings()) == usual
    assert dump_settings(Settings(upstream=upstream))["upstream"] == upstream.dumped()

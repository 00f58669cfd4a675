from agent_sandbox.policy.settings import Settings, settings_of


def test_what_nobody_says_has_its_usual_value() -> None:
    assert settings_of({}) == Settings(block_status=403, inspect=True, reload="restart")


def test_what_is_said_stands() -> None:
    said = {"block_status": 418, "inspect": False, "reload": "watch"}
    assert settings_of(said) == Settings(block_status=418, inspect=False, reload="watch")

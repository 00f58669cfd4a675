from pathlib import Path

from agent_sandbox.features.secrets.keyed_services import keyed_services, known_tests


def test_each_api_service_declares_how_its_key_is_sent() -> None:
    keyed = keyed_services(Path("policy.yaml"))
    assert sorted(keyed) == ["anthropic", "claude", "codex", "copilot", "factory", "gemini", "openai", "openrouter"]
    assert {(option, bool(auth.env and auth.prefix and auth.test)) for option, auth in keyed.values()} == {
        ("secret", True)
    }


def test_each_login_has_its_own_test_request() -> None:
    tests = known_tests(Path("policy.yaml"))
    assert tests["claude.login"] == ("api.anthropic.com", "/api/oauth/profile")
    assert tests["api.anthropic.com"] == ("api.anthropic.com", "/v1/models")
    assert tests["codex.login"] == ("chatgpt.com", "/backend-api/wham/usage")

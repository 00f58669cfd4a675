from pathlib import Path

from agent_sandbox.cli.steps.secrets.keyed_services import keyed_services


def test_each_service_of_an_api_says_how_it_takes_its_key() -> None:
    keyed = keyed_services(Path("policy.yaml"))
    assert sorted(keyed) == ["anthropic", "claude", "codex", "copilot", "factory", "gemini", "openai", "openrouter"]
    assert {(option, bool(auth.env and auth.prefix and auth.test)) for option, auth in keyed.values()} == {
        ("secret", True)
    }

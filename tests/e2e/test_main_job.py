"""The main steps of a user, from `init` to an edited policy, on a real Docker engine."""

import pytest

from real_stacks import Project


def test_the_agents_cli_is_on_the_path_of_the_user_dev(claude: Project) -> None:
    assert claude.exec("zsh", "-ic", "id -un; pwd").stdout == "dev\n/workspace\n"
    assert "(Claude Code)" in claude.exec("claude", "--version").stdout


def test_forwards_requests_that_the_policy_allows(claude: Project) -> None:
    status, body = claude.curl("https://api.anthropic.com/")
    assert (200, "api.anthropic.com" in body) == (status, True)
    assert [request["path"] for request in claude.internet.requests("api.anthropic.com")][-1:] == ["/"]


@pytest.mark.parametrize("scheme", ["https", "http"])
def test_a_denial_is_a_403_that_shows_how_to_allow_the_request(claude: Project, scheme: str) -> None:
    before = claude.internet.requests("example.com")
    status, body = claude.curl(f"{scheme}://example.com/")
    assert status == 403
    allow = f"run `agent-sandbox policy allow 'GET {scheme}://example.com/'` on the host machine"
    assert [
        "Blocked by agent-sandbox: GET example.com/",
        "Reason: no rule allows host example.com",
        f"To allow it: {allow}",
        "About this sandbox: http://agent-sandbox.internal/",
    ] == body.splitlines()
    assert claude.internet.requests("example.com") == before


def test_a_restarted_proxy_loads_the_edited_policy_and_denies_if_it_is_invalid(claude: Project) -> None:
    text = claude.policy.read_text()
    claude.policy.write_text(text.replace("\ndomains:", "\ndomains:\n  - example.com"))
    claude.compose("restart", "proxy")
    claude.wait_until_it_answers("https://example.com/", 200)
    claude.policy.write_text(claude.policy.read_text().replace("domains:", "domans:"))
    claude.compose("restart", "proxy")
    body = claude.wait_until_it_answers("http://example.com/", 403)
    line = claude.policy.read_text().splitlines().index("domans:") + 1
    assert f"policy.yaml:{line}" in body
    assert "domains" in body
    claude.policy.write_text(text)
    claude.compose("restart", "proxy")
    claude.wait_until_it_answers("https://api.anthropic.com/", 200)

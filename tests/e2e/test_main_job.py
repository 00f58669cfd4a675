"""The main steps of a user, from `init` to an edited policy, on a real Docker engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from real_stacks import Project, Projects


@pytest.fixture(scope="module")
def app(projects: Projects) -> Project:
    """A project whose stack was started with plain `docker compose`."""
    project = projects.make("my project's äpp", "claude")
    project.compose("up", "--detach", "--wait")
    return project


def test_the_agents_cli_is_on_the_path_of_the_user_dev(app: Project) -> None:
    assert app.exec("zsh", "-ic", "id -un; pwd").stdout == "dev\n/workspace\n"
    assert "(Claude Code)" in app.exec("claude", "--version").stdout


def test_forwards_requests_that_the_policy_allows(app: Project) -> None:
    status, body = app.curl("https://api.anthropic.com/")
    assert (200, "api.anthropic.com" in body) == (status, True)
    assert [request["path"] for request in app.internet.requests("api.anthropic.com")][-1:] == ["/"]


@pytest.mark.parametrize("scheme", ["https", "http"])
def test_a_denial_is_a_403_that_shows_how_to_allow_the_request(app: Project, scheme: str) -> None:
    before = app.internet.requests("example.com")
    status, body = app.curl(f"{scheme}://example.com/")
    assert status == 403
    line = f"add `- GET {scheme}://example.com/` under `allow` in .devcontainer/policy.yaml"
    allow = f"{line}, then: agent-sandbox proxy reload"
    assert [
        "Blocked by agent-sandbox: GET example.com/",
        "Reason: no rule allows host example.com",
        f"To allow it: {allow}",
        "About this sandbox: http://agent-sandbox.internal/",
    ] == body.splitlines()
    assert app.internet.requests("example.com") == before


def test_a_restarted_proxy_loads_the_edited_policy_and_denies_if_it_is_invalid(app: Project) -> None:
    text = app.policy.read_text()
    app.policy.write_text(text.replace("\ndomains:", "\ndomains:\n  - example.com"))
    app.compose("restart", "proxy")
    app.wait_until_it_answers("https://example.com/", 200)
    app.policy.write_text(app.policy.read_text().replace("domains:", "domans:"))
    app.compose("restart", "proxy")
    body = app.wait_until_it_answers("http://example.com/", 403)
    line = app.policy.read_text().splitlines().index("domans:") + 1
    assert f"policy.yaml:{line}" in body
    assert "domains" in body
    app.policy.write_text(text)
    app.compose("restart", "proxy")
    app.wait_until_it_answers("https://api.anthropic.com/", 200)

"""The requests that `git: {access: ...}` of a forge allows, and the requests that get its secret."""

from collections.abc import Iterable
from typing import Any

import pytest

from agent_sandbox.policy import Policy, Request, compile_policy, decide
from agent_sandbox.policy.engine.decide import decide_with_secrets
from agent_sandbox.policyfile import parse_layer, shipped_services
from agent_sandbox.policytools.edit.flow_style import flow
from agent_sandbox.policytools.explain.request_line import RequestLine, read_request

SERVICES = dict(shipped_services())
FORGES = {
    "github": "github.com",
    "bitbucket": "bitbucket.org",
    "codeberg": "codeberg.org",
    "gitlab": "gitlab.com",
}
FETCH = ("GET {0}/info/refs?service=git-upload-pack", "POST {0}/git-upload-pack")
PUSH = ("GET {0}/info/refs?service=git-receive-pack", "POST {0}/git-receive-pack")
LARGE_FILES = ("POST {0}/info/lfs/objects/batch",)
LOCKS = ("GET {0}/info/lfs/locks", "POST {0}/info/lfs/locks", "POST {0}/info/lfs/locks/verify")
BESIDE = "GET {0}/info/lfs/objects/batch"
# Requests that a git client never sends, or never spells like this.
OTHERS = (
    "GET {0}",
    "GET {0}/",
    "GET {0}/settings/keys",
    "POST {0}/settings/keys",
    "GET {0}/archive/main.zip",
    "GET {0}/raw/main/README.md",
    "GET {0}/releases",
    "GET {0}/info/refs",
    "GET {0}/info/refs?service=git-upload-archive",
    "GET {0}/info/refs?service=git-upload-pack&service=git-receive-pack",
    "GET {0}/info/refs?service=git-upload-pack&x=1",
    "GET {0}/info/refs?Service=git-upload-pack",
    "GET {0}/info/refs/x?service=git-upload-pack",
    "POST {0}/info/refs?service=git-upload-pack",
    "GET {0}/git-upload-pack",
    "POST {0}/git-upload-pack/x",
    "POST {0}/git-upload-archive",
    "GET {0}/info/lfs/objects/batch",
    "POST {0}/info/lfs/objects",
    "GET {0}/HEAD",
    "GET {0}/objects/info/packs",
)
WRITTEN = ("/o/r", "/o/r.git", "/O/R.git")
STRANGE = ("/o/other", "/o/r.wiki.git", "/other/r.git", "/o/r.git.git", "/x/o/r")


def lines(forge: str, asked: Iterable[str], paths: tuple[str, ...] = WRITTEN) -> list[str]:
    return [one.format(f"https://{FORGES[forge]}{path}") for one in asked for path in paths]


def policy_of(forge: str, **options: Any) -> Policy:  # noqa: ANN401 - as a policy may hold them
    text = f"services:\n  - {flow({'name': forge, 'repos': ['o/r'], **options})}\n"
    layer = parse_layer(text, name="project", file="p", shown="p", services=SERVICES)
    return compile_policy([layer], SERVICES)


def request(policy: Policy, line: str) -> Request:
    method, _, url = line.partition(" ")
    return read_request(policy, RequestLine(method=method, url=url))


def allowed(policy: Policy, asked: list[str]) -> list[str]:
    return [line for line in asked if decide(policy, request(policy, line)).allowed]


@pytest.mark.parametrize("forge", FORGES)
@pytest.mark.parametrize("access", ["read", "readwrite"])
def test_git_allows_only_requests_of_a_git_client(forge: str, access: str) -> None:
    policy = policy_of(forge, git={"access": access})
    locks = LOCKS if forge == "github" else ()
    meant = (*FETCH, *LARGE_FILES, *((*PUSH, *locks) if access == "readwrite" else ()))
    every = (*FETCH, *PUSH, *LARGE_FILES, *LOCKS, *OTHERS)
    # Gitea's large files and GitLab's locks are beside the repository, where git-lfs looks for any spelling.
    locked = LOCKS if access == "readwrite" else ()
    beside = {"codeberg": (BESIDE, *locked), "gitlab": locked}.get(forge, ())
    expected = {*lines(forge, meant), *lines(forge, beside, WRITTEN[1:])}
    assert {*allowed(policy, lines(forge, every))} == expected
    assert allowed(policy, lines(forge, every, STRANGE)) == []


@pytest.mark.parametrize("beside", [{}, {"web": {"access": "read"}}, {"api": {"access": "readwrite"}}])
@pytest.mark.parametrize("access", ["read", "readwrite"])
def test_injects_the_git_secret_only_into_requests_of_a_git_client(access: str, beside: dict[str, Any]) -> None:
    policy = policy_of("github", git={"access": access, "auth": {"secret": "t"}}, **beside)
    meant = (*FETCH, *LARGE_FILES, *((*PUSH, *LOCKS) if access == "readwrite" else ()))
    every = (*FETCH, *PUSH, *LARGE_FILES, *LOCKS, *OTHERS)
    asked = lines("github", every) + lines("github", every, STRANGE)
    filled = [line for line in asked if decide_with_secrets(policy, request(policy, line))[1]]
    assert filled == lines("github", [one for one in every if one in meant])


@pytest.mark.parametrize("forge", FORGES)
def test_web_allows_pages_and_archives_and_git_does_not(forge: str) -> None:
    pages = lines(forge, tuple(one for one in OTHERS if one.startswith("GET {0}/")), ("/o/r",))
    assert allowed(policy_of(forge, git={"access": "readwrite"}), pages) == []
    assert allowed(policy_of(forge, web={"access": "read"}), pages) == pages
    assert allowed(policy_of(forge), pages) == pages


@pytest.mark.parametrize("forge", FORGES)
def test_git_without_repos_allows_every_repository(forge: str) -> None:
    text = f"services:\n  - {{name: {forge}, git: {{access: read}}}}\n"
    layer = parse_layer(text, name="project", file="p", shown="p", services=SERVICES)
    policy = compile_policy([layer], SERVICES)
    asked = lines(forge, (*FETCH, *PUSH, *OTHERS), ("/o/r", "/x/y.git"))
    assert allowed(policy, asked) == lines(forge, FETCH, ("/o/r", "/x/y.git"))

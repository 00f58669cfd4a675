from agent_sandbox.policy.http.git_requests import (
    fetched_repository,
    git_tool,
    push_after,
    pushed_repository,
    with_query,
)
from policy_texts import RequestOf
from table_tests import each


@each(
    ("line", "repository"),
    [
        ("GET https://a.test/o/r.git/info/refs?service=git-receive-pack", "o/r"),
        ("GET https://a.test/g/s/r/info/refs?service=git-receive-pack", "g/s/r"),
        ("POST https://a.test/o/r/git-receive-pack", "o/r"),
        ("POST https://a.test/o/r.git/git-upload-pack", ""),
        ("HEAD https://a.test/o/r.git/info/refs?service=git-receive-pack", ""),
        ("GET https://a.test/o/r.git/info/refs?service=git-upload-pack", ""),
        ("GET https://a.test/o/r.git/git-receive-pack", ""),
    ],
)
def test_finds_the_repository_in_both_requests_of_a_push(request_of: RequestOf, line: str, repository: str) -> None:
    assert pushed_repository(request_of(line)) == repository


@each(
    ("line", "repository"),
    [
        ("GET https://a.test/o/r.git/info/refs?service=git-upload-pack", "o/r"),
        ("POST https://a.test/g/s/r/git-upload-pack", "g/s/r"),
        ("POST https://a.test/o/r/git-upload-pack?x", ""),
        ("GET https://a.test/o/r/info/refs", ""),
        ("POST https://a.test/o/r/git-receive-pack", ""),
    ],
)
def test_finds_the_repository_in_both_requests_of_a_fetch(request_of: RequestOf, line: str, repository: str) -> None:
    request = request_of(line)
    assert fetched_repository(request) == repository
    assert git_tool(request) == ("git fetch" if repository else "git push" if pushed_repository(request) else "")


def test_derives_the_push_request_from_the_request_that_starts_the_push(request_of: RequestOf) -> None:
    start = request_of("GET https://a.test:8443/O/r.git/info/refs?service=git-receive-pack")
    assert push_after(start) == request_of("POST https://a.test:8443/O/r.git/git-receive-pack")


def test_restores_the_query_of_a_recorded_push_or_fetch() -> None:
    start = "/o/r/info/refs"
    assert with_query(start, "git push") == f"{start}?service=git-receive-pack"
    assert with_query(start, "git fetch") == f"{start}?service=git-upload-pack"
    assert [with_query(start, "npm"), with_query("/x", "git push")] == [start, "/x"]

"""Recognise the requests of git: a GET that reads the server's branches, then a POST that fetches or changes them."""

from msgspec.structs import replace

from agent_sandbox.policy.http.headers import MEDIA_TYPE, Headers
from agent_sandbox.policy.http.request import Request

BRANCHES, PUSH, FETCH = "/info/refs", "/git-receive-pack", "/git-upload-pack"
# The queries of the GET, exactly as git writes them.
STARTS_PUSH, STARTS_FETCH = "service=git-receive-pack", "service=git-upload-pack"
SENT_AS = "application/x-git-receive-pack-request"
# The `tool` of an audit record, which has no query.
GIT_PUSH, GIT_FETCH = "git push", "git fetch"
QUERIES = {GIT_PUSH: STARTS_PUSH, GIT_FETCH: STARTS_FETCH}


def push_after(request: Request) -> Request | None:
    """Return the POST that follows if this is the GET that starts a push; otherwise None."""
    if request.query != STARTS_PUSH or request.method != "GET" or not request.path.endswith(BRANCHES):
        return None
    others = (field for field in request.headers if field[0].lower() != MEDIA_TYPE)
    headers = Headers((*others, (MEDIA_TYPE, SENT_AS))) if request.headers else ()
    path = f"{request.path.removesuffix(BRANCHES)}{PUSH}"
    return replace(request, method="POST", path=path, query="", headers=headers, body_size=None)


def pushed_repository(request: Request) -> str:
    """Return the path of the repository that a request pushes to, without `.git`; empty if it is not a push.

    >>> pushed_repository(parse_request(scheme="https", host="a.test", port=443, method="POST",
    ...     target="/o/r.git/git-receive-pack"))
    'o/r'
    """
    push = push_after(request) or request
    if push.method != "POST" or not push.path.endswith(PUSH):
        return ""
    return push.path.removesuffix(PUSH).removeprefix("/").removesuffix(".git")


def fetched_repository(request: Request) -> str:
    """Return the path of the repository that a request fetches from, without `.git`; empty if it is not a fetch."""
    end = FETCH if request.method == "POST" else f"{BRANCHES}?{STARTS_FETCH}"
    target = request.target
    return target.removesuffix(end).removeprefix("/").removesuffix(".git") if target.endswith(end) else ""


def git_tool(request: Request) -> str:
    """Return the `tool` of a request in the audit log if it is one of git's, otherwise an empty string."""
    return GIT_PUSH if pushed_repository(request) else GIT_FETCH if fetched_repository(request) else ""


def with_query(path: str, tool: str) -> str:
    """Return the target of a request in the audit log, whose records have no query, if it started a push or a fetch."""
    return f"{path}?{QUERIES[tool]}" if tool in QUERIES and path.endswith(BRANCHES) else path

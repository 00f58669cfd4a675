"""Recognise the requests of `git push`: a GET that reads the server's branches, then a POST that changes them."""

from agent_sandbox.policy.http.headers import MEDIA_TYPE, Headers
from agent_sandbox.policy.http.request import Request

BRANCHES, PUSH = "/info/refs", "/git-receive-pack"
# The query of the GET, exactly as git writes it.
STARTS_PUSH = "service=git-receive-pack"
SENT_AS = "application/x-git-receive-pack-request"
# The `tool` of an audit record, which has no query.
GIT_PUSH = "git push"


def push_after(request: Request) -> Request | None:
    """Return the POST that follows if this is the GET that starts a push; otherwise None."""
    if request.query != STARTS_PUSH or request.method != "GET" or not request.path.endswith(BRANCHES):
        return None
    others = (field for field in request.headers if field[0].lower() != MEDIA_TYPE)
    headers = Headers((*others, (MEDIA_TYPE, SENT_AS))) if request.headers else ()
    path = f"{request.path.removesuffix(BRANCHES)}{PUSH}"
    return request._replace(method="POST", path=path, query="", headers=headers, body_size=None)


def pushed_repository(request: Request) -> str:
    """Return the path of the repository that a request pushes to, without `.git`; empty if it is no push.

    >>> pushed_repository(parse_request(scheme="https", host="a.test", port=443, method="POST",
    ...     target="/o/r.git/git-receive-pack"))
    'o/r'
    """
    push = push_after(request) or request
    if push.method != "POST" or not push.path.endswith(PUSH):
        return ""
    return push.path.removesuffix(PUSH).removeprefix("/").removesuffix(".git")


def with_query(path: str, tool: str) -> str:
    """Return the target of a request in the audit log, whose records have no query, if it started a push."""
    return f"{path}?{STARTS_PUSH}" if tool == GIT_PUSH and path.endswith(BRANCHES) else path

"""A stand-in for GitHub's API over TLS on loopback: it answers 401 without the token.

GraphQL answers have exactly the fields that were asked for.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, override

from graphql.language import FieldNode, FragmentDefinitionNode, FragmentSpreadNode, OperationDefinitionNode, parse

from fake_internet import SecureServer, tls_context

TOKEN = "ghp_0123456789abcdefghijOfTheOwner"
LISTS = frozenset({"edges", "fields", "issueTemplates", "nodes", "pullRequestTemplates", "reactionGroups"})
NUMBERS = frozenset(
    {"additions", "count", "deletions", "forkCount", "issueCount", "number", "size", "stargazerCount", "totalCount"}
)
TRUE = frozenset({"hasIssuesEnabled", "hasWikiEnabled", "mergeCommitAllowed", "squashMergeAllowed"})
NOTHING = frozenset({"autoMergeRequest", "branchProtectionRule", "endCursor", "milestone", "parent", "projectItems"})
BOOLEAN = ("is", "has", "includes", "maintainerCan", "viewerDid", "viewerHas", "viewerCan")
TEXTS = {
    "__typename": "Issue",
    "baseRefName": "main",
    "headRefName": "fix",
    "login": "o",
    "mergeable": "MERGEABLE",
    "name": "app",
    "state": "OPEN",
    "url": "https://github.com/o/app/pull/1",
    "viewerPermission": "WRITE",
}


class Api(SecureServer):
    """The server: `seen` has the path or the name of the operation of each request with the token, `raw` all bytes."""

    seen: list[str]
    raw: list[str]


class Visitor(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Api

    def answer_any(self) -> None:
        """Answer whatever is asked for."""
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.server.raw.append(f"{self.path}\n{self.headers}\n{body.decode()}")
        status, said = 200, {"id": 1, "node_id": "R_1", "name": "app", "owner": {"login": "o"}, "workflow_runs": []}
        if self.headers.get("Authorization") not in {f"token {TOKEN}", f"Bearer {TOKEN}"}:
            status, said = 401, {"message": "Bad credentials"}
        elif self.path == "/graphql":
            asked = json.loads(body)
            self.server.seen.append(asked["query"])
            said = {"data": answer(asked["query"], asked.get("variables") or {})}
        else:
            self.server.seen.append(f"{self.command} {self.path}")
        answered = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answered)))
        self.end_headers()
        self.wfile.write(answered)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer_any  # noqa: N815

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


def answer(document: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return a value for each field of the operation; ids contain the repository that the operation names."""
    definitions = parse(document).definitions
    fragments = {one.name.value: one for one in definitions if isinstance(one, FragmentDefinitionNode)}
    (operation,) = (one for one in definitions if isinstance(one, OperationDefinitionNode))
    named = re.search(r'owner: ?"([^"]*)", ?name: ?"([^"]*)"', document)
    owner, name = (
        named.groups() if named else (variables.get("owner", ""), variables.get("repo", variables.get("name", "")))
    )
    return Values(fragments, f"{owner}_{name}".lower()).of(operation, "")


class Values:
    """Makes up values."""

    def __init__(self, fragments: Mapping[str, FragmentDefinitionNode], repository: str) -> None:
        self._fragments, self._repository = fragments, repository

    def of(self, node: Any, place: str) -> dict[str, Any]:
        """Return the values of a node's selection."""
        found: dict[str, Any] = {}
        for one in node.selection_set.selections:
            if isinstance(one, FieldNode):
                found[one.alias.value if one.alias else one.name.value] = self.value(one, place)
            else:
                spread = self._fragments[one.name.value] if isinstance(one, FragmentSpreadNode) else one
                found |= self.of(spread, place)
        return found

    def value(self, field: FieldNode, place: str) -> object:
        """Return the value of a field."""
        name = field.name.value
        if name in NOTHING:
            return None
        # No branch has a pull request yet.
        if name == "pullRequests" and any(one.name.value == "headRefName" for one in field.arguments or ()):
            return {"nodes": []}
        if field.selection_set:
            below = self.of(field, name)
            return [below] if name in LISTS else below
        if name in NUMBERS:
            return 1
        if name in TRUE or name.startswith(BOOLEAN) or name.endswith("Allowed"):
            return name in TRUE
        date = "2026-01-01T00:00:00Z" if name.endswith(("At", "Date", "dueOn")) else ""
        return TEXTS.get(name, f"{place}_of_{self._repository}" if name == "id" else date)


@contextmanager
def github_api(certificate: Path) -> Iterator[Api]:
    """Serve the API."""
    server = Api(("127.0.0.1", 0), Visitor)
    server.context, server.seen, server.raw = tls_context(str(certificate)), [], []
    with server.running():
        yield server

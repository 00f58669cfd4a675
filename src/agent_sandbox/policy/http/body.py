"""Read what the body of a request asks for: a GraphQL operation or an MCP message."""

from agent_sandbox.policy.http import graphql_body
from agent_sandbox.policy.http.mcp_body import with_message, with_message_of_head
from agent_sandbox.policy.http.request import Request


def with_body(request: Request, body: bytes) -> Request:
    """Return the request with the GraphQL operation and the MCP message in its body, or why it has none."""
    return with_message(graphql_body.with_body(request, body), body)


def with_head(request: Request) -> Request:
    """Return the request with what its head alone decides: an operation or message, or why it has none."""
    return with_message_of_head(graphql_body.with_doubt(request))

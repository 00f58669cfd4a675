"""Find requests that third parties can read, or that the proxy does not inspect."""

from collections.abc import Iterator

from agent_sandbox.policytools.lint.subject import Finding, Subject


def plain_http(subject: Subject) -> Iterator[Finding]:
    """Find rules that name http; an entry without `schemes` is not reported."""
    for rule in subject.allows:
        schemes = rule.conditions.schemes
        if schemes is not None and "http" in schemes:
            yield Finding(
                line=rule.origin.line,
                what=f"{rule.conditions.host} is allowed over plain http",
                why="anyone on the network path can read the requests and forge the responses",
                fix="use https; if the host has none, accept the finding: `# accepted: plain-http, WHY`",
            )


def uninspected(subject: Subject) -> Iterator[Finding]:
    """Find passthrough hosts without a stated reason."""
    for number, entry in enumerate(subject.layer.spec.domains):
        line = subject.layer.origin("domains", number).line
        if entry.inspect is False and not (entry.reason or subject.remarks(line)):
            yield Finding(
                line=line,
                what=f"requests to {entry.host} are not inspected (`inspect: false`)",
                why="the agent could send any data there, and the audit log would not show what",
                fix="remove `inspect: false`, or say why it is needed in a comment or in `reason`",
            )


def unlisted_graphql(subject: Subject) -> Iterator[Finding]:
    """Find rules that allow a whole GraphQL API by its URL."""
    for rule in subject.allows:
        asked = rule.conditions
        is_its_address = asked.path is not None and asked.path.text.rpartition("/")[2].lower() == "graphql"
        if is_its_address and asked.graphql is None and asked.methods is not None and "POST" in asked.methods:
            yield Finding(
                line=rule.origin.line,
                what=f"{asked.host}{asked.path} allows all of the GraphQL API: reads and deletes look the same",
                why="the operation is in the body, which this rule does not check",
                fix="list the allowed fields: `graphql: {query: [viewer]}`",
            )


def mcp_anywhere(subject: Subject) -> Iterator[Finding]:
    """Find rules on MCP without a path: a host may have more than its MCP server."""
    for rule in subject.allows:
        asked = rule.conditions
        if asked.mcp is not None and asked.path is None:
            yield Finding(
                line=rule.origin.line,
                what=f"{asked.host} accepts MCP messages at every path",
                why="at the path of another API, a POST does something whatever its body says",
                fix="name its path: `path: {exact: /mcp}`; if the host has no other API, accept the finding",
            )

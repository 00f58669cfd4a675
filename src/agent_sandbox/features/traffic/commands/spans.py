"""`agent-sandbox traffic spans --to URL`."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote

from typer import Option

from agent_sandbox.cli.framework.options import ProjectPath
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.counted import counted
from agent_sandbox.features.traffic.following import follow
from agent_sandbox.features.traffic.span_sender import SpanSender
from agent_sandbox.host.post import parse_url
from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import open_project

HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"

To = Annotated[
    str, Option(help="The OTLP/HTTP endpoint, such as http://127.0.0.1:4318; /v1/traces is added.", metavar="URL")
]


def spans(*, to: To = "", path: ProjectPath = None) -> int:
    """Send a span to OpenTelemetry for each request of the running stack, until Ctrl-C.

    Spans have host, method, decision, rule, status and sizes; no path, query or secret. To send headers to the
    receiver, set OTEL_EXPORTER_OTLP_HEADERS to `NAME=VALUE,NAME=VALUE`.
    """
    try:
        url = parse_url(to)
    except InvalidValue as error:
        raise UserError([Problem(where="--to", what=error.what, hint=error.hint)]) from error
    project = open_project(path, cwd=Path.cwd())
    sender = SpanSender(url, project.name, dict(_headers(os.environ)), on_change=say)
    say(f"{project.name}: spans go to {url.scheme}://{url.netloc}; Ctrl-C ends this")
    try:
        return follow(project, on_record=sender.add, on_missed=sender.missed)
    finally:
        sender.end()
        say(f"{counted(sender.sent, 'span')} sent, {sender.dropped} dropped")


def _headers(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for part in environ.get(HEADERS, "").split(","):
        name, _, value = part.partition("=")
        if name.strip():
            yield name.strip(), unquote(value.strip())

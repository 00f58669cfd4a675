"""`agent-sandbox policy explain METHOD URL`."""

import os
import sys
from collections.abc import Iterable, Iterator
from itertools import chain, groupby, repeat, zip_longest
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

from typer import Argument, Option

from agent_sandbox.cli.framework.options import Json, PolicyOption, ProjectPath
from agent_sandbox.cli.terminal.output import emit_json, emit_lines
from agent_sandbox.cli.terminal.style import parts_of, styled
from agent_sandbox.cli.terminal.wrapping import width_of
from agent_sandbox.features.policy.file import POLICY_FILE, named_policy
from agent_sandbox.features.policy.layers import choices_here, load_here, offers_here
from agent_sandbox.policy.decision import Cause, Effect
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policy.explain.advice import APPLY, WITHOUT, for_git
from agent_sandbox.policy.http.method import STANDARD
from agent_sandbox.policyfile.sources import is_source
from agent_sandbox.policytools.explain.explaining import Explanation, Miss
from agent_sandbox.policytools.explain.explaining import explain as explain_request
from agent_sandbox.policytools.explain.remedy import Choice, Remedy
from agent_sandbox.policytools.explain.request_line import RequestLine, method_and_url, read_header, read_size

Method = Annotated[str, Argument(help="GET, POST, ...; if left out, GET.")]
Url = Annotated[str | None, Argument(help="https://host/path?query")]
VERBS = {Effect.ALLOW: "allows", Effect.DENY: "denies"}


Headers = Annotated[list[str] | None, Option(help="A header of the request; may be repeated.", metavar="NAME:VALUE")]
Graphql = Annotated[str | None, Option(help="The GraphQL document of the request.", metavar="DOCUMENT")]
Mcp = Annotated[str | None, Option(help="The MCP message of the request: `tools/call search`.", metavar="MESSAGE")]
Body = Annotated[str | None, Option(help="The size of the request body: 300, 1MiB.", metavar="SIZE")]


def completions(*before: str) -> tuple[str, ...]:
    """Return the methods, for shell completion."""
    return () if before else tuple(sorted(STANDARD))


def explain(  # noqa: PLR0913 - each is an option
    method: Method,
    url: Url = None,
    *,
    header: Headers = None,
    body: Body = None,
    graphql: Graphql = None,
    mcp: Mcp = None,
    policy: PolicyOption = None,
    path: ProjectPath = None,
    json: Json = False,
) -> None:
    """Show whether a request is allowed, by which rule, and how to allow it."""
    where = named_policy(policy, path=path)
    verb, address = method_and_url((method, *([] if url is None else [url])))
    line = RequestLine(
        method=verb,
        url=address,
        headers=tuple(map(read_header, header or ())),
        body_size=None if body is None else read_size(body),
        graphql=graphql,
        mcp=mcp,
    )
    loaded = load_here(where, os.environ)
    answer = explain_request(
        loaded,
        line,
        offers=lambda: offers_here(where, os.environ),
        choices=lambda request, offers: choices_here(where, request, offers),
    )
    then = f"{APPLY} --path {quote(str(path))}" if path else APPLY
    if json:
        emit_json({"policy": str(where), **as_json(answer)})
    else:
        emit_lines(as_text(answer, file=where, then=then, width=width_of(sys.stdout, os.environ)))


def as_json(answer: Explanation) -> dict[str, Any]:
    """Return the answer as JSON."""
    decision, remedy = answer.decision, answer.remedy or Remedy()
    origin = decision.origin
    return {
        "effect": str(decision.effect),
        "method": answer.method,
        "url": answer.url,
        "rule": decision.rule,
        "file": origin.file if origin else None,
        "line": origin.line if origin else None,
        "layer": origin.layer if origin else None,
        "reason": answer.reason,
        "cause": str(decision.cause),
        "matched": [_rule(rule) for rule in answer.matched],
        "notes": list(answer.notes),
        "nearest": [{**_rule(miss.rule), "differs": list(miss.differs)} for miss in answer.misses],
        "to_allow": {
            "section": remedy.section or None,
            "line": remedy.line or None,
            "choices": [_choice(choice) for choice in remedy.choices],
            "services": list(remedy.services),
            "git_command": remedy.git_command or None,
            "resolve": remedy.package_manager.service if remedy.package_manager else None,
            "in_the_way": remedy.in_the_way or None,
            "without": remedy.without or None,
        },
    }


def _rule(rule: Rule) -> dict[str, Any]:
    origin = rule.origin
    fields = {"effect": str(rule.effect), "rule": str(rule), "reason": rule.reason}
    return {**fields, "file": origin.file, "line": origin.line, "layer": origin.layer}


def _choice(choice: Choice) -> dict[str, Any]:
    place = choice.instead_of and str(choice.instead_of)
    return {"entry": choice.entry, "instead_of": place, "closes_others": choice.closes_others}


def as_text(answer: Explanation, *, file: Path, then: str = APPLY, width: int = 0) -> Iterator[str]:
    """Yield the answer as text: effect, differing part, reason, nearest rules, how to allow it and `then` to load it.

    A terminal of `width` columns would move the carets away from a longer request, so its differing part is coloured.
    """
    effect, lead = answer.decision.effect, len(answer.decision.effect) + 2
    line = f"{answer.method} {answer.url}"
    if answer.carets and 0 < width < lead + len(line):
        marked = groupby(zip_longest(line, answer.carets[: len(line)], fillvalue=" "), key=lambda pair: pair[1])
        runs = [("".join(sign for sign, _ in run), effect if mark == "^" else "") for mark, run in marked]
        yield styled((effect, effect), "  ", *runs, fixed=True)
    else:
        yield styled((effect, effect), f"  {line}", fixed=True)
        yield from (styled(f"{'':<{lead}}", (answer.carets, effect), fixed=True),) if answer.carets else ()
    yield from columns((*why(answer), *_rows("note", answer.notes), *_to_allow(answer.remedy, file, then)))


def why(answer: Explanation) -> Iterator[tuple[str, str]]:
    """Yield the deciding rule, the other matches and the nearest rules as rows of name and text."""
    by_rule = answer.decision.cause is Cause.RULE
    winner, others = (answer.matched[:1], answer.matched[1:]) if by_rule else ((), answer.matched)
    yield from _rows("rule", _listed(winner))
    yield "because", winner[0].reason if winner else answer.reason
    yield from _rows("also", _listed(others))
    yield from _rows("nearest", (line for miss in answer.misses for line in _miss(miss)))


def _rows(name: str, lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    return zip(chain([name], repeat("")), lines, strict=False)


def _miss(miss: Miss) -> Iterator[str]:
    yield from _listed((miss.rule,))
    yield f"  but not {' and not '.join(miss.differs)}"


def _listed(rules: Iterable[Rule]) -> Iterator[str]:
    for rule in rules:
        yield f"{rule.origin} ({rule.origin.layer}) {VERBS[rule.effect]} {rule}"


def _to_allow(remedy: Remedy | None, file: Path, then: str) -> Iterator[tuple[str, str]]:
    """Yield the ways to allow the request; for git servers and registries the service first, because they need many."""
    if remedy is None:
        return
    line, services = _line(remedy, file, then), [*_services(remedy)]
    first = bool(remedy.git_command or remedy.choices or remedy.package_manager) or any(map(is_source, remedy.services))
    ways = [*services, *line] if first else [*line, *services]
    if remedy.git_command:
        ways.insert(0, (for_git(remedy.git_command),))
    for place, (way, *where) in enumerate(ways):
        yield from _rows("or" if place else "to allow", (way, *where, then if where else ""))
        then = "" if where else then
        if remedy.without and (way, *where) in line[-1:]:
            yield "but", f"it {WITHOUT.format(remedy.without)}"
    if remedy.in_the_way:
        yield "and" if line else "to allow", remedy.in_the_way


def _line(remedy: Remedy, file: Path, then: str) -> list[tuple[str, ...]]:
    """Return the command that allows the request and reloads, and the line to write by hand, each in its lines."""
    if not remedy.line:
        return []
    by_hand = (remedy.line, f"under `{remedy.section}` in {file}")
    if not (text := _short(remedy)):  # a line that needs quotes in YAML cannot be a `policy allow` command
        return [by_hand]
    option = then.removeprefix(APPLY) or ("" if file == POLICY_FILE else f" --policy {quote(str(file))}")
    return [(styled((f"agent-sandbox policy allow {quote(text)}{option}", "command")),), by_hand]


def _services(remedy: Remedy) -> Iterator[tuple[str, ...]]:
    yield from ((choice.line, _place_of(choice)) for choice in remedy.choices)
    for service in remedy.services:
        yield f"- {service}", "under `services`, with everything else that it allows"
    if remedy.package_manager:
        yield (f"for everything that {remedy.package_manager.tool} fetches: {remedy.package_manager.way}",)


def _place_of(choice: Choice) -> str:
    if choice.instead_of is None:
        return "under `services`"
    closing = " for all repositories: it then denies the others" if choice.closes_others else ""
    return f"under `services`, instead of the entry at {choice.instead_of}{closing}"


def _short(remedy: Remedy) -> str:
    """Return the line as an argument of `policy allow`, or an empty string if it is not one."""
    text = remedy.line.removeprefix("- ")
    return text if remedy.section == "allow" and not text.startswith("'") else ""


def columns(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the rows that have a text, with their names in a column."""
    for name, text in rows:
        if text:
            yield styled("  ", (f"{name:<8}", "title"), "  ", *parts_of(text))

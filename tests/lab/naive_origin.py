"""How mattolson/agent-sandbox decides, told naively: layers in order, and the most specific host alone counts."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote_plus

from agent_sandbox.policy import Request
from agent_sandbox.policytools.importing.old_services import old_hosts

type Entry = dict[str, Any]
# A rule with the service that it comes from, nothing for an entry of `domains`.
type Owned = tuple[str, Entry]

READ = ["GET", "HEAD"]
SCOPED = ("github.com", "api.github.com")


def allowed_there(files: Iterable[Entry], request: Request) -> bool:
    """Decide a request by policy files, the lowest first."""
    table: dict[str, list[Owned]] = {}
    for file in files:
        for service in file.get("services", ()):
            _add_service({"name": service} if isinstance(service, str) else service, table)
        for entry in file.get("domains", ()):
            host, rules = (entry, [{}]) if isinstance(entry, str) else (entry["host"], entry["rules"])
            kept = [] if isinstance(entry, dict) and "merge_mode" in entry else table.get(host, [])
            table[host] = [*kept, *(("", rule) for rule in rules)]
    matching_services = [host for host in table if _is_of(request.host, host)]
    best = min(matching_services, key=lambda host: (host.startswith("*"), -len(host)), default=None)
    return best is not None and any(_matches(rule, request) for _, rule in table[best])


def _add_service(service: Entry, table: dict[str, list[Owned]]) -> None:
    name = service["name"]
    if "merge_mode" in service:
        for host in list(table):
            table[host] = [(owner, rule) for owner, rule in table[host] if owner != name]
            if not table[host]:
                del table[host]
    for host, rule in _expanded(service):
        table[host] = [*table.get(host, []), (name, rule)]


def _expanded(service: Entry) -> Iterator[tuple[str, Entry]]:
    for repository in service.get("repos", ()):
        yield from _git(repository.lower(), service["git"]["access"]) if "git" in service else ()
        yield from _api(repository.lower(), service["api"]["access"]) if "api" in service else ()
    if "repos" not in service:
        for host in old_hosts()[service["name"]]:
            yield f"*{host}" if host.startswith(".") else host, {"methods": READ} if service.get("readonly") else {}


def _git(repository: str, access: str) -> Iterator[tuple[str, Entry]]:
    packs = ["git-upload-pack", "git-receive-pack"] if access == "readwrite" else ["git-upload-pack"]
    for pack in packs:
        refs = {"exact": f"/{repository}.git/info/refs"}
        yield "github.com", {"methods": READ, "path": refs, "query": {"exact": {"service": pack}}, "fold": True}
        yield "github.com", {"methods": ["POST"], "path": {"exact": f"/{repository}.git/{pack}"}, "fold": True}


def _api(repository: str, access: str) -> Iterator[tuple[str, Entry]]:
    some = {"methods": READ} if access == "read" else {}
    yield "api.github.com", {**some, "path": {"exact": f"/repos/{repository}"}, "fold": True}
    yield "api.github.com", {**some, "path": {"prefix": f"/repos/{repository}/"}, "fold": True}


def _is_of(host: str, pattern: str) -> bool:
    return f".{host}".endswith(pattern[1:]) if pattern.startswith("*") else host == pattern


def _matches(rule: Entry, request: Request) -> bool:
    path, asked = rule.get("path", {}), request.path.lower() if rule.get("fold") else request.path
    return (
        request.scheme in rule.get("schemes", ("http", "https"))
        and request.method in rule.get("methods", (request.method,))
        and asked.startswith(path.get("prefix", ""))
        and asked == path.get("exact", asked)
        and ("query" not in rule or _parameters(request.query) == _wanted(rule["query"]["exact"]))
    )


def _parameters(query: str) -> list[tuple[str, str]]:
    return sorted(parse_qsl(query, keep_blank_values=True))


def _wanted(exact: dict[str, str | Sequence[str]]) -> list[tuple[str, str]]:
    listed = {name: [values] if isinstance(values, str) else values for name, values in exact.items()}
    return sorted((unquote_plus(name), unquote_plus(one)) for name, values in listed.items() for one in values)

"""Check the installed versions for the vulnerabilities in `known_holes.yaml`."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from agent_sandbox.engines.compose.checks.host import EngineHost
from agent_sandbox.engines.compose.checks.version import Version, is_distributions, parse, shown
from agent_sandbox.engines.result import CheckResult, ok, warn

FILE = Path(__file__).with_name("known_holes.yaml")
NAMES = {"Engine": "engine", "containerd": "containerd", "runc": "runc"}


class Hole(Struct, frozen=True, kw_only=True):
    """One vulnerability, with the versions that introduced and fixed it."""

    component: str
    cve: str
    fixed: tuple[Version, ...]
    since: Version = ()
    what: str

    def is_in(self, version: Version) -> bool:
        """Return whether a version has it; a fix counts in its own release series and all newer ones."""
        if not version or version < self.since:
            return False
        series = [fix for fix in self.fixed if fix[:2] == version[:2]]
        return version < (series[0] if series else max(self.fixed))


def known_holes(file: Path = FILE) -> tuple[Hole, ...]:
    """Return the table of vulnerabilities."""
    import yaml  # noqa: PLC0415 - the doctor alone reads it

    return tuple(
        Hole(
            component=row["component"],
            cve=row["cve"],
            fixed=tuple(sorted(parse(str(fix)) for fix in row["fixed"])),
            since=parse(str(row.get("since", ""))),
            what=row["what"],
        )
        for row in yaml.safe_load(file.read_text(encoding="utf-8"))
    )


def holes(host: EngineHost) -> Iterator[CheckResult]:
    """Yield a warning for each vulnerable component; a distribution may have fixed it in the same version."""
    table, clean = known_holes(), list[str]()
    for component, text in running(host).items():
        version = parse(text)
        found = [hole for hole in table if hole.component == component and hole.is_in(version)]
        if not found:
            clean.append(f"{component} {text}")
            continue
        for hole in found:
            mended = ", ".join(map(shown, hole.fixed))
            distribution = "; your distribution may have fixed it in this version" if is_distributions(text) else ""
            hint = f"update {component} to {mended} or newer{distribution}"
            yield warn("holes", f"{component} {text} has {hole.cve}: {hole.what}", hint)
    if clean:
        yield ok("holes", f"none known in {', '.join(clean)}")


def running(host: EngineHost) -> Mapping[str, str]:
    """Return the reported version of each installed component."""
    server = host.versions.get("Server") or {}
    platform = (server.get("Platform") or {}).get("Name", "")
    components = {part["Name"]: part["Version"] for part in server.get("Components") or ()}
    compose = host.engine.ask("compose", "version", "--short")
    found = {
        **{ours: components[theirs] for theirs, ours in NAMES.items() if components.get(theirs)},
        "compose": compose.out.strip() if compose.code == 0 else "",
        "desktop": platform.removeprefix("Docker Desktop ") if platform.startswith("Docker Desktop ") else "",
    }
    return {component: version for component, version in found.items() if version}

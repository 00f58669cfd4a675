"""Find the package hosts that a project's lock and configuration files name, and the services that it needs.

PURE: names and text in, services and hosts out.

No registry is hard-coded: a host is offered because a file names it, together with that file's name.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from agent_sandbox.policy import Ambiguous, canonical_host
from agent_sandbox.policy.http.host import is_address

# Scheme, host, and an explicit port.
Place = tuple[str, str, int | None]

MAX_HOSTS = 40
URL = r"https?://[^\s\"'<>,;)\]}]+"
# Top-level domains without package hosts: reverse lookups and RFC 6761.
NO_PACKAGES = ("arpa", "invalid")


def _urls(pattern: str) -> str:
    return pattern.replace("URL", f"(?P<url>{URL})")


# File names to the patterns of package URLs in them; a home page or a licence's address is not one. Compiled on first
# use.
PATTERNS: Mapping[str, tuple[str, ...]] = {
    "package-lock.json": (_urls(r'"resolved":\s*"URL"'),),
    "npm-shrinkwrap.json": (_urls(r'"resolved":\s*"URL"'),),
    "pnpm-lock.yaml": (_urls(r"\b(?:tarball|registry):\s*['\"]?URL"),),
    "yarn.lock": (_urls(r'^[ \t]+resolved\s+"?URL'), r"__archiveUrl=(?P<quoted>https?%3A%2F%2F[^\s\"&]+)"),
    ".npmrc": (_urls(r"^[ \t]*(?:@[\w.-]+:)?registry\s*=\s*['\"]?URL"),),
    ".yarnrc": (_urls(r"registry['\"]?\s+['\"]?URL"),),
    ".yarnrc.yml": (_urls(r"npmRegistryServer:\s*['\"]?URL"),),
    "uv.lock": (_urls(r'\b(?:registry|url)\s*=\s*"URL"'),),
    "poetry.lock": (_urls(r'^url\s*=\s*"URL"'),),
    "requirements*.txt": (
        _urls(r"^[ \t]*(?:--(?:extra-)?index-url|--find-links|-i|-f)[\s=]+URL"),
        _urls(r"^[ \t]*(?:[\w.,\[\]-]+\s*@\s*)?URL"),
    ),
    "pip.conf": (_urls(r"^[^#;\n]*URL"),),
    "pyproject.toml": (
        _urls(r'^\[\[tool\.(?:uv\.index|poetry\.source|pdm\.source)\]\]\n(?:[^\[\n].*\n|\n){0,9}?url\s*=\s*"URL"'),
    ),
    "uv.toml": (_urls(r'^(?:index-url|default-index|url)\s*=\s*"URL"'),),
    "Cargo.lock": (_urls(r'^source\s*=\s*"(?:registry|sparse)\+(?:sparse\+)?URL"'),),
    "go.sum": (r"^(?P<host>[a-z0-9-]+(?:\.[a-z0-9-]+)+)/\S+ v\S+ h1:",),
    "Gemfile.lock": (_urls(r"^GEM\n(?: .*\n)*?  remote: URL"),),
    "composer.lock": (_urls(r'"dist":\s*\{[^{}]{0,400}?"url":\s*"URL"'),),
    "pom.xml": (
        _urls(r"<(?:repository|pluginRepository)>(?:(?!</(?:repository|pluginRepository)>)[^\0]){0,400}?<url>\s*URL"),
    ),
    "build.gradle": (_urls(r"\b(?:url|uri|maven)\b[\s=(]*(?:uri\(\s*)?['\"]URL"),),
    "build.gradle.kts": (_urls(r"\b(?:url|uri|maven)\b[\s=(]*(?:uri\(\s*)?\"URL"),),
    "settings.gradle": (_urls(r"\b(?:url|uri|maven)\b[\s=(]*(?:uri\(\s*)?['\"]URL"),),
    "settings.gradle.kts": (_urls(r"\b(?:url|uri|maven)\b[\s=(]*(?:uri\(\s*)?\"URL"),),
    "gradle-wrapper.properties": (r"^distributionUrl=(?P<escaped>https?\\?://\S+)",),
}


# The files at the top of a project that show which packages it uses, by service. Only their names count.
MANIFESTS: Mapping[str, tuple[str, ...]] = {
    "go": ("go.mod",),
    "java": ("pom.xml", "build.gradle", "build.gradle.kts"),
    "node": ("package.json",),
    "php": ("composer.json",),
    "python": ("pyproject.toml", "requirements*.txt"),
    "ruby": ("Gemfile",),
    "rust": ("Cargo.toml",),
}
# Files of npm and similar tools, which request scoped packages as `/@scope%2fname`.
SCOPED = frozenset(
    {"package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", ".npmrc", ".yarnrc", ".yarnrc.yml"}
)
# The group names for parts of a URL.
SPELLINGS: Mapping[str, Callable[[str], str]] = {
    "url": str,
    "quoted": unquote,
    "escaped": lambda text: text.replace("\\", ""),
    "host": lambda text: f"https://{text}/",
}


class Offer(Struct, frozen=True, kw_only=True):
    """A host that files of the project name, with these files and the URLs' schemes and ports."""

    host: str
    files: tuple[str, ...]
    schemes: tuple[str, ...]
    ports: tuple[int, ...] = ()

    @property
    def encoded_slash(self) -> bool:
        """Whether requests for packages in these files have `%2f` in the path."""
        return any(path.rpartition("/")[2] in SCOPED for path in self.files)


def services_of(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the services that a project with these files needs, each with the files that show it.

    >>> services_of(["package.json", "README.md", "requirements.txt", "requirements-dev.txt"])
    {'node': ('package.json',), 'python': ('requirements-dev.txt', 'requirements.txt')}
    """
    ordered = sorted(names)
    shown = {
        service: tuple(name for name in ordered if any(fnmatchcase(name, pattern) for pattern in patterns))
        for service, patterns in MANIFESTS.items()
    }
    return {service: files for service, files in shown.items() if files}


def is_looked_at(name: str) -> bool:
    """Return whether a file of that name may name hosts."""
    return any(fnmatchcase(name, pattern) for pattern in PATTERNS)


def offers(texts: Mapping[str, str]) -> tuple[Offer, ...]:
    """Return the hosts that these files (path to text) name, sorted by host."""
    return gathered(namings(texts))


def namings(texts: Mapping[str, str]) -> Iterator[tuple[str, Place]]:
    """Yield the places that these files (path to text) name, each with its file."""
    return ((path, place) for path, text in texts.items() for place in places(path.rpartition("/")[2], text))


def gathered(named: Iterable[tuple[str, Place]]) -> tuple[Offer, ...]:
    """Return each host once, with all files that name it."""
    by_host: dict[str, list[tuple[str, str, int | None]]] = {}
    for by, (scheme, host, port) in dict.fromkeys(named):
        by_host.setdefault(host, []).append((by, scheme, port))
    return tuple(_offer(host, by_host[host]) for host in sorted(by_host)[:MAX_HOSTS])


def places(name: str, text: str) -> Iterator[Place]:
    """Yield the places in a file of that name, only those with public names."""
    for pattern, expressions in PATTERNS.items():
        if fnmatchcase(name, pattern):
            for expression in expressions:
                for match in re.finditer(expression, text, re.MULTILINE):
                    yield from place_of(_url(match))


def _url(match: re.Match[str]) -> str:
    kind, text = next((kind, text) for kind, text in match.groupdict().items() if text)
    return SPELLINGS[kind](text)


def place_of(url: str) -> Iterator[Place]:
    """Yield scheme, host and port of a URL if its host has a public name."""
    from agent_sandbox.policy.match.private_hosts import is_private_name  # noqa: PLC0415 - the same

    try:
        parts = urlsplit(url)
        host, port = canonical_host(parts.hostname or ""), parts.port
    except (ValueError, Ambiguous):
        return
    if not (is_address(host) or is_private_name(host) or host.rpartition(".")[2] in NO_PACKAGES):
        yield parts.scheme, host, port


def _offer(host: str, named: list[tuple[str, str, int | None]]) -> Offer:
    ports = {port for _, _, port in named if port}
    usual = {443 if scheme == "https" else 80 for _, scheme, port in named if not port}
    return Offer(
        host=host,
        files=tuple(dict.fromkeys(path for path, _, _ in named)),
        schemes=tuple(sorted({scheme for _, scheme, _ in named}, reverse=True)),
        ports=tuple(sorted(ports | usual)) if ports else (),
    )

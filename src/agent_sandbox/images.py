"""Which images there are, and what each is built from: the same files from a checkout and from a wheel.

The digest of an image's context is its label `agent-sandbox.digest`; an image whose label differs is built again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from agent_sandbox import __version__
from agent_sandbox.agents.manifest import AgentManifest
from agent_sandbox.filetree import FileTree, digest
from agent_sandbox.resources import PACKAGE, data_root
from agent_sandbox.stack.workspace import Owner as Owner  # noqa: PLC0414 - backends name images by it

DIGEST_LABEL = "agent-sandbox.digest"
# What of the package the proxy imports: the host's part has no business in its image, and no say in its digest.
PROXY_PARTS = frozenset(
    {
        *("__init__.py", "py.typed", "bounded_json.py", "printable.py", "problems.py", "resources.py"),
        *("policy", "policyfile", "proxy"),
    }
)
# What lies beside sources and is none; `_data`, a wheel's own folder, goes into a context by its name.
LITTER_FOLDERS = frozenset({"__pycache__", "_data"})
LITTER = ("~", ".swp", ".pyc", ".DS_Store")


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """How to build one image: `docker build --target TARGET --build-arg ... -t NAME CONTEXT`."""

    name: str
    target: str
    context: FileTree
    arguments: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The sha256 of everything that goes into the image: files, target, arguments."""
        recipe = "\n".join((self.target, *(f"{key}={value}" for key, value in sorted(self.arguments.items()))))
        return digest({**{f"context/{path}": text for path, text in self.context.items()}, "recipe": recipe.encode()})


def proxy_name() -> str:
    """Return the name of the proxy's image."""
    return f"agent-sandbox/proxy:{__version__}"


def base_name() -> str:
    """Return the name of the image that every agent's image starts from."""
    return f"agent-sandbox/base:{__version__}"


def agent_name(agent: str, owner: Owner) -> str:
    """Return the name of an agent's image, with the numbers of `dev` where they are not 1000:1000.

    >>> agent_name("example", Owner(uid=501, gid=20)).partition(":")[2].removeprefix(__version__)
    '-u501-20'
    """
    suffix = "" if owner == Owner() else f"-u{owner.uid}-{owner.gid}"
    return f"agent-sandbox/{agent}:{__version__}{suffix}"


def images_for(manifest: AgentManifest, owner: Owner) -> tuple[Image, ...]:
    """Return what a stack with that agent needs, in the order in which it has to be built."""
    of_proxy, of_agent = _contexts()
    return (
        Image(name=proxy_name(), target="proxy", context=of_proxy),
        Image(name=base_name(), target="base", context=of_agent),
        Image(
            name=agent_name(manifest.name, owner),
            target="agent",
            context=of_agent,
            arguments={
                **manifest.build_arguments(),
                "DEV_UID": str(owner.uid),
                "DEV_GID": str(owner.gid),
            },
        ),
    )


@cache  # what ships stays as it is while a program runs, and a command asks more than once
def _contexts() -> tuple[FileTree, FileTree]:
    return proxy_context(), agent_context()


def proxy_context() -> FileTree:
    """Return `images/proxy/` at the root, and below `package/` the very engine that decides on the host."""
    return {
        **_tree(data_root() / "images" / "proxy"),
        **_tree(PACKAGE, "package/agent_sandbox/", only=PROXY_PARTS, suffixes=(".py", ".yaml", "py.typed")),
        **_tree(data_root() / "services", "package/agent_sandbox/_data/services/", suffixes=(".yaml",)),
    }


def agent_context() -> FileTree:
    """Return `images/agent/`."""
    return _tree(data_root() / "images" / "agent")


def _tree(
    root: Path, prefix: str = "", *, only: frozenset[str] | None = None, suffixes: tuple[str, ...] = ("",)
) -> FileTree:
    files: dict[str, bytes] = {}
    for folder, below, names in root.walk():
        chosen = only if only is not None and folder == root else {*below, *names}
        below[:] = sorted(chosen.intersection(below) - LITTER_FOLDERS)
        wanted = (name for name in sorted(chosen.intersection(names)) if name.endswith(suffixes))
        inside = prefix if folder == root else f"{prefix}{folder.relative_to(root).as_posix()}/"
        paths = {inside + name: folder / name for name in wanted if not name.endswith(LITTER)}
        files |= {name: path.read_bytes() for name, path in paths.items() if path.is_file()}
    return files

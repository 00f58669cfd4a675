"""The images and their build contexts, the same from a checkout and from a wheel.

The label `agent-sandbox.digest` of an image is its context's digest; an image with another label is rebuilt.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from agent_sandbox import __version__
from agent_sandbox.agents.manifest import AgentManifest
from agent_sandbox.filetree import FileTree, digest
from agent_sandbox.resources import PACKAGE, data_root
from agent_sandbox.stack.workspace import Owner as Owner  # noqa: PLC0414 - backends name images by it

# The build argument of a project's own Dockerfile: the image that it has to start from.
OWN_BASE = "AGENT_SANDBOX_BASE"
NPM_REGISTRY, PIP_INDEX = "NPM_REGISTRY", "PIP_INDEX"
DIGEST_LABEL = "agent-sandbox.digest"
# The parts of the package that the proxy imports; the rest is not in its image or digest.
PROXY_PARTS = frozenset(
    {
        *("__init__.py", "py.typed", "atomic_file.py", "audit_event.py"),
        *("bounded_json.py", "printable.py", "problems.py", "resources.py"),
        *("policy", "policyfile", "proxy"),
    }
)
# Files beside the sources that are not sources; a wheel's folder `_data` is added under its own names.
LITTER_FOLDERS = frozenset({"__pycache__", "_data"})
LITTER = ("~", ".swp", ".pyc", ".DS_Store")


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """How to build one image: `docker build --target TARGET --build-arg ... -t NAME CONTEXT`."""

    name: str
    target: str
    context: FileTree
    arguments: Mapping[str, str] = field(default_factory=dict)
    # Whether `--base-image` replaces the Debian image that it is built on.
    follows_base: bool = True
    # Build arguments that this machine's configuration sets; they are not part of the digest.
    registries: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """The sha256 of the image's files, target and arguments."""
        recipe = "\n".join((self.target, *(f"{key}={value}" for key, value in sorted(self.arguments.items()))))
        return digest({**{f"context/{path}": text for path, text in self.context.items()}, "recipe": recipe.encode()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    """What a project adds to the image of its agents; `dockerfile` is the text of its own Dockerfile, "" for none."""

    packages: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()
    dockerfile: str = ""


def project_images(agent: Image, added: Additions) -> tuple[Image, ...]:
    """Return the images that a project adds, in build order; the last one runs. Their names contain their digests."""
    if added == Additions():
        return ()
    base = {"agent-digest": agent.digest.encode()}  # a new image of the agents makes new ones of these
    own: tuple[Image, ...] = ()
    if added.dockerfile:
        # Declared here, since FROM uses only what is declared above it.
        text = f"ARG {OWN_BASE}\n{added.dockerfile}"
        context = {"Dockerfile": text.encode(), **base}
        own = (_named("own", Image(name="", target="", context=context, arguments={OWN_BASE: agent.name})),)
    lists = {"apt": added.packages, "npm": added.npm, "pip": added.pip}
    files = {name: "".join(f"{one}\n" for one in them).encode() for name, them in lists.items()}
    arguments = {"AGENT_IMAGE": agent.name, **({"BASE": own[0].name} if own else {})}
    context = {**_project_context(), **files, **base}
    asks = (*((NPM_REGISTRY,) if added.npm else ()), *((PIP_INDEX,) if added.pip else ()))
    image = Image(name="", target="project", context=context, arguments=arguments, registries=asks)
    return (*own, _named("project", image))


def _named(kind: str, image: Image) -> Image:
    return replace(image, name=f"agent-sandbox/{kind}:{image.digest[:16]}")


@cache  # cached: as below
def _project_context() -> FileTree:
    return _tree(data_root() / "images" / "project")


def proxy_name() -> str:
    """Return the name of the proxy's image."""
    return f"agent-sandbox/proxy:{__version__}"


def base_name() -> str:
    """Return the name of the base of every agent's image."""
    return f"agent-sandbox/base:{__version__}"


def agent_name(agent: str, owner: Owner) -> str:
    """Return the name of an agent's image, with uid and gid of `dev` unless 1000:1000.

    >>> agent_name("example", Owner(uid=501, gid=20)).partition(":")[2].removeprefix(__version__)
    '-u501-20'
    """
    suffix = "" if owner == Owner() else f"-u{owner.uid}-{owner.gid}"
    return f"agent-sandbox/{agent}:{__version__}{suffix}"


def images_for(manifest: AgentManifest, owner: Owner) -> tuple[Image, ...]:
    """Return the images of a stack with that agent, in build order."""
    of_proxy, of_agent = _contexts()
    return (
        Image(name=proxy_name(), target="proxy", context=of_proxy, follows_base=False),
        Image(name=base_name(), target="base", context=of_agent),
        Image(
            name=agent_name(manifest.name, owner),
            target="agent",
            context={**of_agent, **manifest.build_files()},
            arguments={
                **manifest.build_arguments(),
                "DEV_UID": str(owner.uid),
                "DEV_GID": str(owner.gid),
            },
        ),
    )


@cache  # cached: shipped files do not change while a program runs
def _contexts() -> tuple[FileTree, FileTree]:
    return proxy_context(), agent_context()


def proxy_context() -> FileTree:
    """Return `images/proxy/`, with the package's sources below `package/`."""
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

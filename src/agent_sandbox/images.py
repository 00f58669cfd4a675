"""The images and their build contexts, the same from a checkout and from a wheel.

The label `agent-sandbox.digest` of an image is its context's digest; an image with another label is rebuilt.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox import __version__
from agent_sandbox.agents.home import HOME
from agent_sandbox.agents.pin import Pins, pins_suffix
from agent_sandbox.filetree import FileTree, digest
from agent_sandbox.resources import PACKAGE, data_root
from agent_sandbox.stack.engine import BUILD_FILE
from agent_sandbox.stack.recorded import Owner as Owner  # noqa: PLC0414 - backends name images by it

if TYPE_CHECKING:
    from agent_sandbox.agents.manifest import AgentManifest
    from agent_sandbox.agents.together import Agents

# The names of all images that we build start with this.
OURS = "agent-sandbox/"
# The build argument of a project's own build file: the image that it has to start from.
OWN_BASE = "AGENT_SANDBOX_BASE"
# The build argument of the Debian image that an image is built on.
BASE_IMAGE = "BASE_IMAGE"
NPM_REGISTRY, PIP_INDEX = "NPM_REGISTRY", "PIP_INDEX"
DIGEST_LABEL = "agent-sandbox.digest"
# In the context of an image: another digest of the image below makes another one of this.
DIGEST_BELOW = "digest-below"
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
NO_PINS: Pins = MappingProxyType({})
# The line of the build file of images/agent/ that begins the agents' image.
AGENTS_ON = "FROM {} AS agent\n"
# Lines of it that are repeated for each agent.
FOR_EACH_AGENT = re.compile(r"^# for each agent\n(.*?)^# end\n", re.DOTALL | re.MULTILINE)


class Image(Struct, frozen=True, kw_only=True):
    """How to build one image: its name, the target of the recipe, the files and the build arguments."""

    name: str
    target: str
    context: FileTree
    arguments: Mapping[str, str] = {}
    # Whether the machine's base image replaces the Debian image that it is built on.
    follows_base: bool = True
    # Build arguments that this machine's configuration sets; they are not part of the digest.
    registries: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """The sha256 of the image's files, target and arguments."""
        recipe = "\n".join((self.target, *(f"{key}={value}" for key, value in sorted(self.arguments.items()))))
        return digest({**{f"context/{path}": text for path, text in self.context.items()}, "recipe": recipe.encode()})


class Additions(Struct, frozen=True, kw_only=True):
    """What a project adds to the image of its agents; `build_file` is the text of its own, "" for none."""

    packages: tuple[str, ...] = ()
    browser: tuple[str, ...] = ()  # more packages, on which nothing else is built
    npm: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()
    build_file: str = ""


NOTHING = Additions()


def project_images(agent: Image, added: Additions) -> tuple[Image, ...]:
    """Return the images that a project with a build file adds to its agents', in build order; the last one runs."""
    if not added.build_file:
        return ()
    # Declared here, since FROM uses only what is declared above it.
    text = f"ARG {OWN_BASE}\n{added.build_file}"
    context = {BUILD_FILE: text.encode(), DIGEST_BELOW: agent.digest.encode()}
    arguments = {OWN_BASE: agent.name}
    image = Image(name="", target="", context=context, arguments=arguments, follows_base=agent.follows_base)
    own = _named("own", image)
    return (own, _with_packages("project", agent, added, {"BASE": own.name}))


def _with_packages(kind: str, below: Image, added: Additions, own: Mapping[str, str] = MappingProxyType({})) -> Image:
    """Return the image that adds packages and tools to `below`, or to the project's `own` that was built on it."""
    lists = {"apt": added.packages, "browser": added.browser, "npm": added.npm, "pip": added.pip}
    files = {name: "".join(f"{one}\n" for one in them).encode() for name, them in lists.items()}
    context = {**_project_context(), **files, DIGEST_BELOW: below.digest.encode()}
    asks = (*((NPM_REGISTRY,) if added.npm else ()), *((PIP_INDEX,) if added.pip else ()))
    image = Image(
        name="",
        target=kind,
        context=context,
        arguments={"SANDBOX_IMAGE": below.name, **own},
        follows_base=below.follows_base,
        registries=asks,
    )
    return _named(kind, image)


def beside_image(build_file: str) -> Image:
    """Return the image of a service beside the sandbox, built with this text; its name contains its digest."""
    return _named("beside", Image(name="", target="", context={BUILD_FILE: build_file.encode()}, follows_base=False))


def _named(kind: str, image: Image) -> Image:
    return replace(image, name=f"agent-sandbox/{kind}:{image.digest[:16]}")


@cache  # cached: as below
def _project_context() -> FileTree:
    return _tree(data_root() / "images" / "project")


def proxy_name() -> str:
    """Return the name of the proxy's image."""
    return f"agent-sandbox/proxy:{__version__}"


def usage_name() -> str:
    """Return the name of the image that `agent-sandbox usage` runs."""
    return f"agent-sandbox/usage:{__version__}"


def base_name(base_image: str = "") -> str:
    """Return the name of the base of all agent images, or of those of a project that names a base image."""
    return f"agent-sandbox/base:{__version__}{_base_suffix(base_image)}"


def agent_name(agents: Sequence[str], owner: Owner, pins: Pins = NO_PINS, base_image: str = "") -> str:
    """Return the name of the image with these agents.

    It has hashes of the project's base image and of the pins, if any, and uid and gid unless 1000:1000. The order of
    the agents does not matter, because their programs have different names.

    >>> agent_name(["b", "a"], Owner(uid=501, gid=20)).replace(__version__, "1")
    'agent-sandbox/a.b:1-u501-20'
    """
    user = "" if owner == Owner() else f"-u{owner.uid}-{owner.gid}"
    suffix = f"{_base_suffix(base_image)}{pins_suffix(pins)}{user}"
    return f"agent-sandbox/{'.'.join(sorted(agents))}:{__version__}{suffix}"


def _base_suffix(base_image: str) -> str:
    return f"-b{hashlib.sha256(base_image.encode()).hexdigest()[:12]}" if base_image else ""


def images_for(agents: "Agents", owner: Owner, base_image: str = "", added: Additions = NOTHING) -> tuple[Image, ...]:
    """Return the images of a stack with these agents, in build order.

    If the project names a base image, there are two bases, because the firewall runs on the machine's. Packages that a
    project adds are below the agents, so an agent's update does not install them again, unless its build file adds to
    the agents' image.
    """
    of_proxy, of_agent = _contexts()
    inside = sorted(agents.manifests, key=lambda one: one.name)
    own = {path: text for one in inside for path, text in one.build_files().items()}
    base = _base()
    chosen = {BASE_IMAGE: base_image} if base_image else {}
    other = (replace(base, name=base_name(base_image), arguments=chosen, follows_base=False),) if base_image else ()
    agent = Image(
        name=agent_name(agents.names, owner, agents.pins, base_image),
        target="agent",
        context={**_with_stages(of_agent, inside), **own},
        follows_base=not base_image,
        arguments={
            **chosen,
            "AGENT_NAMES": ".".join(one.name for one in inside),
            "AGENT_STATE": ":".join(f"{HOME}/{path}" for one in inside for path in one.state),
            "AGENT_PATH": ":".join(f"/opt/agents/{one.name}/bin" for one in inside),
            "DEV_UID": str(owner.uid),
            "DEV_GID": str(owner.gid),
        },
    )
    below = (Image(name=proxy_name(), target="proxy", context=of_proxy, follows_base=False), base, *other)
    if added == NOTHING or added.build_file:
        return (*below, agent)
    packages = _with_packages("packages", below[-1], added)
    text = agent.context[BUILD_FILE].decode().replace(AGENTS_ON.format("base"), AGENTS_ON.format(packages.name))
    return (*below, packages, _named("project", replace(agent, context={**agent.context, BUILD_FILE: text.encode()})))


def usage_images() -> tuple[Image, ...]:
    """Return the image with the program that counts tokens, after the one that it is built on."""
    context = _tree(data_root() / "images" / "usage")
    arguments = {"BASE": base_name()}
    usage = Image(
        name=usage_name(),
        target="",
        context=context,
        arguments=arguments,
        follows_base=False,
        registries=(NPM_REGISTRY,),
    )
    return (_base(), usage)


def registries_image(asked: str, base_image: str = "") -> Image:
    """Return an image whose build downloads a package of Debian, npm and PyPI each; `asked` differs each time."""
    chosen = {BASE_IMAGE: base_image} if base_image else {}
    name, asks = f"{OURS}registries:{__version__}", (NPM_REGISTRY, PIP_INDEX)
    return replace(
        _base(),
        name=name,
        target="registries",
        registries=asks,
        arguments={**chosen, "ASKED": asked},
        follows_base=not chosen,
    )


def _base() -> Image:
    return Image(name=base_name(), target="base", context=_with_stages(_contexts()[1], ()))


def _with_stages(context: FileTree, manifests: Sequence["AgentManifest"]) -> FileTree:
    """Return the context with the stages of these agents in its build file.

    Lines between `# for each agent` and `# end` are repeated, with an agent's name for `@AGENT@` and the kind of its
    installation for `@INSTALL@`.
    """

    def stages(block: re.Match[str]) -> str:
        return "".join(
            block[1].replace("@AGENT@", one.name).replace("@INSTALL@", one.install.kind) for one in manifests
        )

    text = FOR_EACH_AGENT.sub(stages, context[BUILD_FILE].decode())
    return {**context, BUILD_FILE: text.encode()}


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

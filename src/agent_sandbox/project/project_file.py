"""Read the project file, and the build file and the setup script that it names, as texts."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_sandbox.host.files import read_text
from agent_sandbox.images import Additions, Image, beside_image
from agent_sandbox.problems import UserError
from agent_sandbox.project.render.formats.foreign import load_foreign
from agent_sandbox.project.render.paths import PROJECT_FILE
from agent_sandbox.stack.engine import BUILD_KEY

FOLDER = Path(PROJECT_FILE).parent
FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)
# Only an escape could hide one of these keys from a text search.
ADDING = ("packages", "tools", "browser", BUILD_KEY, "\\")
SETUP_KEY = "setup"
BASE_KEY = "base_image"
BESIDE_KEY = "beside"
PORTS_KEY = "ports"
MOUNTS_KEY = "mounts"


def project_files(root: Path) -> dict[str, str]:
    """Return the texts of the project file and of the files that it names, by their paths in the project."""
    text = read_text(root, PROJECT_FILE)
    if text is None:
        return {}
    found = {path: read_text(root, path) for path in files_run_by(text)}
    return {PROJECT_FILE: text} | {path: other for path, other in found.items() if other is not None}


def made_of(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the project file and the files that it names from the texts of a project's files."""
    names = (PROJECT_FILE, *files_run_by(texts.get(PROJECT_FILE, "")))
    return {name: texts[name] for name in names if name in texts}


def build_file_of(text: str) -> str:
    """Return the path of the build file that a project file names, or ""."""
    name = _value(text, BUILD_KEY)
    return str(FOLDER / name) if isinstance(name, str) and FILE_NAME.fullmatch(name) else ""


def base_image_of(text: str) -> str:
    """Return the base image that a project file names, or ""."""
    image = _value(text, BASE_KEY)
    if not isinstance(image, str):
        return ""
    from agent_sandbox.projectfile.paths import is_image  # noqa: PLC0415 - as below

    return image if is_image(image) else ""


def setup_of(text: str) -> str:
    """Return the path of the setup script that a project file names, or ""."""
    path = _value(text, SETUP_KEY)
    if not isinstance(path, str):
        return ""
    from agent_sandbox.projectfile.paths import is_script  # noqa: PLC0415 - most projects have none

    return path if is_script(path) else ""


def ports_of(text: str) -> tuple[tuple[int, int], ...]:
    """Return the ports of this machine that a project file opens, each with the port of the sandbox."""
    ports = _value(text, PORTS_KEY)
    if not isinstance(ports, list):
        return ()
    from agent_sandbox.projectfile.ports import parse_port  # noqa: PLC0415 - most projects have none

    return tuple(found for port in ports if (found := parse_port(str(port))))


def read_only_mounts_of(text: str) -> tuple[str, ...]:
    """Return the paths outside the project that a project file lets the agent read and not write."""
    mounts = _value(text, MOUNTS_KEY)
    written = (one for one in mounts if isinstance(one, dict)) if isinstance(mounts, list) else ()
    return tuple(str(one.get("path", "")) for one in written if one.get("read_only", "true") == "true")


def files_run_by(text: str) -> list[str]:
    """Return the paths of what a build or the container runs: the build files and the setup script."""
    return list(dict.fromkeys(path for path in (build_file_of(text), setup_of(text), *_beside(text)) if path))


def _beside(text: str) -> Iterator[str]:
    """Yield the paths of the build files of the services beside the sandbox."""
    services = _value(text, BESIDE_KEY)
    for service in services.values() if isinstance(services, dict) else ():
        build = service.get("build") if isinstance(service, dict) else None
        name = build.get(BUILD_KEY) if isinstance(build, dict) else None
        if isinstance(name, str) and FILE_NAME.fullmatch(name):
            yield str(FOLDER / name)


def _value(text: str, key: str) -> Any:  # noqa: ANN401 - whatever a file says
    """Return the value of a key; only an escape could hide it from a text search."""
    if key not in text and "\\" not in text:
        return None
    try:
        document = load_foreign(text, file=PROJECT_FILE)
    except UserError:
        return None  # `init` and `up` report what is wrong with it
    return document.get(key) if isinstance(document, dict) else None


def additions_in(texts: Mapping[str, str]) -> Additions:
    """Return what these texts add to the agents' image; raise UserError if they are invalid."""
    text = texts.get(PROJECT_FILE, "")
    if not any(key in text for key in ADDING):
        return Additions()
    from agent_sandbox.projectfile.additions import additions  # noqa: PLC0415 - brings pydantic; few projects need it
    from agent_sandbox.projectfile.parsing import parse_project_file  # noqa: PLC0415 - as above

    return additions(parse_project_file(text, file=PROJECT_FILE), by_name(texts), file=PROJECT_FILE)


def beside_images_in(texts: Mapping[str, str]) -> tuple[Image, ...]:
    """Return the images of services that are built from these texts; raise UserError if they are invalid."""
    text = texts.get(PROJECT_FILE, "")
    if BESIDE_KEY not in text and "\\" not in text:
        return ()
    from agent_sandbox.projectfile.beside import build_texts  # noqa: PLC0415 - brings pydantic; few projects need it
    from agent_sandbox.projectfile.parsing import parse_project_file  # noqa: PLC0415 - as above

    services = parse_project_file(text, file=PROJECT_FILE).beside
    found = build_texts(services, by_name(texts), file=PROJECT_FILE).values()
    return tuple({image.name: image for image in map(beside_image, found)}.values())


def by_name(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of files beside the project file, by their names."""
    return {Path(path).name: text for path, text in texts.items() if Path(path).parent == FOLDER}

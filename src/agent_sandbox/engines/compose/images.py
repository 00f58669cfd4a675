"""The images on the engine: ours, and those of a registry with their digests and download sizes."""

import platform
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from agent_sandbox.bounded_json import NotJsonError, read_json
from agent_sandbox.engines.compose.engine import MISSING, Engine, json_lines
from agent_sandbox.engines.compose.plan import repository_of
from agent_sandbox.engines.compose.usage import parse_size
from agent_sandbox.images import DIGEST_LABEL, OURS
from agent_sandbox.problems import UserError

# The engine measures everything that it has.
MEASURING_SECONDS = 60.0
ROW = "{{.Repository}}:{{.Tag}}"
FORMAT = "{{json .RepoDigests}}"
# A registry that does not answer must not delay the start for long: the pull itself says why.
REGISTRY_SECONDS = 20.0
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def own_images(engine: Engine, *, leaving: Collection[str] = ()) -> dict[str, int | None]:
    """Return our images that no container uses, except containers that are `leaving`, by their ids.

    With each, how many bytes it has alone; None if the engine did not say. The label is not enough: an image that is
    built on one of ours has it, too.
    """
    labelled = ("--filter", f"label={DIGEST_LABEL}", "--format", ROW)
    said = engine.answer("image", "ls", *labelled, doing="looking for images").split()
    rows = engine.answer("ps", "--all", "--format", "{{.ID}} {{.Image}}", doing="looking for containers").splitlines()
    used = (row.partition(" ") for row in rows)
    taken = {image for name, _, image in used if name not in leaving}
    sizes = _sizes(engine)
    return {name: sizes.get(name) for name in sorted(said) if name.startswith(OURS) and name not in taken}


def _sizes(engine: Engine) -> Mapping[str, int]:
    """Return how much space removing each image would free."""
    done = engine.ask("system", "df", "--verbose", "--format", "{{json .Images}}", timeout=MEASURING_SECONDS)
    try:
        rows = read_json(done.out) if done.code == 0 else []
        names = ((f"{row['Repository']}:{row['Tag']}", row) for row in rows or ())
        return {name: parse_size(row["UniqueSize"]) for name, row in names}
    except (NotJsonError, TypeError, LookupError):
        return {}


def images(engine: Engine, names: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the images that exist, each with its digests; see `Driver.images`."""
    names = tuple(names)
    ours = tuple(name for name in names if name.startswith(OURS))
    labels = engine.labels_of(ours) if ours else {}
    found = {name: frozenset(filter(None, [one.get(DIGEST_LABEL)])) for name, one in labels.items()}
    for image in names:
        if image in ours:
            continue
        done = engine.ask("image", "inspect", "--format", FORMAT, "--", image)
        if done.code == 0:
            said = next(json_lines(f'{{"names": {done.out.strip()}}}'), {}).get("names") or ()
            found[image] = frozenset(str(name).partition("@")[2] for name in said)
        elif not MISSING.search(done.err):
            raise UserError([engine.problem(done.err, doing="looking for the images")])
    return found


def download_size(engine: Engine, image: str) -> int | None:
    """Return the size of an image's layers in its registry, or None if that is not known."""
    manifest = _manifest(engine, image)
    architecture = ARCHITECTURES.get(platform.machine(), platform.machine())
    for one in _listed(manifest, "manifests"):
        place = one.get("platform")
        if isinstance(place, dict) and (place.get("os"), place.get("architecture")) == ("linux", architecture):
            manifest = _manifest(engine, f"{repository_of(image)}@{one.get('digest')}")
            break
    sizes = [layer.get("size") for layer in _listed(manifest, "layers")]
    return sum(size for size in sizes if isinstance(size, int) and size > 0) if sizes else None


def _manifest(engine: Engine, image: str) -> Mapping[str, Any]:
    done = engine.ask("buildx", "imagetools", "inspect", "--raw", "--", image, timeout=REGISTRY_SECONDS)
    try:
        return read_json(done.out) if done.code == 0 else {}
    except NotJsonError:
        return {}


def _listed(manifest: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    values = manifest.get(key)
    return [one for one in values if isinstance(one, dict)] if isinstance(values, list) else []

"""List our images on the engine by name and label: an image that is built on one of ours has its label, too."""

from collections.abc import Collection, Mapping

from agent_sandbox.bounded_json import NotJsonError, read_json
from agent_sandbox.images import DIGEST_LABEL, OURS
from agent_sandbox.runtime.compose.engine import Engine
from agent_sandbox.runtime.compose.usage import parse_size

# The engine measures everything that it has.
SECONDS = 60.0
ROW = "{{.Repository}}:{{.Tag}}"


def own_images(engine: Engine, *, leaving: Collection[str] = ()) -> dict[str, int | None]:
    """Return our images that no container uses, except containers that are `leaving`, by their ids.

    With each, how many bytes it has alone; None if the engine did not say.
    """
    labelled = ("--filter", f"label={DIGEST_LABEL}", "--format", ROW)
    said = engine.answer("image", "ls", *labelled, doing="looking for images").split()
    rows = engine.answer("ps", "--all", "--format", "{{.ID}} {{.Image}}", doing="looking for containers").splitlines()
    found = [name.removeprefix(engine.local_prefix) for name in said]
    used = (row.partition(" ") for row in rows)
    taken = {image.removeprefix(engine.local_prefix) for name, _, image in used if name not in leaving}
    sizes = _sizes(engine)
    return {name: sizes.get(name) for name in sorted(found) if name.startswith(OURS) and name not in taken}


def _sizes(engine: Engine) -> Mapping[str, int]:
    """Return how much space removing each image would free."""
    done = engine.ask("system", "df", "--verbose", "--format", "{{json .Images}}", timeout=SECONDS)
    try:
        rows = read_json(done.out) if done.code == 0 else []
        names = ((f"{row['Repository']}:{row['Tag']}", row) for row in rows or ())
        return {name.removeprefix(engine.local_prefix): parse_size(row["UniqueSize"]) for name, row in names}
    except (NotJsonError, TypeError, LookupError):
        return {}

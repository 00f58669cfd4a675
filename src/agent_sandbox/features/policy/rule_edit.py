"""Edit a policy file: read it, check the new text in memory, replace it atomically, never through a link."""

import codecs
import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct

from agent_sandbox.features.policy.layers import FILE as LAYER
from agent_sandbox.features.policy.layers import layers_here
from agent_sandbox.host.files import write_all
from agent_sandbox.host.user_dirs import config_directory
from agent_sandbox.policy.compiler.compile import compile_policy
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policyfile import LayerFile, load_layer, parse_layer, services_beside
from agent_sandbox.policyfile.layer_file import PROJECT
from agent_sandbox.policyfile.text.decoding import decode_policy
from agent_sandbox.policyfile.text.reading import read_policy
from agent_sandbox.policytools.edit.editing import AlreadyCovered, Edited, Readers, Values, add_service, edit, merge
from agent_sandbox.policytools.edit.service_options import set_service_options
from agent_sandbox.policytools.edit.short_rule import ShortRule
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.root import POLICY_FILE

MARK = "\ufeff"
# The user's layer need not exist before the first rule is added to it.
NEW = "# Your own policy: what all your projects may reach, besides what their own policies allow.\nversion: 1\n"


def planned_edits(
    file: Path, wanted: Iterable[ShortRule], environ: Mapping[str, str]
) -> tuple[str, tuple[Edited | AlreadyCovered, ...]]:
    """Return the file's text, and for each rule the text with it and those before it added.

    Raises UserError if one cannot be added.
    """
    text = before = _text(file, environ)
    readers = _readers(file, environ)
    done: list[Edited | AlreadyCovered] = []
    for rule in wanted:
        after = edit(text, rule, readers)
        text = after.text if isinstance(after, Edited) else text
        done.append(after)
    return before, tuple(done)


class Entries(Struct, frozen=True, kw_only=True):
    """The file's text with entries added, the policy that it makes, and why some could not be added."""

    before: str
    after: Edited
    policy: Policy
    problems: tuple[Problem, ...]


def planned_entries(
    file: Path, services: Iterable[str], rules: Iterable[ShortRule], environ: Mapping[str, str], *, note: str
) -> Entries:
    """Return the text with these services and rules added, each with `note` as a comment, unless it has them."""
    text = before = decode_policy(read_policy(file), file=str(file))
    readers = _readers(file, environ)
    problems: list[Problem] = []
    line = 0
    for name in services:
        if all(one.name != name for one in readers.layer(text).spec.services):
            text = add_service(text, name, readers, note=note).text
    for rule in rules:
        try:
            edited = edit(text, rule, readers, note=note)
        except UserError as error:
            problems += error.problems
            continue
        if isinstance(edited, Edited):
            text, line = edited.text, edited.line
    policy = readers.policy(readers.layer(text))
    return Entries(before=before, after=Edited(text=text, line=line), policy=policy, problems=tuple(problems))


def planned_service(file: Path, name: str, environ: Mapping[str, str]) -> tuple[str, Edited | None]:
    """Return the file's text and the text with the service added, None if it names it; raise UserError if it cannot."""
    text = decode_policy(read_policy(file), file=str(file))
    return text, None if named_service(file, name) else add_service(text, name, _readers(file, environ))


def named_service(file: Path, name: str) -> str:
    """Return the place where the file already names the service, empty if it does not."""
    layer = load_layer(LayerFile(name=PROJECT, path=file), services=services_beside(file))
    line = next((line for line, one in enumerate(layer.spec.services) if one.name == name), None)
    return "" if line is None else f"{file}:{layer.origin('services', line).line}"


def planned_options(
    file: Path, service: str, options: Mapping[str, object], environ: Mapping[str, str]
) -> tuple[str, Edited | None]:
    """Return the file's text and the text in which the service has the options; None if it has them already."""
    text = decode_policy(read_policy(file), file=str(file))
    return text, set_service_options(text, service, options, _readers(file, environ))


def planned_values(file: Path, values: Values, environ: Mapping[str, str]) -> tuple[str, Edited | None]:
    """Return the file's text and the text with these settings and entries; None if it has them already."""
    text = decode_policy(read_policy(file), file=str(file))
    return text, merge(text, values, _readers(file, environ))


def write_edit(file: Path, before: str, after: Edited) -> None:
    """Replace the file's text, keeping a byte order mark; raise UserError if the file has changed meanwhile."""
    is_new = before == NEW and not os.path.lexists(file)
    content = NEW.encode() if is_new else read_policy(file)
    mark = MARK if content.startswith(codecs.BOM_UTF8) else ""
    if content != f"{mark}{before}".encode():
        raise UserError([Problem(where=str(file), what="changed in the meantime", hint="try again")])
    # In a project, follow no link below its root: `.devcontainer` may be one, made by anyone who can write there.
    root = project_of(file)
    name = str(file.relative_to(root))
    write_all(root, {name: f"{mark}{after.text}"}, shared=(name,) if is_new else ())


def project_of(file: Path) -> Path:
    """Return the directory of the project with this policy, or the directory of another policy."""
    return file.parent.parent if file.parts[-2:] == POLICY_FILE.parts else file.parent


def _text(file: Path, environ: Mapping[str, str]) -> str:
    user = config_directory(environ)
    if user is not None and file.absolute() == user / LAYER and not os.path.lexists(file):
        return NEW
    return decode_policy(read_policy(file), file=str(file))


def _readers(file: Path, environ: Mapping[str, str]) -> Readers:
    services = services_beside(file)
    own = LayerFile(name=PROJECT, path=file)
    around = [load_layer(layer, services=services) for layer in layers_here(environ, beside=file)]
    layer = partial(parse_layer, name=own.name, file=str(file), shown=own.shown, services=services.names)
    return Readers(file=str(file), layer=layer, policy=lambda layer: compile_policy([*around, layer], services))

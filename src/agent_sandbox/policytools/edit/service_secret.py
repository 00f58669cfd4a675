"""Give a service in the text of a policy file its secret with the smallest change, and verify the result."""

from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.file.service_spec import ServiceSpec
from agent_sandbox.policyfile.text.decoding import decode_policy
from agent_sandbox.policytools.edit.adding_service import SECTION, add_service
from agent_sandbox.policytools.edit.editing import Edited, Readers
from agent_sandbox.policytools.edit.insertion import Insertion, after_line, whole_lines
from agent_sandbox.policytools.edit.outline import Node, Style, outline
from agent_sandbox.problems import Problem, UserError


def set_service_secret(text: str, service: str, option: str, secret: str, read: Readers) -> Edited | None:
    """Return the text in which the service, added if it is missing, has the secret as `option`; None if it has one.

    Raises UserError if the result would not be exactly what was asked for.
    """
    if service not in {one.name for one in read.layer(text).spec.services}:
        text = add_service(text, service, read).text
    before = read.layer(text)
    number, entry = next((at, one) for at, one in enumerate(before.spec.services) if one.name == service)
    if option in (entry.model_extra or {}):
        return None
    change = _insertion(text, number, service, f"{option}: {secret}")
    wanted = ServiceSpec.model_validate({**entry.model_dump(exclude_unset=True), option: secret})
    after = change and _as_asked(change.into(text), number, wanted, before, read)
    if not change or not after:
        what = f"cannot give the service {service} its secret in this file automatically"
        hint = f"write `- {{name: {service}, {option}: {secret}}}` under `{SECTION}` by hand"
        raise UserError([Problem(where=read.file, what=what, hint=hint)])
    return Edited(text=change.into(text), line=after.origin(SECTION, number).line)


def _insertion(text: str, number: int, service: str, piece: str) -> Insertion | None:
    root = outline(text).root
    section = root.section(SECTION) if root else None
    entry: Node | None = section.children[number] if section and number < len(section.children) else None
    if entry is None:
        return None
    if entry.style is Style.WORD:
        whole = f"{{name: {service}, {piece}}}"
        return Insertion(at=entry.start, text=whole, instead_of=entry.end - entry.start)
    last = entry.children[-1].end
    if entry.style is Style.FLOW:
        return Insertion(at=last, text=f", {piece}")
    return whole_lines(text, after_line(text, last), f"{' ' * entry.column}{piece}")


def _as_asked(text: str, number: int, wanted: ServiceSpec, before: Layer, read: Readers) -> Layer | None:
    try:
        after = read.layer(decode_policy(text.encode(), file=read.file))
    except UserError:
        return None
    entries = list(before.spec.services)
    entries[number] = wanted
    return after if dict(after.spec) == dict(before.spec) | {SECTION: tuple(entries)} else None

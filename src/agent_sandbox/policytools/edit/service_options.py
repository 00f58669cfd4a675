"""Set options of a service in the text of a policy file with small changes, and verify the result."""

from collections.abc import Mapping
from typing import Any

from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.file.service_spec import ServiceSpec
from agent_sandbox.policyfile.text.decoding import decode_policy
from agent_sandbox.policytools.edit.editing import SECTION, Edited, Readers, add_service
from agent_sandbox.policytools.edit.flow_style import flow
from agent_sandbox.policytools.edit.insertion import Insertion, after_line, in_flow, whole_lines
from agent_sandbox.policytools.edit.outline import Node, Style, outline
from agent_sandbox.problems import Problem, UserError

# Each step changes one value, of an entry with a handful of options.
MAX_STEPS = 200
# A longer entry is written on several lines.
LONGEST_LINE = 100


def set_service_options(text: str, service: str, options: Mapping[str, object], read: Readers) -> Edited | None:
    """Return the text in which the service, added if it is missing, has these options; None if it has them.

    Its other options and all comments stay. Raises UserError if the result would not be exactly what was asked for.
    """
    given = text
    if service not in {one.name for one in read.layer(text).spec.services}:
        text = add_service(text, service, read).text
    before = read.layer(text)
    number, entry = next((at, one) for at, one in enumerate(before.spec.services) if one.name == service)
    old = entry.model_dump(exclude_unset=True)
    wanted = {**old, **options}
    if wanted == old and text == given:
        return None
    if len(flow(wanted)) > LONGEST_LINE:
        text = _on_lines(text, number)
    changed = _changed(text, number, old, wanted)
    after = changed and _as_asked(changed, number, wanted, before, read)
    if not changed or not after:
        what = f"cannot set the options of the service {service} in this file automatically"
        raise UserError(
            [Problem(where=read.file, what=what, hint=f"write `- {flow(wanted)}` under `{SECTION}` by hand")]
        )
    return Edited(text=changed, line=after.origin(SECTION, number).line)


def _changed(text: str, number: int, old: object, wanted: object) -> str:
    """Return the text after all steps, or an empty text if they do not end."""
    for _ in range(MAX_STEPS):
        if old == wanted:
            return text
        entry = _entry(text, number)
        if entry is None:
            return ""
        change, old = _step(text, entry, old, wanted)
        text = change.into(text)
    return ""


def _entry(text: str, number: int) -> Node | None:
    section = _section(text)
    return section.children[number] if section and number < len(section.children) else None


def _section(text: str) -> Node | None:
    root = outline(text).root
    return root.section(SECTION) if root else None


def _on_lines(text: str, number: int) -> str:
    """Return the text in which an entry that is only a name, in a list by lines, is a mapping by lines."""
    section, entry = _section(text), _entry(text, number)
    if section is None or entry is None or section.style is not Style.BLOCK or entry.style is not Style.WORD:
        return text
    return Insertion(at=entry.start, text="name: ").into(text)


def _step(text: str, node: Node, old: Any, wanted: Any) -> tuple[Insertion, Any]:  # noqa: ANN401 - values of YAML
    """Return one change toward the wanted value, and the value after it."""
    if (
        isinstance(old, dict)
        and isinstance(wanted, dict)
        and node.style is not Style.WORD
        and old.keys() <= wanted.keys()
    ):
        for key, value in wanted.items():
            inner = node.section(key)
            if key not in old:
                return _added(text, node, f"{key}: {flow(value)}", f"{key}: {flow(value)}"), {**old, key: value}
            if old[key] != value and inner:
                change, now = _step(text, inner, old[key], value)
                return change, {**old, key: now}
    if isinstance(old, list) and isinstance(wanted, list) and node.children and len(old) <= len(wanted):
        for at, value in enumerate(wanted):
            if at == len(old):
                return _added(text, node, flow(value), f"- {flow(value)}"), [*old, value]
            if old[at] != value:
                change, now = _step(text, node.children[at], old[at], value)
                return change, [*old[:at], now, *old[at + 1 :]]
    return Insertion(at=node.start, text=flow(wanted), instead_of=node.end - node.start), wanted


def _added(text: str, node: Node, in_brackets: str, on_a_line: str) -> Insertion:
    """Return the insertion of another item or key."""
    if node.style is Style.FLOW:
        return in_flow(text, node, in_brackets)
    return whole_lines(text, after_line(text, node.end), f"{' ' * node.column}{on_a_line}")


def _as_asked(text: str, number: int, wanted: Mapping[str, object], before: Layer, read: Readers) -> Layer | None:
    try:
        after = read.layer(decode_policy(text.encode(), file=read.file))
    except UserError:
        return None
    entries = list(before.spec.services)
    entries[number] = ServiceSpec.model_validate(wanted)
    return after if dict(after.spec) == dict(before.spec) | {SECTION: tuple(entries)} else None

"""Add a service to the text of a policy file with the smallest change, and verify the result."""

from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.file.service_spec import ServiceSpec
from agent_sandbox.policyfile.text.decoding import decode_policy
from agent_sandbox.policytools.edit.editing import Edited, Readers
from agent_sandbox.policytools.edit.insertion import insertion
from agent_sandbox.problems import Problem, UserError

SECTION = "services"


def add_service(text: str, name: str, read: Readers, *, note: str = "") -> Edited:
    """Return the text with the service added, with `note` as a comment.

    Raises UserError if the result would not be exactly what was asked for.
    """
    before = read.layer(text)
    change = insertion(text, SECTION, name, note=note)
    after = change and _as_asked(change.into(text), name, before, read)
    if not change or not after:
        what = f"cannot add the service {name} to this file automatically"
        raise UserError([Problem(where=read.file, what=what, hint=f"add `- {name}` under `{SECTION}` by hand")])
    line = after.origin(SECTION, len(after.spec.services) - 1).line
    return Edited(text=change.into(text), line=line)


def _as_asked(text: str, name: str, before: Layer, read: Readers) -> Layer | None:
    try:
        after = read.layer(decode_policy(text.encode(), file=read.file))
    except UserError:
        return None
    entries = (*before.spec.services, ServiceSpec(name=name))
    return after if dict(after.spec) == dict(before.spec) | {SECTION: entries} else None

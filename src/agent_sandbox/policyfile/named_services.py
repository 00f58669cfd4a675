"""Find the resolved services that a policy names. Every start needs this, so it must be fast."""

from pathlib import Path

from agent_sandbox.policyfile.parse.aliases import service_meant
from agent_sandbox.policyfile.resolved import FOLDER, found_beside, resolved_for
from agent_sandbox.policyfile.text.decoding import decode_policy
from agent_sandbox.policyfile.text.document import parse_document
from agent_sandbox.policyfile.text.reading import read_policy
from agent_sandbox.problems import UserError


def named_in(text: str) -> frozenset[str]:
    """Return the resolved services that the text of a policy names, in any spelling; nothing for an invalid one."""
    try:
        value = parse_document(text, file="").value
    except UserError:
        return frozenset()
    entries = value.get("services") if isinstance(value, dict) else None
    words = [one.get("name") if isinstance(one, dict) else one for one in entries] if isinstance(entries, list) else []
    called = (service_meant(word) or "" for word in words if isinstance(word, str))
    return frozenset(filter(None, map(resolved_for, called)))


def without_file(policy: Path) -> tuple[str, ...]:
    """Return the resolved services that belong to those of the policy and that have no file yet."""
    return tuple(sorted(named_here(policy).difference(found_beside(policy.parent / FOLDER))))


def named_here(policy: Path) -> frozenset[str]:
    """Return the resolved services that a policy file names; nothing for an invalid one, which loading reports."""
    try:
        return named_in(decode_policy(read_policy(policy), file=str(policy)))
    except UserError:
        return frozenset()

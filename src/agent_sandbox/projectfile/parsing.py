"""Parse the text of a project file."""

from collections.abc import Collection, Mapping

from pydantic_core import ErrorDetails

from agent_sandbox.policyfile.parse.checking import WORDS, Describe, unknown_key, validated
from agent_sandbox.policyfile.text.decoding import decode_policy
from agent_sandbox.policyfile.text.document import parse_document
from agent_sandbox.policyfile.text.scalars import plain_or_decimal
from agent_sandbox.projectfile.spec import MODELS, ProjectSpec

# Keys of a section, as people write them at the top.
SECTIONS = {key: section for section in ("limits", "tools") for key in MODELS[section].model_fields}


def _unknown_key(details: ErrorDetails) -> tuple[str, str]:
    what, hint = unknown_key(MODELS)(details)
    key = str(details["loc"][-1])
    return what, f"write `{SECTIONS[key]}: {{{key}: ...}}`" if details["loc"] == (key,) and key in SECTIONS else hint


PROJECT_WORDS: Mapping[str, Describe] = {**WORDS, "extra_forbidden": _unknown_key}


def parse_project_file(text: str, *, file: str, agents: Collection[str] | None = None) -> ProjectSpec:
    """Return the project file, or raise UserError with every problem; `agents` are the known names, if they count."""
    decoded = decode_policy(text.encode("utf-8", "surrogateescape"), file=file)
    document = parse_document(decoded, file=file, plain=plain_or_decimal)
    return validated(document, file=file, model=ProjectSpec, context={"agents": agents}, words=PROJECT_WORDS)

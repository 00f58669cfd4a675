"""Parse the text of a project file."""

from collections.abc import Collection, Mapping

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from agent_sandbox.policy.text import safe_repr
from agent_sandbox.policyfile.parse.checking import WORDS, Describe, nearest, unknown_key, validated
from agent_sandbox.policyfile.text.decoding import decode_policy
from agent_sandbox.policyfile.text.document import parse_document
from agent_sandbox.policyfile.text.scalars import plain_or_decimal
from agent_sandbox.projectfile.beside import NOT_HERE, BesideSpec, BuildSpec, HealthcheckSpec
from agent_sandbox.projectfile.spec import MODELS, ProjectSpec
from agent_sandbox.stack.engine import BUILD_KEY

# Keys of a section, as people write them at the top.
SECTIONS = {key: section for section in ("limits", "tools") for key in MODELS[section].model_fields}


# The models of a service, by the key below its name.
OF_A_SERVICE: Mapping[str, type[BaseModel]] = {"": BesideSpec, "build": BuildSpec, "healthcheck": HealthcheckSpec}


def _unknown_key(details: ErrorDetails) -> tuple[str, str]:
    match details["loc"]:
        case ("beside", _, *within, str() as key):
            fields = OF_A_SERVICE[str(within[0]) if within else ""].model_fields
            known = [field.alias or name for name, field in fields.items()]
            return f"unknown key {safe_repr(key)}", NOT_HERE.get(key) or nearest(key, known)
    what, hint = unknown_key(MODELS)(details)
    key = str(details["loc"][-1])
    return what, f"write `{SECTIONS[key]}: {{{key}: ...}}`" if details["loc"] == (key,) and key in SECTIONS else hint


def _not_mapping(details: ErrorDetails) -> tuple[str, str]:
    what, hint = WORDS["model_type"](details)
    return what, f"write `build: {{{BUILD_KEY}: NAME}}`" if details["loc"][-1:] == ("build",) else hint


PROJECT_WORDS: Mapping[str, Describe] = {**WORDS, "extra_forbidden": _unknown_key, "model_type": _not_mapping}


def parse_project_file(text: str, *, file: str, agents: Collection[str] | None = None) -> ProjectSpec:
    """Return the project file, or raise UserError with every problem; `agents` are the known names, if they count."""
    decoded = decode_policy(text.encode("utf-8", "surrogateescape"), file=file)
    document = parse_document(decoded, file=file, plain=plain_or_decimal)
    return validated(document, file=file, model=ProjectSpec, context={"agents": agents}, words=PROJECT_WORDS)

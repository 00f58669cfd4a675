"""The JSON Schema of a policy file, for editors, derived from the model that validates the file.

What a schema cannot express (a canonical path, a public host) is left to `policy check`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from agent_sandbox.policy.file.entry_spec import DenyEntrySpec, DenyRuleSpec, DomainSpec, EntrySpec, RuleSpec
from agent_sandbox.policy.file.service_spec import ServiceSpec
from agent_sandbox.policy.file.spec import PolicySpec
from agent_sandbox.policy.http.method import NAMEABLE
from agent_sandbox.policy.http.request import DEFAULT_PORTS

DIALECT = "https://json-schema.org/draft/2020-12/schema"
TEXT: dict[str, Any] = {"type": "string"}
REQUEST: dict[str, Any] = {"type": "string", "pattern": r"^\S+ +https?://"}
# The short form of an entry, by section, and the model of the long form.
SHORT: Mapping[str, tuple[dict[str, Any], str]] = {
    "services": (TEXT, ServiceSpec.__name__),
    "domains": (TEXT, DomainSpec.__name__),
    "allow": (REQUEST, ""),
    "deny": (TEXT, DenyEntrySpec.__name__),
}
# Singular keys of older files, in any case; a rule has one of the two.
OLDER: Mapping[str, tuple[str, Iterable[str]]] = {
    "method": ("methods", sorted(NAMEABLE)),
    "scheme": ("schemes", sorted(DEFAULT_PORTS)),
}
NULL: dict[str, Any] = {"type": "null"}


def policy_schema(services: Iterable[str] = ()) -> dict[str, Any]:
    """Return the schema; if `services` is given, an editor can complete their names."""
    made = PolicySpec.model_json_schema()
    definitions = made.pop("$defs")
    models = {name: tidy(definitions[name], definitions) for name in sorted(definitions) if name.endswith("Spec")}
    for name in (RuleSpec.__name__, DenyRuleSpec.__name__):
        models[name]["properties"] |= {older: _older(several, words) for older, (several, words) in OLDER.items()}
        models[name]["not"] = {"anyOf": [{"required": [older, several]} for older, (several, _) in OLDER.items()]}
    del models[EntrySpec.__name__]  # entries of `allow` have only the short form
    schema = tidy(made, definitions)
    names = sorted(services)
    for section, (short, long) in SHORT.items():
        entry = [{**short, "enum": names}] if section == "services" and names else [short]
        entry += [{"$ref": f"#/$defs/{long}"}] if long else []
        schema["properties"][section]["items"] = {"anyOf": entry} if len(entry) > 1 else entry[0]
    for section, asked in schema["properties"].items():
        if asked.get("type") in {"array", "object"}:
            # A section with only comments is null to YAML.
            schema["properties"][section] = {"anyOf": [asked, NULL]}
    if names:
        models[ServiceSpec.__name__]["properties"]["name"]["enum"] = names
    return {"$schema": DIALECT, "title": "agent-sandbox: policy.yaml", **schema, "$defs": models}


def _older(several: str, words: Iterable[str]) -> dict[str, Any]:
    in_any_case = "|".join("".join(f"[{letter.upper()}{letter.lower()}]" for letter in word) for word in words)
    return {"type": "string", "pattern": f"^({in_any_case})$", "deprecated": True, "description": f"write `{several}`"}


def tidy(node: Any, definitions: Mapping[str, Any]) -> Any:  # noqa: ANN401 - whatever a schema holds
    """Return the schema with aliases resolved, without titles, defaults and the `null` of optional values."""
    if isinstance(node, list):
        return [tidy(part, definitions) for part in node]
    if not isinstance(node, dict):
        return node
    alias = str(node.get("$ref", "")).rpartition("/")[2]
    if alias and not alias.endswith("Spec"):
        return tidy({**definitions[alias], **{key: value for key, value in node.items() if key != "$ref"}}, definitions)
    made = {
        key: tidy(value, definitions) for key, value in node.items() if key not in {"title", "default", "properties"}
    }
    if "properties" in node:
        made["properties"] = {name: tidy(part, definitions) for name, part in node["properties"].items()}
    if NULL not in made.get("anyOf", ()):
        return made
    others = [part for part in made.pop("anyOf") if part != NULL]
    return {**made, **(others[0] if len(others) == 1 else {"anyOf": others})}

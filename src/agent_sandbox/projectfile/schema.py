"""The JSON Schema of a project file, for editors, derived from the model that validates the file."""

from collections.abc import Iterable
from typing import Any

from agent_sandbox.policy.file.schema import DIALECT, NULL, tidy
from agent_sandbox.projectfile.spec import ProjectSpec


def project_schema(agents: Iterable[str] = ()) -> dict[str, Any]:
    """Return the schema; if `agents` is given, an editor can complete their names."""
    made = ProjectSpec.model_json_schema()
    definitions = made.pop("$defs")
    models = {name: tidy(definitions[name], definitions) for name in sorted(definitions) if name.endswith("Spec")}
    schema = tidy(made, definitions)
    if names := sorted(agents):
        schema["properties"]["agents"]["items"]["enum"] = names
    for section, asked in schema["properties"].items():
        if asked.get("type") in {"array", "object"} or "$ref" in asked:
            # A section with only comments is null to YAML.
            schema["properties"][section] = {"anyOf": [asked, NULL]}
    return {"$schema": DIALECT, "title": "agent-sandbox: sandbox.yaml", **schema, "$defs": models}

"""The services of the catalogue that take an API key."""

from collections.abc import Mapping
from pathlib import Path

from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.file.service_options import Auth
from agent_sandbox.policyfile import services_beside

type Keyed = Mapping[str, tuple[str, Auth]]


def keyed_services(policy: Path) -> Keyed:
    """Return the services with a key that this policy file can name: the option for it, and how it is sent."""
    return {
        name: (option, auth)
        for name, layer in services_beside(policy).items()
        for option, auth in layer.spec.declared.items()
        if isinstance(auth, Auth) and auth.env
    }


def named_secret(layer: Layer, service: str, option: str) -> str:
    """Return the name of the secret that the policy gives the service already, or an empty string."""
    given = next((one.model_extra or {} for one in layer.spec.services if one.name == service), {}).get(option, "")
    return str(given.get("name", "")) if isinstance(given, dict) else str(given)

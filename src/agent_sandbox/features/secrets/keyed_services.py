"""The services of the catalogue that take an API key."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.file.service_options import Auth
from agent_sandbox.policyfile import services_beside

type Keyed = Mapping[str, tuple[str, Auth]]


def keyed_services(policy: Path) -> Keyed:
    """Return the services with a key that this policy file can name: the option for it, and how it is sent."""
    return {name: (option, auth) for name, option, auth in _auths(policy) if auth.env}


def known_tests(policy: Path) -> dict[str, tuple[str, str]]:
    """Return the harmless requests of services, as host and path: by the secret's name for logins, by host for keys."""
    found = [(f"{name}.{option}", auth) for name, option, auth in _auths(policy) if auth.test]
    by_host = {auth.host: (auth.host, auth.test) for _, auth in found if auth.env}
    return by_host | {name: (auth.host, auth.test) for name, auth in found if not auth.env}


def _auths(policy: Path) -> Iterator[tuple[str, str, Auth]]:
    for name, layer in services_beside(policy).items():
        for option, auth in layer.spec.declared.items():
            if isinstance(auth, Auth):
                yield name, option, auth


def named_secret(layer: Layer, service: str, option: str) -> str:
    """Return the name of the secret that the policy gives the service already, or an empty string."""
    given = next((one.model_extra or {} for one in layer.spec.services if one.name == service), {}).get(option, "")
    return str(given.get("name", "")) if isinstance(given, dict) else str(given)

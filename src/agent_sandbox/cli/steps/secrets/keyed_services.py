"""The services of the catalogue that take an API key."""

from collections.abc import Mapping
from pathlib import Path

from agent_sandbox.policy.file.service_options import Auth
from agent_sandbox.policyfile import services_beside

type Keyed = Mapping[str, tuple[str, Auth]]


def keyed_services(policy: Path) -> Keyed:
    """Return the services with a key that this policy file can name: the option for it, and how it is sent."""
    return {
        name: (option, auth)
        for name, layer in services_beside(policy).items()
        for option, auth in layer.spec.declared.items()
        if isinstance(auth, Auth)
    }

"""Load a project's policy with this machine's layers: the user's and the organisation's."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agent_sandbox.host.user_dirs import layer_folders, private_cache
from agent_sandbox.policyfile import LayerFile, layer_beside, services_beside
from agent_sandbox.policyfile.cache_dir import CacheDir
from agent_sandbox.policyfile.cached import load_cached, load_named, load_offers, require_valid
from agent_sandbox.policyfile.layer_file import PROJECT as NAME
from agent_sandbox.policyfile.resolved import FOLDER, RESOLVED, found_beside

if TYPE_CHECKING:
    from agent_sandbox.policy.engine.policy import Policy
    from agent_sandbox.policy.http.request import Request
    from agent_sandbox.policytools.explain.remedy import Choice

FILE = "policy.yaml"


def load_here(policy: Path, environ: Mapping[str, str], *, mounted: Collection[str] | None = None) -> "Policy":
    """Load a policy with this machine's layers; raise UserError with the problems of all of them.

    With `mounted`, leave out those in other directories.
    """
    layers = layers_here(environ, beside=policy)
    if mounted is not None:
        layers = tuple(layer for layer in layers if str(layer.path.parent.resolve()) in mounted)
    return load_cached(policy, layers=layers, cache_dir=_cache_dir(environ))


def require_here(policy: Path, environ: Mapping[str, str]) -> None:
    """Raise UserError as `load_here` does, faster for a cached policy."""
    require_valid(policy, layers=layers_here(environ, beside=policy), cache_dir=_cache_dir(environ))


def offers_here(policy: Path, environ: Mapping[str, str]) -> Mapping[str, "Policy"]:
    """Return what each available service allows by itself; raise UserError in the same way."""
    return load_offers(policy, cache_dir=_cache_dir(environ))


def unresolved_here(policy: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the services that a valid policy names and that allow nothing until they are resolved."""
    named = load_named(policy, cache_dir=_cache_dir(environ)).difference(found_beside(policy.parent / FOLDER))
    return tuple(name for name in RESOLVED if name in named)


def choices_here(policy: Path, request: "Request", offers: Mapping[str, "Policy"]) -> Iterator["Choice"]:
    """Yield the service options that would allow the request."""
    from agent_sandbox.policyfile import load_layer  # noqa: PLC0415 - what is allowed needs no parser
    from agent_sandbox.policytools.explain.service_choice import chosen_for  # noqa: PLC0415 - as said

    services = services_beside(policy)
    speaking = {name: services[name] for name, offer in offers.items() if offer.index.rules_for(request.host)}
    having = {name: service for name, service in speaking.items() if service.spec.declared}
    if having:
        yield from chosen_for(request, load_layer(LayerFile(name=NAME, path=policy), services=services), having)


def company_ca(environ: Mapping[str, str]) -> Path | None:
    """Return the file of CAs that the organisation's policy, or else the user's, trusts for requests.

    A project's file is not for builds: the projects of a machine share images.
    """
    for folder in reversed(layer_folders(environ).values()):
        said = load_cached(folder / FILE, cache_dir=_cache_dir(environ)) if (folder / FILE).exists() else None
        if said and (upstream := said.settings.upstream):
            return folder / upstream.ca.file if upstream.ca else None
    return None


def _cache_dir(environ: Mapping[str, str]) -> CacheDir | None:
    folder = private_cache(environ)
    return CacheDir(folder=folder / "policies") if folder else None


def is_layer(file: Path, environ: Mapping[str, str]) -> bool:
    """Return whether a policy file is the user's or the organisation's layer."""
    return file.absolute() in {folder / FILE for folder in layer_folders(environ).values()}


def layers_here(environ: Mapping[str, str], *, beside: Path) -> tuple[LayerFile, ...]:
    """Return the existing layers, lowest first, except `beside`, which may be one of them."""
    every = (layer_beside(name, folder / FILE) for name, folder in layer_folders(environ).items())
    return tuple(layer for layer in every if layer.is_there and layer.path != beside.absolute())

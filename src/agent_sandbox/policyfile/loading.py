"""Load policy files from disk into a compiled policy."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from agent_sandbox.policy.compiler.compile import compile_policy
from agent_sandbox.policy.compiler.layer import Layer, Location
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.file.service_spec import ServiceSpec
from agent_sandbox.policy.match.upstream import Authorities
from agent_sandbox.policyfile.catalogue import Catalogue, services_beside
from agent_sandbox.policyfile.gc_pause import collector_paused
from agent_sandbox.policyfile.host_lists import load_host_list
from agent_sandbox.policyfile.layer_file import PROJECT, LayerFile
from agent_sandbox.policyfile.parse.parsing import parse_layer
from agent_sandbox.policyfile.resolved import resolved_for
from agent_sandbox.policyfile.text.decoding import decode_policy
from agent_sandbox.policyfile.text.document import parse_document
from agent_sandbox.policyfile.text.reading import MIB, Read, read_policy
from agent_sandbox.problems import Problem, UserError

HINT = "it has to contain only CA certificates as PEM: `-----BEGIN CERTIFICATE-----`"
BEGUN = re.compile(r"-----BEGIN ([^\r\n]*?)-----")
# Text before and between certificates is common, and ignored.
WHOLE = re.compile(r"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----")


def load_policy(path: Path, *, layers: Sequence[LayerFile] = (), read: Read = read_policy) -> Policy:
    """Return the policy of the file, the services that it names, and the existing `layers`, lowest first.

    Raise UserError with every problem in any of the files.
    """
    services = services_beside(path, read=read)
    present = [layer for layer in layers if layer.is_there]
    with collector_paused():
        return compile_policy(_load_all([*present, LayerFile(name=PROJECT, path=path)], services, read), services)


def _load_all(files: Iterable[LayerFile], services: Catalogue, read: Read) -> list[Layer]:
    layers: list[Layer] = []
    problems: list[Problem] = []
    for file in files:
        try:
            layers.append(load_layer(file, services=services, read=read))
        except UserError as error:
            problems += error.problems
    if problems:
        raise UserError(problems)
    return layers


def load_layer(file: LayerFile, *, services: Catalogue, read: Read = read_policy) -> Layer:
    """Return the layer of one file. Problems name its path; origins use `shown`."""
    where = str(file.path)
    text = decode_policy(read(file.path), file=where)
    known = services if file.name == PROJECT else services.shipped
    layer = parse_layer(text, name=file.name, file=where, shown=file.shown, services=known, tighten=file.tighten)
    layer = _with_mirrors(layer, known)
    return with_files_beside(layer, file.path, text=text, where=where, read=read)


def _with_mirrors(layer: Layer, services: Catalogue) -> Layer:
    """Return the layer with the mirrors that are resolved for its services."""
    named = [service.name for service in layer.spec.services]
    more = tuple(ServiceSpec(name=mirror) for name in named if (mirror := resolved_for(name)) in services.found)
    more = tuple(service for service in more if service.name not in named)
    if not more:
        return layer
    return replace(layer, spec=layer.spec.model_copy(update={"services": (*layer.spec.services, *more)}))


def with_files_beside(layer: Layer, path: Path, *, text: str, where: str, read: Read = read_policy) -> Layer:
    """Return the layer with the content of the host list and the CA file that it names, in the directory of `path`.

    A missing file is reported as a problem in `text`, whose file name in messages is `where`.
    """
    hosts, upstream = layer.spec.domains_file, layer.spec.settings.upstream
    named: dict[Location, str | None] = {
        ("domains_file",): hosts,
        ("settings", "upstream", "ca"): upstream.ca if upstream else None,
    }
    missing = {key: name for key, name in named.items() if name and not _is_there(path.with_name(name))}
    if missing:
        raise UserError(_not_beside(missing, text, where))
    listed = load_host_list(path.with_name(hosts), read=read) if hosts else None
    authorities = load_authorities(path.with_name(upstream.ca), read=read) if upstream and upstream.ca else None
    return replace(layer, listed=listed, authorities=authorities) if listed or authorities else layer


def _is_there(path: Path) -> bool:
    # A broken link counts as existing: reading it reports the problem.
    return path.exists(follow_symlinks=False)


def _not_beside(missing: Mapping[Location, str], text: str, where: str) -> Iterator[Problem]:
    keys = parse_document(text, file=where).keys
    for key in sorted(missing, key=lambda key: (keys[key].line, keys[key].column)):
        place = keys[key]
        what = f"`{key[-1]}` names `{missing[key]}`, which is not in the directory of this file"
        yield Problem(where=f"{where}:{place.line}:{place.column}", what=what, hint="add the file, or correct the name")


def load_authorities(path: Path, *, read: Read = read_policy) -> Authorities:
    """Return the CA certificates in a file, or raise UserError with why they are rejected."""
    content = read(path, limit=MIB)
    text = content.decode("ascii", "replace")
    begun, whole = BEGUN.findall(text), WHOLE.findall(text)
    if any("KEY" in kind for kind in begun):
        raise _invalid(path, "contains a private key", "remove the key, and replace it if anyone else could read it")
    if set(begun) != {"CERTIFICATE"}:
        raise _invalid(path, "not a file of certificates", HINT)
    pem = "\n".join(whole)
    if len(begun) != len(whole) or (all_of_authorities := _are_authorities(pem)) is None:
        raise _invalid(path, "contains an invalid certificate", HINT)
    if not all_of_authorities:
        hint = "use the certificate of the CA that signs, not that of one server"
        raise _invalid(path, "contains a certificate that is not of a CA", hint)
    return Authorities(name=f"{path.name} (sha256 {hashlib.sha256(content).hexdigest()})", pem=pem)


def _are_authorities(pem: str) -> bool | None:
    import ssl  # noqa: PLC0415 - 30 ms to import, and few policies name a file of certificates

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=pem)
    except ssl.SSLError:
        return None
    found = context.cert_store_stats()
    return found["x509"] == found["x509_ca"]


def _invalid(path: Path, what: str, hint: str) -> UserError:
    return UserError([Problem(where=str(path), what=what, hint=hint)])

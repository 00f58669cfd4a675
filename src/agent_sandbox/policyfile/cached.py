"""Load a policy from the policy cache if no input file has changed, otherwise from its files."""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from agent_sandbox.bounded_json import read_json
from agent_sandbox.policyfile.cache_dir import CacheDir
from agent_sandbox.policyfile.catalogue import services_beside
from agent_sandbox.policyfile.gc_pause import collector_paused
from agent_sandbox.policyfile.host_lists import MAX_BYTES as MAX_LIST
from agent_sandbox.policyfile.host_lists import load_host_list
from agent_sandbox.policyfile.layer_file import PROJECT, LayerFile
from agent_sandbox.policyfile.text.decoding import decode_policy as decode_text
from agent_sandbox.policyfile.text.reading import Read, Reader, Source, read_policy
from agent_sandbox.problems import UserError
from agent_sandbox.resources import PACKAGE, data_root

if TYPE_CHECKING:
    from agent_sandbox.policy.compiler.codec import Lists
    from agent_sandbox.policy.engine.policy import Policy

ENGINE = ("policy", "policyfile")


def load_cached(path: Path, *, layers: Sequence[LayerFile] = (), cache_dir: CacheDir | None) -> "Policy":
    """Return what `load_policy` returns, faster if it is cached; raise UserError with every problem."""

    def read(form: Any, lists: "Lists") -> "Policy":  # noqa: ANN401 - as it was stored
        policy: Policy = _codec().decode_policy(form, lists)
        return policy

    return _load_policy(path, layers, cache_dir, read)


def require_valid(path: Path, *, layers: Sequence[LayerFile] = (), cache_dir: CacheDir | None) -> None:
    """Raise UserError with every problem, as `load_cached` does. A cached policy is valid, and is not decoded."""
    _load_policy(path, layers, cache_dir, lambda _form, _lists: None)


def _load_policy[T](
    path: Path,
    layers: Sequence[LayerFile],
    cache_dir: CacheDir | None,
    read: Callable[[Any, "Lists"], T],
) -> "Policy | T":
    present = tuple(layer for layer in layers if layer.is_there)
    files = (*present, LayerFile(name=PROJECT, path=path))

    def load(read: Read) -> "Policy":
        from agent_sandbox.policyfile.loading import load_policy  # noqa: PLC0415 - not needed for a cached policy

        return load_policy(path, layers=present, read=read)

    # A service that is resolved later is not among the files that were read.
    resolved = services_beside(path).found
    key = ["policy", *resolved, *(f"{file.name} {file.tighten} {file.path.absolute()}" for file in files)]
    return _load(cache_dir, key, [str(file.path.absolute()) for file in files], load, _encoded, read)


def _codec() -> ModuleType:
    from agent_sandbox.policy.compiler import codec  # noqa: PLC0415 - the policy engine, not needed to check a policy

    return codec


def _encoded(policy: "Policy") -> Any:  # noqa: ANN401 - what JSON can hold
    return _codec().encode_policy(policy)


def load_offers(path: Path, *, cache_dir: CacheDir | None) -> Mapping[str, "Policy"]:
    """Return for each service that this policy can name what it allows by itself, cached in the same way."""

    def load(read: Read) -> Mapping[str, "Policy"]:
        from agent_sandbox.policy.compiler.compile import offered  # noqa: PLC0415 - as above

        return offered(services_beside(path, read=read))

    def write(offers: Mapping[str, "Policy"]) -> dict[str, Any]:
        return {name: _encoded(offer) for name, offer in offers.items()}

    def read(form: Mapping[str, Any], lists: "Lists") -> Mapping[str, "Policy"]:
        decode_policy = _codec().decode_policy
        return {name: decode_policy(offer, lists) for name, offer in form.items()}

    key = ["offers", str(path.absolute().parent), *services_beside(path).names, *services_beside(path).found]
    return _load(cache_dir, key, [], load, write, read)


def load_named(path: Path, *, cache_dir: CacheDir | None) -> frozenset[str]:
    """Return the resolved services that a valid policy file names, cached in the same way."""

    def load(read: Read) -> frozenset[str]:
        from agent_sandbox.policyfile.named_services import named_in  # noqa: PLC0415 - as above

        return named_in(decode_text(read(path), file=str(path)))

    file = str(path.absolute())
    return _load(cache_dir, ["named", file], [file], load, sorted, lambda names, _: frozenset(names))


def _load[M, T](  # noqa: PLR0913, PLR0917 - what is cached, and how
    cache_dir: CacheDir | None,
    key: Sequence[str],
    wanted: Sequence[str],
    load: Callable[[Read], M],
    write: Callable[[M], Any],
    read: Callable[[Any, "Lists"], T],
) -> M | T:
    if cache_dir is None:
        return load(read_policy)
    name = _name(key)
    found = cache_dir.get(name)
    if found is not None:
        try:
            return _read(found, wanted, read)
        except (_ChangedError, UserError, LookupError, TypeError, ValueError):
            pass  # stale or damaged: load it again
    reader = Reader()
    made = load(reader.read)
    try:
        stored = {"sources": to_builtins(reader.sources), "form": write(made)}
    except _codec().NotEncodableError:
        return made
    cache_dir.put(name, json.dumps(stored, separators=(",", ":")).encode())
    return made


class _ChangedError(Exception):
    """An input file has changed."""


def _read[T](content: bytes, wanted: Sequence[str], read: Callable[[Any, "Lists"], T]) -> T:
    stored = read_json(content)
    sources = [Source(**one) for one in stored["sources"]]
    # Without this check, a layer file that vanished before it was read would be missing from the policy.
    if not {*wanted} <= {source.path for source in sources} or not all(source.is_unchanged for source in sources):
        raise _ChangedError
    # String hashes differ from run to run, and host lists are indexed by them: they are read each time.
    lists = [load_host_list(Path(source.path)) for source in sources if source.limit == MAX_LIST]
    with collector_paused():
        return read(stored["form"], {listed.name: listed for listed in lists})


def _name(key: Sequence[str]) -> str:
    """Return the file name for a key, with this version of the program and of Python."""
    return _hashed([_program(), str(data_root()), *key])


@cache
def _program() -> str:
    """Return a digest of the policy engine's source, of all installed packages, and of the Python version."""
    # The content and not the times: an image can be unpacked with all times set to zero.
    digest = hashlib.sha256(_hashed([sys.version, *_installed()]).encode())
    for name in sorted(name for part in ENGINE for name in _sources(part)):
        with open(f"{PACKAGE}/{name}", "rb", buffering=0) as file:  # noqa: PTH123 - a hundred files at each start
            content = file.read()
        digest.update(f"{name}\n{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()


def _sources(folder: str) -> Iterator[str]:
    """Yield the path, below the package, of every source and data file in this folder of the policy engine."""
    with os.scandir(f"{PACKAGE}/{folder}") as entries:
        for entry in entries:
            if entry.name.endswith((".py", ".yaml")):
                yield f"{folder}/{entry.name}"
            elif entry.name != "__pycache__" and entry.is_dir():
                yield from _sources(f"{folder}/{entry.name}")


def _installed() -> list[str]:
    """Return the names and versions of the installed packages."""
    found: set[str] = set()
    for folder in sys.path:
        with suppress(OSError), os.scandir(folder or ".") as entries:  # missing or unreadable
            found.update(entry.name for entry in entries if entry.name.endswith("-info"))
    return sorted(found)


def _hashed(parts: Sequence[str]) -> str:
    """Return a hash of the parts, each with its length, so that different lists never collide."""
    return hashlib.sha256(
        "".join(f"{len(part)}:{part}" for part in parts).encode("utf-8", "surrogateescape")
    ).hexdigest()

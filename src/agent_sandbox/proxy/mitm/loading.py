"""Import mitmproxy when a connection first needs it. Clients that speak HTTP/1.1 do not.

An import may fail for a reason that passes: no memory, or too many open files. Python can import all of these modules
again, also the compiled ones, if none is left of the failed try. One that is left would mix the classes of two tries,
and our classes would replace those of a module that nothing uses.
"""

import asyncio
import importlib
import logging
import sys
import time
from collections.abc import Callable, Sequence
from threading import Lock, get_ident
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from agent_sandbox.proxy.mitm.session import Session

RETRY_SECONDS = 10.0
AGAIN = (
    f"try again in {RETRY_SECONDS:.0f} seconds; if it fails again, restart the sandbox: "
    "agent-sandbox down, then agent-sandbox up"
)


async def load_session() -> "type[Session] | str":
    """Return the session that runs mitmproxy's layers, or why they cannot be imported."""
    return await LOADER.load()


class Loader:
    """Imports what `session` imports, once. If that fails, it tries again for a client that comes later."""

    def __init__(self, session: "Callable[[], type[Session]]", clock: Callable[[], float]) -> None:
        self._import = session
        self._clock = clock
        self._lock = Lock()
        self._session: type[Session] | None = None
        self._why = ""
        self._next = float("-inf")

    async def load(self) -> "type[Session] | str":
        """Return the session, or why it cannot be imported. The import runs in a thread: it takes 0.3 s."""
        if self._is_due:
            await asyncio.to_thread(self._load)
        return self._session or self._why

    @property
    def _is_due(self) -> bool:
        return self._session is None and self._clock() >= self._next

    def _load(self) -> None:
        with self._lock:  # several clients may be the first
            if self._is_due:
                self._try()

    def _try(self) -> None:
        imports = Imports(get_ident())
        self._why = f"mitmproxy cannot be imported; {AGAIN}"
        # A new list each time: another thread that imports meanwhile goes through the old one, and would miss an entry.
        sys.meta_path = [imports, *sys.meta_path]
        try:
            self._session = self._import()
        except Exception as error:
            logging.getLogger(__name__).exception("mitmproxy cannot be imported")
            self._why = f"mitmproxy cannot be imported ({error}); {AGAIN}"
        finally:
            sys.meta_path = [one for one in sys.meta_path if one is not imports]
            if self._session is None:
                imports.forget()
                self._next = self._clock() + RETRY_SECONDS


class Imports:
    """The modules that one thread begins to import, as a finder that finds none. Others may import meanwhile."""

    def __init__(self, thread: int) -> None:
        self._thread = thread
        self._before = {*sys.modules}
        self._names: set[str] = set()

    def find_spec(self, name: str, path: Sequence[str] | None, target: "ModuleType | None" = None) -> None:  # noqa: ARG002 - as Python calls it
        """Note the name."""
        if get_ident() == self._thread and name.partition(".")[0] not in sys.stdlib_module_names:
            self._names.add(name)

    def forget(self) -> None:
        """Remove these modules, also from their packages, where `from package import module` would find them."""
        below = tuple(f"{name}." for name in self._names)  # compiled modules add such themselves
        added = {*sys.modules} - self._before
        for name in self._names.union(one for one in added if one.startswith(below)):
            sys.modules.pop(name, None)
            package, _, module = name.rpartition(".")
            if package in sys.modules:
                vars(sys.modules[package]).pop(module, None)
        importlib.invalidate_caches()  # a directory that could not be read counts as empty


def _session() -> "type[Session]":
    from agent_sandbox.proxy.mitm import bulk_tls, http1_client, http2_client  # noqa: PLC0415 - see above
    from agent_sandbox.proxy.mitm.session import Session  # noqa: PLC0415 - see above

    for module in (bulk_tls, http1_client, http2_client):
        module.install()
    return Session


LOADER = Loader(_session, time.monotonic)

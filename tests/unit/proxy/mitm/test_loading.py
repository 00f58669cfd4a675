import asyncio
import subprocess
import sys
from threading import Event, Thread, get_ident
from types import ModuleType

import pytest
from mitmproxy.proxy.layers import http, tls

from agent_sandbox.proxy.import_stubs import STUBBED
from agent_sandbox.proxy.mitm.bulk_tls import BulkServerTls
from agent_sandbox.proxy.mitm.http1_client import StrictHttp1Client
from agent_sandbox.proxy.mitm.http2_client import StrictHttp2Client
from agent_sandbox.proxy.mitm.loading import AGAIN, RETRY_SECONDS, Imports, Loader, _session, load_session
from agent_sandbox.proxy.mitm.session import Session
from imports import brought_along

# Each of these modules fails in one try, before or after it has run.
FAILS_OFTEN = """
import asyncio, sys
from importlib.machinery import ExtensionFileLoader, SourceFileLoader
import agent_sandbox.proxy.run
from agent_sandbox.proxy.lane import choice
from agent_sandbox.proxy.mitm import loading

failing = [
    ("mitmproxy_rs.mitmproxy_rs", True),
    ("wsproto.utilities", False),
    ("agent_sandbox.proxy.wire.hpack", True),
    ("agent_sandbox.proxy.mitm.http2_client", True),
    ("agent_sandbox.proxy.mitm.session", True),
]

for kind in (SourceFileLoader, ExtensionFileLoader):
    def run(self, module, real=kind.exec_module):
        name, runs = failing[0] if failing else ("", False)
        if module.__name__ != name or runs:
            real(self, module)
        if module.__name__ == name:
            failing.pop(0)
            raise MemoryError
    kind.exec_module = run

before, now = {*sys.modules}, [0.0]
loader = loading.Loader(loading._session, lambda: now[0])
def load():
    return asyncio.run(loader.load())
while failing:
    assert load().startswith("mitmproxy cannot be imported ();"), failing
    left = [name for name in {*sys.modules} - before if name.partition(".")[0] not in sys.stdlib_module_names]
    assert not left, left
    assert before <= {*sys.modules}
    now[0] += loading.RETRY_SECONDS
session = load()
from mitmproxy.proxy.layers import http, tls
from agent_sandbox.proxy.mitm import bulk_tls, http1_client, http2_client
assert session is sys.modules["agent_sandbox.proxy.mitm.session"].Session
assert http.Http1Client is http1_client.StrictHttp1Client
assert http.Http2Client is http2_client.StrictHttp2Client
assert tls.ServerTLSLayer is bulk_tls.BulkServerTls
assert bulk_tls.tls is tls
"""


def test_starting_the_proxy_imports_only_stubs_of_mitmproxy() -> None:
    modules = brought_along("import agent_sandbox.proxy.run, agent_sandbox.proxy.lane.choice")
    assert {name for name in modules if name.startswith("mitmproxy")} == {*STUBBED}


async def test_loading_the_session_installs_our_classes_in_mitmproxys_layers() -> None:
    loader = Loader(_session, lambda: 0.0)
    first, second, third = await asyncio.gather(loader.load(), loader.load(), load_session())
    assert first is second is third is Session
    assert (vars(http)["Http1Client"], vars(http)["Http2Client"]) == (StrictHttp1Client, StrictHttp2Client)
    assert tls.ServerTLSLayer is BulkServerTls


async def test_a_connection_that_ends_during_the_import_does_not_cancel_the_import() -> None:
    loader = Loader(_session, lambda: 0.0)
    first = asyncio.create_task(loader.load())
    await asyncio.sleep(0)
    first.cancel()
    assert await loader.load() is Session
    assert (await asyncio.gather(first, return_exceptions=True))[0].__class__ is asyncio.CancelledError


async def test_retries_a_failed_import_after_a_delay(caplog: pytest.LogCaptureFixture) -> None:
    tries, now, finders = [], [0.0], [*sys.meta_path]

    def import_at_last() -> type[Session]:
        tries.append(now[0])
        if len(tries) < 3:
            raise OSError(24, "Too many open files")
        return Session

    loader = Loader(import_at_last, lambda: now[0])
    why = f"mitmproxy cannot be imported ([Errno 24] Too many open files); {AGAIN}"
    answers = await asyncio.gather(loader.load(), loader.load(), loader.load())
    assert ({*answers}, tries, len(caplog.records)) == ({why}, [0.0], 1)
    now[0] = RETRY_SECONDS - 0.1
    assert (await loader.load(), tries) == (why, [0.0])
    now[0] = RETRY_SECONDS
    assert (await loader.load(), tries) == (why, [0.0, RETRY_SECONDS])
    now[0] = 2 * RETRY_SECONDS
    assert [await loader.load() for _ in range(2)] == [Session] * 2
    assert (len(tries), sys.meta_path) == (3, finders)


async def test_two_clients_at_once_import_once() -> None:
    begun, may_end, imports = Event(), Event(), []

    def session() -> type[Session]:
        imports.append(1)
        begun.set()
        assert may_end.wait(30)
        return Session

    loader = Loader(session, lambda: 0.0)
    first = asyncio.create_task(loader.load())
    await asyncio.to_thread(begun.wait, 10)
    second = asyncio.create_task(loader.load())
    await asyncio.sleep(0)  # the second one starts, and finds no session
    may_end.set()
    assert (await first, await second, imports) == (Session, Session, [1])


async def test_keeps_all_finders_on_sys_meta_path_during_the_import() -> None:
    before, finders, during = sys.meta_path, [*sys.meta_path], []

    def import_it() -> type[Session]:
        during.append(sys.meta_path)
        return Session

    assert await Loader(import_it, lambda: 0.0).load() is Session
    assert (before, during[0][1:]) == (finders, finders)


async def test_raises_a_base_exception_of_the_import_and_then_reports_the_failed_import() -> None:
    def panic() -> type[Session]:
        raise BaseException("panicked")  # noqa: TRY002 - as Rust modules do

    loader = Loader(panic, lambda: 0.0)
    with pytest.raises(BaseException, match=r"^panicked$"):
        await loader.load()
    assert await loader.load() == f"mitmproxy cannot be imported; {AGAIN}"


def test_a_failed_import_leaves_no_modules_for_the_next_import() -> None:
    subprocess.run([sys.executable, "-c", FAILS_OFTEN], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_forgets_only_modules_that_the_same_thread_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["elsewhere", "json.tool", "here", "here.below", "hereafter", "kept", "kept.module"]
    imports = Imports(get_ident())
    other = Thread(target=imports.find_spec, args=("elsewhere", None))
    other.start()
    other.join()
    for name in ("here", "json.tool", "not.imported", "kept.module"):
        imports.find_spec(name, None)
    for name in names:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    vars(sys.modules["kept"]).update(module=sys.modules["kept.module"])
    imports.forget()
    assert [name for name in names if name in sys.modules] == ["elsewhere", "json.tool", "hereafter", "kept"]
    assert not hasattr(sys.modules["kept"], "module")

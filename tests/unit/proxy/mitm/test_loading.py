from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mitmproxy.proxy.layers import http, tls

from agent_sandbox.proxy.import_stubs import STUBBED
from agent_sandbox.proxy.mitm import loading
from agent_sandbox.proxy.mitm.bulk_tls import BulkServerTls
from agent_sandbox.proxy.mitm.http1_client import StrictHttp1Client
from agent_sandbox.proxy.mitm.http2_client import StrictHttp2Client
from agent_sandbox.proxy.mitm.loading import _load, load_session
from agent_sandbox.proxy.mitm.session import Session
from imports import brought_along

if TYPE_CHECKING:
    import pytest


def test_a_proxy_that_starts_imports_nothing_of_mitmproxy() -> None:
    modules = brought_along("import agent_sandbox.proxy.run, agent_sandbox.proxy.lane.choice")
    assert {name for name in modules if name.startswith("mitmproxy")} == {*STUBBED}


async def test_the_session_is_loaded_with_our_classes_in_mitmproxys_layers() -> None:
    _load.cache_clear()  # other tests have called it
    first, second = await asyncio.gather(load_session(), load_session())
    assert first is second is Session
    assert (vars(http)["Http1Client"], vars(http)["Http2Client"]) == (StrictHttp1Client, StrictHttp2Client)
    assert tls.ServerTLSLayer is BulkServerTls


async def test_a_connection_that_ends_during_the_import_does_not_stop_it() -> None:
    _load.cache_clear()
    first = asyncio.create_task(load_session())
    await asyncio.sleep(0)
    first.cancel()
    assert await load_session() is Session
    assert (await asyncio.gather(first, return_exceptions=True))[0].__class__ is asyncio.CancelledError


async def test_an_import_that_fails_is_tried_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries = []

    def fail() -> type[Session]:
        tries.append(1)
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(loading, "_session", fail)
    _load.cache_clear()
    try:
        answers = await asyncio.gather(load_session(), load_session(), load_session())
        why = f"mitmproxy cannot be imported ([Errno 24] Too many open files); {loading.AGAIN}"
        assert ({*answers}, len(tries), len(caplog.records)) == ({why}, 1, 1)
    finally:
        _load.cache_clear()

"""Assemble the proxy and run it until a signal stops it."""

import asyncio
import json
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import cache, partial
from importlib import import_module
from socket import gethostname
from typing import TYPE_CHECKING, Any

from OpenSSL import SSL

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Effect, Policy
from agent_sandbox.policyfile.cache_dir import CacheDir
from agent_sandbox.policyfile.cached import load_cached, load_offers
from agent_sandbox.printable import printable_lines
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.proxy.ask.asking import Asking
from agent_sandbox.proxy.audit.audit_log import AuditLog
from agent_sandbox.proxy.audit.line_writer import LineWriter
from agent_sandbox.proxy.audit.record import AuditRecord
from agent_sandbox.proxy.audit.rotating_file import RotatedFile, write_all
from agent_sandbox.proxy.control.channel import Answer, Verb, serve_control
from agent_sandbox.proxy.control.side_thread import SideThread
from agent_sandbox.proxy.decide.access_log import AccessLog
from agent_sandbox.proxy.decide.enforcer import Enforcer
from agent_sandbox.proxy.decide.own_page import OwnPage
from agent_sandbox.proxy.decide.service_hints import ServiceHints
from agent_sandbox.proxy.decide.streamer import Streamer
from agent_sandbox.proxy.exchange.engine import Engine
from agent_sandbox.proxy.exchange.hooks import Hooks, hook_table
from agent_sandbox.proxy.exchange.quotas import Budgets, boot
from agent_sandbox.proxy.front.explicit_proxy import ExplicitProxy
from agent_sandbox.proxy.front.listeners import Opened, open_entrances
from agent_sandbox.proxy.front.transparent import TransparentProxy
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.net.address import parse_address
from agent_sandbox.proxy.net.sockets import address_of, listen
from agent_sandbox.proxy.reload.policy_store import Load, PolicyStore
from agent_sandbox.proxy.reload.reloader import Identity, Reloader, files_of, identity, watch
from agent_sandbox.proxy.reload.source_pin import HELD_BACK, RELOAD, SourcePin
from agent_sandbox.proxy.secrets.injector import Injector
from agent_sandbox.proxy.secrets.login import Refresher
from agent_sandbox.proxy.secrets.placeholder import (
    Placeholders,
    key_beside,
    load_placeholders,
    write_environment,
    write_git_settings,
)
from agent_sandbox.proxy.secrets.store import troubled
from agent_sandbox.proxy.secrets.uses import Uses, uses_file
from agent_sandbox.proxy.settings import Entrances, Settings, parse_layer
from agent_sandbox.proxy.state_folder import prepare_state
from agent_sandbox.proxy.tls.authority import load_authority, now_utc
from agent_sandbox.proxy.tls.contexts import ClientTls, ServerTls
from agent_sandbox.proxy.upstream.dialler import Dialler, LoopGuard
from agent_sandbox.proxy.upstream.overrides import parse_override
from agent_sandbox.proxy.upstream.proxy_selector import UpstreamProxySelector

if TYPE_CHECKING:
    from agent_sandbox.proxy.front.dns import NameServer

# A proxy that is killed forgets at most the counts of the last second.
WRITE_SECONDS = 1.0
BODIES = "agent_sandbox.policy.http.body"
PARSER = "agent_sandbox.policy.http.graphql_document"
# By then the agent has started, so the import does not slow down its start.
LATER_SECONDS = 5.0
MOST_DENIALS = 1_000
MOST_VERIFY_SECONDS = 120


def serve(options: Namespace, entrances: Iterable[str]) -> None:
    """Run the proxy with these options of the command line until it is stopped."""
    settings = Settings(
        policy=options.policy.absolute(),
        policy_name=options.policy_name,
        layers=tuple(map(parse_layer, options.layer)),
        listen=parse_address(options.listen, option="--listen"),
        state=options.state.absolute(),
        upstream_ca=options.upstream_ca,
        overrides=tuple(map(parse_override, options.resolve)),
        entrances=Entrances(
            **{
                name: parse_address(place, option=f"--{name}")
                for name in entrances
                if (place := getattr(options, name))
            }
        ),
    )
    prepare_state(settings.state)
    asyncio.run(run(settings, Limits()))


async def run(settings: Settings, limits: Limits) -> None:
    """Serve until SIGTERM or SIGINT; SIGHUP reloads the policy."""
    signals = _Signals()
    writers = (LineWriter(RotatedFile(settings.log).write), LineWriter(_to_stdout))
    audit_log = AuditLog([writer.add for writer in writers], clock=time.time)
    pin = _pin(settings)
    store = PolicyStore(settings.policy, name=settings.policy_name, load=pin.take if pin else _loading(settings))
    asking, uses = Asking(store, audit_log, limits), Uses(uses_file(settings.secrets))
    budgets = Budgets(settings.budgets, boot=boot())
    loop_guard, placeholders = LoopGuard(), load_placeholders(key_beside(settings.secrets))
    engine = _engine(
        settings, limits, store, audit_log, loop_guard, placeholders, asking=asking, uses=uses, budgets=budgets
    )
    front = ExplicitProxy(engine, lambda: store.current, asking.would_ask)
    server = await listen(front.serve, *settings.listen)
    listening = address_of(server)
    entrances = await _entrances(settings, limits, front, store, audit_log, asking)
    loop_guard.listens(listening, *entrances.listening.values())
    side = SideThread()
    asking.connect(review=front.review, in_traffic=side.in_traffic)
    show = partial(_show_placeholders, settings, placeholders)
    show(store.current)
    reloader = Reloader(store, review=front.review, record=audit_log.record, in_traffic=side.in_traffic, publish=show)

    def running() -> Answer:
        return {
            "listening": listening,
            "started": started,
            "clock": now_utc().isoformat(timespec="seconds"),
            "connections": front.connections,
            "log": {"dropped": sum(writer.dropped for writer in writers), "error": writers[0].error},
            "secrets": troubled(settings.secrets, uses.refusal),
            "learning_seconds": asking.learning_seconds,
        }

    started = now_utc().isoformat(timespec="seconds")
    verbs = {**control_verbs(store, audit_log, reloader, running), **asking.verbs}
    control = await side.do(serve_control(settings.control, verbs, asking.streams))
    _report_start(settings, store, {"listening": listening, **entrances.listening})
    if pin and pin.held_back:
        audit_log.record(AuditRecord(event=Event.POLICY, decision=Effect.ALLOW, reason=f"{HELD_BACK}; {RELOAD}"))
    watching = _watching(settings, store, reloader)
    try:
        await _until(
            signals.stop,
            side.do(watching),
            side.do(_each_second(uses.write)),
            side.do(_each_second(budgets.write)),
            warm_up(lambda: store.current),
            signals.each_hangup(lambda: side.do(reloader.reload())),
        )
    finally:
        if pin and signals.stop.is_set():
            pin.stop()
        server.close()
        entrances.close()
        side.close(last=control.close)
        await front.end()
        for writer in writers:
            writer.close()


async def _each_second(write: Callable[[], None]) -> None:
    """Write counts each second, and once more at the end."""
    try:
        while True:
            await asyncio.sleep(WRITE_SECONDS)
            write()
    finally:
        write()


async def _until(stop: asyncio.Event, *work: Coroutine[Any, Any, object]) -> None:
    """Do the work until `stop`. If the watch raises, the proxy exits, and the engine restarts its container."""
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(one) for one in work]
        await asyncio.sleep(0)  # each task begins, even if a signal has already come
        await stop.wait()
        for task in running:
            task.cancel()


async def _watching(settings: Settings, store: PolicyStore, reloader: Reloader) -> None:
    def look() -> Identity:
        return identity(files_of(store.current, settings.policy, settings.layers))

    await watch(look, reloader.reload, wanted=lambda: store.current.settings.reload == "watch")


def _loading(settings: Settings) -> Load:
    return partial(load_cached, layers=settings.layers, cache_dir=CacheDir(folder=settings.compiled))


def _pin(settings: Settings) -> SourcePin | None:
    """Return the pin of a policy with a display name: it is mounted in a container, whose host name identifies that."""
    pin = partial(SourcePin, memory=settings.folder, container=gethostname(), boot=boot())
    return pin(load=_loading(settings)) if settings.policy_name else None


async def _entrances(  # noqa: PLR0913, PLR0917 - as below
    settings: Settings, limits: Limits, front: ExplicitProxy, store: PolicyStore, audit_log: AuditLog, asking: Asking
) -> Opened:
    transparent = TransparentProxy(front, lambda: store.current, limits=limits, record=audit_log.record)

    @cache
    def names() -> "NameServer":
        from agent_sandbox.proxy.front.dns import NameServer  # noqa: PLC0415 - needed by the first query

        return NameServer(
            policy=lambda: store.current,
            address=settings.listen[0],
            record=audit_log.record,
            asks=asking.would_ask,
        )

    return await open_entrances(
        settings.entrances, transparent, lambda question, client: names().answer(question, client)
    )


def _show_placeholders(settings: Settings, placeholders: Placeholders, policy: Policy) -> None:
    """Write the placeholders and git's settings for the sandbox; without them, programs there have no credentials."""
    try:
        write_environment(settings.environment, placeholders.environment(policy))
        write_git_settings(settings.git_settings, policy)
    except OSError as error:
        sys.stderr.write(f"cannot write the placeholders of secrets: {error.strerror}\n")


def _engine(  # noqa: PLR0913, PLR0917 - all that it connects
    settings: Settings,
    limits: Limits,
    store: PolicyStore,
    audit_log: AuditLog,
    loop_guard: LoopGuard,
    placeholders: Placeholders,
    *,
    asking: Asking,
    uses: Uses,
    budgets: Budgets,
) -> Engine:
    return Engine(
        hooks=_hooks(
            settings, limits, store, audit_log, placeholders=placeholders, asking=asking, uses=uses, budgets=budgets
        ),
        dialler=Dialler(
            limits=limits,
            overrides=settings.overrides,
            # A lambda, because each connection needs the policy then in force.
            host_service_of=lambda host, port: store.current.host_service(host, port),  # noqa: PLW0108
            upstream_proxy_of=_upstream_proxies(settings, store).of,
            is_itself=loop_guard.is_at,
        ),
        limits=limits,
        record=audit_log.record,
        policy=lambda: store.current,
        spender=budgets.spender,
    )


def _hooks(  # noqa: PLR0913 - as above
    settings: Settings,
    limits: Limits,
    store: PolicyStore,
    audit_log: AuditLog,
    *,
    placeholders: Placeholders,
    asking: Asking,
    uses: Uses,
    budgets: Budgets,
) -> Hooks:
    hints = ServiceHints(lambda: load_offers(settings.policy, cache_dir=CacheDir(folder=settings.compiled)))
    hints.read()
    authority = load_authority(settings.state, now=now_utc())
    return hook_table(
        Enforcer(
            lambda: store.current,
            clock=time.monotonic,
            limits=limits,
            matching_services=hints.matching_services,
            package_manager=hints.package_manager,
            own_page=OwnPage(audit_log.denials, hints.advise),
            questions=asking.questions,
            learns=asking.learns,
            injector=Injector(
                settings.secrets,
                own_layers=(layer.name for layer in settings.layers),
                placeholders=placeholders,
            ),
            refresher=Refresher(settings.secrets, placeholders),
            secrets=settings.secrets,
            spender=budgets.spender,
        ),
        Streamer(),
        AccessLog(audit_log, clock=time.monotonic, count=uses.count),
        ClientTls(authority, now=now_utc),
        _server_tls(settings, store),
    )


def _upstream_proxies(settings: Settings, store: PolicyStore) -> UpstreamProxySelector:
    folders = {layer.name: layer.path.parent for layer in settings.layers}
    return UpstreamProxySelector(lambda: store.current, folders, settings.trusted)


def _server_tls(settings: Settings, store: PolicyStore) -> ServerTls:
    try:
        return ServerTls(settings.trusted, authorities=lambda: store.current.authorities)
    except SSL.Error as error:
        problem = Problem(where=f"--upstream-ca {settings.upstream_ca}", what="not a file of PEM certificates")
        raise UserError([problem]) from error


def _report_start(settings: Settings, store: PolicyStore, listening: dict[str, str]) -> None:
    _print_warnings(settings, store)
    _write_ready_line(settings, listening)


def _print_warnings(settings: Settings, store: PolicyStore) -> None:
    for problem in store.problems:
        sys.stderr.write(f"everything is denied: {printable_lines(str(problem))}\n")
    for entry in settings.overrides:
        where = f"{entry.host}:{entry.port}"
        sys.stderr.write(
            f"WARNING: --resolve connects {where} to {entry.address}:{entry.to} without checks; only for tests\n"
        )
    sys.stderr.flush()


def _write_ready_line(settings: Settings, listening: dict[str, str]) -> None:
    ready = {
        **listening,
        "ca": str(settings.certificate),
        "control": str(settings.control),
        "log": str(settings.log),
    }
    _to_stdout(json.dumps(ready).encode() + b"\n")


def _to_stdout(data: bytes) -> None:
    write_all(sys.stdout.fileno(), data)


class _Signals:
    """Handlers for SIGHUP, SIGTERM and SIGINT, active once created."""

    def __init__(self) -> None:
        self.stop, self._hangup = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._hangup.set)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop.set)

    async def each_hangup(self, act: Callable[[], Awaitable[object]]) -> None:
        """Call `act` for each SIGHUP; several that arrive meanwhile count as one."""
        while True:
            await self._hangup.wait()
            self._hangup.clear()
            await act()


async def warm_up(policy: Callable[[], Policy], *, after: float = LATER_SECONDS) -> None:
    """Import the parsers that the policy in force needs, in a thread: the import would block the event loop."""
    await asyncio.sleep(after)
    if policy().asks_operations or policy().asks_messages:
        await asyncio.to_thread(import_module, BODIES)
    if policy().asks_operations:
        await asyncio.to_thread(import_module, PARSER)


def control_verbs(
    store: PolicyStore, audit_log: AuditLog, reloader: Reloader, running: Callable[[], Answer]
) -> Mapping[str, Verb]:
    """Return the table of verbs. `running` describes the process."""

    async def status(_: Mapping[str, object]) -> Answer:
        counted = {"requests": audit_log.counts, "failed": audit_log.failed, "hints": audit_log.hinted}
        return {"policy": store.status(), **running(), **counted}

    async def reload(_: Mapping[str, object]) -> Answer:
        return await reloader.reload()

    async def denials(question: Mapping[str, object]) -> Answer:
        count = question.get("count", 20)
        wanted = count if isinstance(count, int) and not isinstance(count, bool) else 20
        return {"denials": audit_log.denials(min(wanted, MOST_DENIALS))}

    async def verify(question: Mapping[str, object]) -> Answer:
        seconds = question.get("seconds")
        audit_log.verify_for(min(seconds, MOST_VERIFY_SECONDS) if isinstance(seconds, int) else 0)
        return {"ok": True}

    return {"status": status, "reload": reload, "denials": denials, "verify": verify}

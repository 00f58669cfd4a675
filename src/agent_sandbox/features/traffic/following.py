"""Follow the decisions of a running stack until Ctrl-C, for commands that pass them on."""

import json
from collections.abc import Callable

from agent_sandbox.cli.framework.errors import INTERRUPTED
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.features.proxy.reports import Dropped, Reply, Report, State
from agent_sandbox.features.traffic.record import Record, read_record
from agent_sandbox.features.watch.watching.connection import Connection
from agent_sandbox.project.project import Project


def follow(
    project: Project,
    *,
    on_record: Callable[[Record], object],
    on_missed: Callable[[int], object],
    on_state: Callable[[State], object] = lambda _: None,
    on_lost: Callable[[], object] = lambda: None,
) -> int:
    """Call these with what the proxy reports, until Ctrl-C. Requests do not wait because of it."""

    def report(found: Report) -> None:
        match found:
            case State():
                on_state(found)
            case Dropped(count=count):
                on_missed(count)
            case Reply():
                pass
            # The proxy's own line, character by character: the ID of a record is its hash.
            case _ if (record := read_record(json.dumps(found))) is not None:
                on_record(record)

    def lost(why: str) -> None:
        on_lost()
        say(why)

    connection = Connection(project, on_report=report, on_lost=lost)
    try:
        connection.watch(answers=False)
    except KeyboardInterrupt:
        pass
    finally:
        connection.end()
    return INTERRUPTED

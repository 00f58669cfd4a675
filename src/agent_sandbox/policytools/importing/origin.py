"""What the older product allows: only the most specific matching host applies to a request."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from agent_sandbox.policy.engine.rule import Conditions
from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.match.host_pattern import HostPattern, Reach, parse_host_pattern
from agent_sandbox.policytools.importing.records import Record, Taken

type Records = Mapping[str, Sequence[Record]]


class Origin:
    """The records in force there, by host: `x`, or `.x` for x and every name below it."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = tuple(records)
        known = [record for record in self.records if _is_host(record.host)]
        self._of: defaultdict[str, list[Record]] = defaultdict(list)
        for record in known:
            self._of[record.host].append(record)
        self._below = narrower(known)

    def governing(self, host: HostPattern) -> Sequence[Record]:
        """Return the most specific records that contain a host or wildcard."""
        found = (self._of[str(one)] for one in host.containing() if str(one) in self._of)
        return next(found, [])

    def below(self, host: HostPattern) -> Records:
        """Return the records for single hosts and narrower wildcards within a wildcard, by host."""
        if host.reach not in {Reach.BELOW, Reach.APEX_AND_BELOW}:
            return {}
        found = self._below.get(f".{host.name}", {})
        return {one: records for one, records in found.items() if host.reach is not Reach.BELOW or one != host.name}

    def refuses(self, asked: Conditions) -> bool:
        """Return whether a part may have been denied there. False is a proof that everything was allowed."""
        return not takes(self.governing(asked.host), asked) or bool(self.refused_below(asked))

    def kept(self, record: Record) -> list[Taken]:
        """Return the rules of a record that allow nothing that was denied there."""
        return [one for one in record.taken if not self.refused_below(one.conditions)]

    def refused_below(self, asked: Conditions) -> str:
        """Return a host below a wildcard for which a part may have been denied; empty if there is none."""
        for host, records in self.below(asked.host).items():
            if not takes(records, replace(asked, host=parse_host_pattern(host))):
                return host
        return ""


def _is_host(text: str) -> bool:
    """Return whether this is a valid host here; a request can never name an invalid one."""
    try:
        parse_host_pattern(text)
    except InvalidValue:
        return False
    return True


def takes(records: Iterable[Record], asked: Conditions) -> bool:
    """Return whether one of the records allowed everything that matches the conditions."""
    return any(record.takes(asked) for record in records)


def narrower(records: Iterable[Record]) -> dict[str, dict[str, list[Record]]]:
    """Return the records below each wildcard, by host, in one pass: a file can have any number of records."""
    below: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        for wide in _wider(record.host):
            below.setdefault(wide, {}).setdefault(record.host, []).append(record)
    return below


def _wider(host: str) -> Iterator[str]:
    labels = host.removeprefix(".").split(".")
    wider = (f".{'.'.join(labels[number:])}" for number in range(len(labels)))
    return (wide for wide in wider if wide != host)

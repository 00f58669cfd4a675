"""Hints that data may be leaving the sandbox. They are for people to look at: no request is decided by them.

They are computed from the audit records as they are made, with bounded memory. Each start of the proxy begins anew.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import lru_cache
from math import log2
from typing import NamedTuple
from urllib.parse import unquote

from msgspec import Struct, field

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Effect
from agent_sandbox.proxy.audit.record import AuditRecord

# Conversations with models send up to a few MB at once.
LARGE_UPLOAD = 8 << 20
TIMES_MORE = 10
# A push is as large as what was committed.
PUSH = "/git-receive-pack"
# The longest that is usual: a SHA-512 hash is 128 characters, the query of a signed URL up to 1,500.
LONG_PART, LONG_QUERY = 160, 2_000
# Random hexadecimal digits have almost 4 bits per character.
LEAST_BITS, LEAST_DIGITS, LEAST_PLAIN = 3.5, 0.05, 0.9
MANY_NAMES, NAMES_SECONDS = 30, 600.0
SECRET_SECONDS, SENDS_BYTES = 600.0, 4_096
HOSTS, DOMAINS, LONGEST_HOST = 2_048, 256, 255
LONGEST_SUFFIX = 3  # of the label before the last, as in co.uk: then three labels make a domain


class Use(NamedTuple):
    """The last use of a secret."""

    secret: str
    host: str
    when: float


class History(Struct):
    """What was seen before: the largest upload to each host, the names below each domain, the last use of a secret."""

    uploads: OrderedDict[str, int] = field(default_factory=OrderedDict)
    names: OrderedDict[str, tuple[float, set[str]]] = field(default_factory=OrderedDict)
    used: Use | None = None

    def add(self, line: AuditRecord, now: float) -> None:
        """Remember a request, and forget the oldest ones beyond the limits."""
        if line.decision is Effect.ALLOW and line.event is not Event.DNS:
            self.uploads[line.host] = max(line.bytes_out, self.uploads.get(line.host, 0))
            self.uploads.move_to_end(line.host)
            if len(self.uploads) > HOSTS:
                self.uploads.popitem(last=False)
        if line.secrets:
            self.used = Use(line.secrets[0].secret, line.host, now)

    def add_name(self, host: str, now: float) -> bool:
        """Remember a name; return whether it is the one that reaches MANY_NAMES."""
        domain = domain_of(host)
        since, names = self.names.get(domain, (now, set()))
        if now >= since + NAMES_SECONDS:
            since, names = now, set()
        self.names[domain] = (since, names)
        self.names.move_to_end(domain)
        if len(self.names) > DOMAINS:
            self.names.popitem(last=False)
        if len(names) >= MANY_NAMES or host in names:
            return False
        names.add(host)
        return len(names) == MANY_NAMES


@lru_cache(maxsize=HOSTS)
def domain_of(host: str) -> str:
    """Guess the registered domain of a name, without the list of public suffixes.

    >>> domain_of("a.b.example.com"), domain_of("a.example.co.uk"), domain_of("localhost")
    ('example.com', 'example.co.uk', 'localhost')
    """
    labels = host.split(".")
    return ".".join(labels[-3 if len(labels) > 2 and len(labels[-2]) <= LONGEST_SUFFIX else -2 :])


def encoded_size(path: str, query: str) -> int:
    """Return the length of the longest part of a URL that looks like encoded data; 0 if none does."""
    long = [part for part in path.split("/") if len(part) >= LONG_PART] if len(path) >= LONG_PART else []
    if len(query) >= LONG_QUERY:
        long.append(query)
    return max((len(part) for part in long if _is_encoded(part)), default=0)


def _is_encoded(part: str) -> bool:
    text = unquote(part)
    plain = sum(letter.isascii() and letter.isalnum() for letter in text)
    digits = sum(letter.isdecimal() for letter in text)
    bits = sum(count / len(text) * log2(len(text) / count) for count in Counter(text).values())
    return bits >= LEAST_BITS and digits >= LEAST_DIGITS * len(text) and plain >= LEAST_PLAIN * len(text)


class Hint(NamedTuple):
    """`says` returns the message about a request, or "" if it is not unusual."""

    name: str
    says: Callable[[AuditRecord, History, float], str]


def _upload(line: AuditRecord, before: History, _: float) -> str:
    most = before.uploads.get(line.host, 0)
    if line.bytes_out < max(LARGE_UPLOAD, TIMES_MORE * most) or line.path.endswith(PUSH):
        return ""
    return f"sent {line.bytes_out >> 20} MiB at once; the most before to this host was {-(-most // 1024)} KiB"


def _encoded(line: AuditRecord, _history: History, _now: float) -> str:
    return f"{line.encoded} characters of the URL look like encoded data" if line.encoded else ""


def _after_secret(line: AuditRecord, before: History, now: float) -> str:
    used = before.used
    if used is None or line.host in before.uploads or used.host == line.host or line.bytes_out < SENDS_BYTES:
        return ""
    ago = round(now - used.when)
    what = f"the first request to this host, {ago} seconds after the secret {used.secret} was used for {used.host}"
    return what if ago <= SECRET_SECONDS else ""


# About allowed requests. What was denied did not leave.
HINTS = (
    Hint("upload", _upload),
    Hint("encoded data", _encoded),
    Hint("after a secret", _after_secret),
)
NAMES = "many names"


class Hints:
    """Says what is unusual about each request."""

    def __init__(self) -> None:
        self._history = History()

    def about(self, line: AuditRecord, now: float) -> str:
        """Return the hints about a request, or a DNS query, and remember it; "" for none."""
        found = []
        if line.decision is Effect.ALLOW and line.event is not Event.DNS:
            found = [f"{hint.name}: {said}" for hint in HINTS if (said := hint.says(line, self._history, now))]
        # A name can carry data even if it is not resolved.
        if line.host and self._history.add_name(line.host[:LONGEST_HOST], now):
            found.append(f"{NAMES}: {MANY_NAMES} below {domain_of(line.host)} within {NAMES_SECONDS / 60:.0f} minutes")
        self._history.add(line, now)
        return "; ".join(found)

"""Send spans to an OTLP receiver from a thread, several at once. A receiver that is slow or gone delays nothing."""

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from urllib.parse import SplitResult

from agent_sandbox.features.traffic.record import Record
from agent_sandbox.features.traffic.spans import is_span, traces
from agent_sandbox.host.post import NotSentError, post

PATH = "/v1/traces"
AT_ONCE, MOST = 512, 4_096  # spans
PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 2.0, 60.0
SECONDS = 10.0


class SpanSender:
    """Sends the spans of one sandbox. `on_change` gets a line when sending begins to fail, and when it works again."""

    def __init__(  # noqa: PLR0913 - where to send, what to say, and what tests set
        self,
        url: SplitResult,
        sandbox: str,
        headers: Mapping[str, str],
        *,
        on_change: Callable[[str], object],
        pause: float = PAUSE_SECONDS,
        seconds: float = SECONDS,
    ) -> None:
        path = url.path.rstrip("/")
        self._where = f"{url.scheme}://{url.netloc}"
        self._url = url._replace(path=path if path.endswith(PATH) else f"{path}{PATH}")
        self._sandbox, self._headers, self._on_change = sandbox, headers, on_change
        self._pause, self._seconds = pause, seconds
        self._lock, self._wake, self._over = threading.Lock(), threading.Event(), threading.Event()
        self._waiting: deque[Record] = deque()
        self._failing = self._refusing = False
        self._at_once = AT_ONCE
        self.sent = self.dropped = 0
        self._thread = threading.Thread(target=self._send_all, daemon=True)
        self._thread.start()

    def add(self, record: Record) -> None:
        """Take a record; it is dropped if too many wait."""
        if not is_span(record):
            return
        with self._lock:
            if len(self._waiting) >= MOST:
                self.dropped += 1
                return
            self._waiting.append(record)
        self._wake.set()

    def missed(self, count: int) -> None:
        """Count records that the proxy did not pass on."""
        with self._lock:
            self.dropped += count

    def end(self) -> None:
        """Send what waits, once, and stop."""
        self._over.set()
        self._wake.set()
        self._thread.join(self._seconds * 2)
        self.missed(len(self._waiting))

    def _send_all(self) -> None:
        pause = self._pause
        over = False
        while not over:
            self._wake.wait()
            self._wake.clear()
            over = self._over.wait(pause)  # what comes meanwhile is sent with it
            while self._waiting:
                if not self._send():
                    pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
                    self._wake.set()
                    break
                pause = self._pause

    def _send(self) -> bool:
        with self._lock:
            records = [self._waiting[at] for at in range(min(self._at_once, len(self._waiting)))]
        try:
            post(self._url, json.dumps(traces(self._sandbox, records)).encode(), self._headers, seconds=self._seconds)
        except NotSentError as error:
            if error.is_about_body:
                return self._refused(len(records), error)
            if not self._failing:
                self._on_change(f"spans cannot be sent: {self._where}: {error}; trying again")
            self._failing = True
            return False
        self._take_off(len(records))
        self._at_once = min(self._at_once * 2, AT_ONCE)
        self.sent += len(records)
        if self._failing:
            self._on_change("spans are sent again")
        self._failing = False
        return True

    def _refused(self, count: int, error: NotSentError) -> bool:
        """Drop a span that the receiver refuses; look for it among several by sending fewer. Return True: go on.

        The agent decides much of what is in a span, and none may keep back those after it.
        """
        if count > 1:
            self._at_once = count // 2
            return True
        self._take_off(1)
        if not self._refusing:
            self._on_change(f"a span was dropped, because {self._where} refuses it: {error}")
        self._refusing = True
        self.missed(1)
        return True

    def _take_off(self, count: int) -> None:
        with self._lock:
            for _ in range(count):
                self._waiting.popleft()

"""A headless Chromium, driven through its DevTools protocol over two pipes: no port is opened for it."""

import base64
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Self

# The one to use, or none: scripts/engine installs it.
PROGRAMS = [*filter(None, (shutil.which("chromium") or shutil.which("google-chrome"),))]
SECONDS = 60.0
# Nothing but 127.0.0.1 is found, and nothing asks for news of the browser itself.
OPTIONS = (
    "--headless=new",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-sync",
    "--no-pings",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP evil.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
)
KEYS = {"Enter": ("\r", 13), "Tab": ("", 9), "Escape": ("", 27), "ArrowDown": ("", 40), " ": (" ", 32)}


class Chromium:
    """One browser with one tab."""

    def __init__(self, program: str, folder: Path) -> None:
        reading, its_output = os.pipe()
        its_input, writing = os.pipe()
        root = ["--no-sandbox"] if os.geteuid() == 0 else []
        argv = (program, *OPTIONS, *root, f"--user-data-dir={folder}", "about:blank")
        start = f'exec "$@" 3<&{its_input} 4>&{its_output}'
        self._process = subprocess.Popen(
            ("bash", "-c", start, "bash", *argv),
            pass_fds=(its_input, its_output),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(its_input)
        os.close(its_output)
        self._writing = os.fdopen(writing, "wb", buffering=0)
        self._reading = os.fdopen(reading, "rb")
        self._answers: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self.events: list[dict[str, Any]] = []
        self._last, self._session = 0, ""

    def __enter__(self) -> Self:
        """Attach to its tab."""
        self._reader.start()
        targets = self.call("Target.getTargets")["targetInfos"]
        tab = next(one["targetId"] for one in targets if one["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(30)
        self._reader.join(30)
        self._writing.close()
        self._reading.close()

    def _read(self) -> None:
        rest = b""
        while piece := self._reading.read1(1 << 16):
            *whole, rest = (rest + piece).split(b"\0")
            for text in whole:
                said = json.loads(text)
                if "id" in said:
                    self._answers.put(said)
                else:
                    self.events.append(said)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol; return its result."""
        self._last += 1
        sent = {"id": self._last, "method": method, "params": parameters}
        session = {"sessionId": self._session} if self._session else {}
        self._writing.write(json.dumps({**sent, **session}).encode() + b"\0")
        while True:
            try:
                said = self._answers.get(timeout=SECONDS)
            except Empty:
                raise AssertionError(f"no answer to {method}; it has ended: {self._process.poll()}") from None
            if said["id"] == self._last:
                assert "result" in said, said
                result: dict[str, Any] = said["result"]
                return result

    def open(self, address: str) -> None:
        """Go to an address, and wait until its document has loaded."""
        self._load("about:blank")  # an address that differs only behind its # would load nothing
        self._load(address)

    def _load(self, address: str) -> None:
        self.events.clear()
        document = self.call("Page.navigate", url=address)
        assert "errorText" not in document, (address, document)
        end = time.monotonic() + SECONDS
        while not any(_is_load(event, document["loaderId"]) for event in list(self.events)):
            assert time.monotonic() < end, f"{address} has not loaded:\n{self._report()}"
            time.sleep(0.01)

    def _report(self) -> str:
        return "\n".join(report(list(self.events)))

    def value(self, script: str) -> Any:
        """Return the value of a script in the page; it may be a promise."""
        done = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def until(self, script: str, *, seconds: float = SECONDS) -> Any:
        """Wait until a script has a value that is true in a complete page; return it."""
        end = time.monotonic() + seconds
        while not (found := self.value(f"document.readyState === 'complete' && ({script})")):
            if time.monotonic() > end:
                text = self.value("document.body.innerText")
                raise AssertionError(f"still not: {script}\n{self._report()}\nshown: {text}")
            time.sleep(0.02)
        return found

    def press(self, key: str) -> None:
        """Press one key."""
        text, code = KEYS[key] if key in KEYS else (key, ord(key.upper()))
        about = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", **about, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def screenshot(self, file: Path, *, width: int = 1200, height: int = 800, dark: bool = False) -> None:
        """Save a screenshot as PNG."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))


def _is_load(event: Mapping[str, Any], document: str) -> bool:
    about = event.get("params", {})
    return event["method"] == "Page.lifecycleEvent" and (about["name"], about["loaderId"]) == ("load", document)


def report(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the requests of a page with their results, then its errors and its console output."""
    requests: dict[str, str] = {}
    results: dict[str, str] = {}
    messages = []
    for event in events:
        about = event.get("params", {})
        match event["method"]:
            case "Network.requestWillBeSent":
                requests[about["requestId"]] = f"{about['request']['method']} {about['request']['url']}"
            case "Network.responseReceived":
                results[about["requestId"]] = f"{about['response']['status']}, but no end"
            case "Network.loadingFinished":
                results[about["requestId"]] = results.get(about["requestId"], "").removesuffix(", but no end")
            case "Network.loadingFailed":
                results[about["requestId"]] = f"{about['errorText']} {about.get('blockedReason', '')}".rstrip()
            case "Runtime.exceptionThrown":
                details = about["exceptionDetails"]
                messages.append(details.get("exception", {}).get("description", details["text"]))
            case "Runtime.consoleAPICalled":
                messages.append(f"console: {[one.get('value', one.get('description')) for one in about['args']]}")
            case "Log.entryAdded":
                messages.append(f"{about['entry']['text']} {about['entry'].get('url', '')}".rstrip())
            case "Inspector.targetCrashed":
                messages.append("the page has crashed")
    return [*(f"{name}: {results.get(one, 'no response')}" for one, name in requests.items()), *messages]

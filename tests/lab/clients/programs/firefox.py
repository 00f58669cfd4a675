"""Opens a page in Firefox and prints what it shows, or why it shows nothing: by Firefox's own protocol for tests."""

import json
import socket
import subprocess
import sys
import time
from io import BufferedRWPair
from itertools import count
from typing import Any

BROWSER = ("firefox-esr", "--headless", "--no-remote", "--profile", ".", "--marionette")
PORT = 2828
NUMBERS = count(1)


def connect() -> BufferedRWPair:
    """Wait until Firefox listens."""
    for _ in range(150):
        try:
            return socket.create_connection(("127.0.0.1", PORT)).makefile("rwb")
        except ConnectionRefusedError:
            time.sleep(0.1)
    raise SystemExit("Firefox did not start")


def read(talk: BufferedRWPair) -> Any:
    """Return one message, whose length stands before it."""
    length = b"".join(iter(lambda: talk.read(1), b":"))
    return json.loads(talk.read(int(length)))


def ask(talk: BufferedRWPair, verb: str, **values: str) -> Any:
    """Return the answer, or end with what Firefox says is wrong."""
    question = json.dumps([0, next(NUMBERS), verb, values])
    talk.write(f"{len(question)}:{question}".encode())
    talk.flush()
    _, _, error, answer = read(talk)
    if error:
        raise SystemExit(error["message"])
    return answer


with subprocess.Popen(BROWSER, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as browser:
    try:
        talk = connect()
        read(talk)
        ask(talk, "WebDriver:NewSession")
        ask(talk, "WebDriver:Navigate", url=sys.argv[1])
        print(ask(talk, "WebDriver:GetPageSource")["value"])
    finally:
        browser.kill()

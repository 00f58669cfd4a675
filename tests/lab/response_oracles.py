"""What other programs read in a response: h11 here, Node's llhttp and Go's reader where they are installed.

For a fixed list of responses, a file has what Node and Go read, so that every machine can compare.
python tests/lab/response_oracles.py writes the file anew, where both are installed (`make oracles`).
"""

import itertools
import json
import shutil
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import IO, NamedTuple, Self, cast

import h11

from response_shapes import ACCEPTED, REJECTED

FOLDER = Path(__file__).with_name("oracles")
VERDICTS = FOLDER / "verdicts.json"
COMMANDS = {
    "node": ("node", str(FOLDER / "read_responses.mjs")),
    "go": ("env", "GO111MODULE=off", "go", "run", str(FOLDER / "read_responses.go")),
}
INSTALLED = [name for name in COMMANDS if shutil.which(name)]
LARGEST = 5_000
STARTS = (
    b"HTTP/1.1 200 OK",
    b"HTTP/1.0 200 OK",
    b"HTTP/1.1 204 No Content",
    b"HTTP/1.1 304 Not Modified",
    b"HTTP/1.1 200",
)
LINES = (
    b"Content-Length: 2", b"Content-Length: 7", b"Content-Length: 02", b"Content-Length: +2", b"Content-Length: 2, 2",
    b"Content-Length : 2", b"Content-Length:\t2 ", b"Content-Length: 2\x0b", b"Content-Length: ",
    b"Content-Length: 0x2",
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: Chunked ", b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: chunked, identity", b"Transfer-Encoding : chunked", b"Transfer-Encoding:\r\n chunked",
    b"Transfer-Encoding: identity", b"Transfer-Encoding: \x0cchunked", b"X: y\r\n z", b"X: y\nContent-Length: 2",
    b"X: y\rContent-Length: 2", b"X: y\nSet-Cookie: z", b"X: y\rSet-Cookie: z", b"X\0: y", b"Connection: close",
    b"Trailer: X", b"",
)  # fmt: skip
BODIES = (
    b"ok", b"", b"2\r\nok\r\n0\r\n\r\n", b"2;a=b\r\nok\r\n0\r\n\r\n", b"2\nok\n0\n\n", b"2\r\nok0\r\n\r\n",
    b"2\r\nok\r\n0\r\nX: y\r\n\r\n", b"0x2\r\nok\r\n0\r\n\r\n", b"+2\r\nok\r\n0\r\n\r\n", b"2 \r\nok\r\n0\r\n\r\n",
    b" 2\r\nok\r\n0\r\n\r\n", b"2\r\r\nok\r\n0\r\n\r\n", b"2;a\nb\r\nok\r\n0\r\n\r\n", b"02\r\nok\r\n00\r\n\r\n",
    b"2\r\nok\r\n0\r\nX y\r\n\r\n", b"2\r\nok\r\n0\r\n X: y\r\n\r\n", b"2\r\nok\r\n0\r\nX: y\n\n",
    b"2\r\nok\r\n0;\r\n\r\n",
    b"100000000000000002\r\nok\r\n0\r\n\r\n", b'2;"\r\n"\r\nok\r\n0\r\n\r\n', b"2\r\nok\r\n", b"2\r\nok\n0\r\n\r\n",
)  # fmt: skip

# Go takes these out of the fields: of Connection, only `close`. The body of a GET tells whether it saw the coding.
MOVED = {"connection", "trailer", "transfer-encoding"}


class Case(NamedTuple):
    """The method of a request, and the response to it."""

    method: str
    data: bytes


class Message(NamedTuple):
    """What a program reads in a response. `names`: those of its header fields, as often as each occurs."""

    status: int
    names: tuple[str, ...]
    body: bytes


Verdict = Message | None
Said = tuple[int, list[str], str] | None


def names_of(fields: Iterable[tuple[bytes, bytes]]) -> tuple[str, ...]:
    """Return the names of the header fields that can be compared, sorted and in lower case."""
    return _comparable(name.decode("latin-1") for name, _ in fields)


def cases() -> list[Case]:
    """Return the responses that the file is about."""
    shaped = [data for data, _ in (*REJECTED.values(), *ACCEPTED.values()) if len(data) < LARGEST]
    one = [b"\r\n".join(filter(None, parts)) + b"\r\n\r\n" for parts in itertools.product(STARTS, LINES)]
    two = [b"\r\n".join((STARTS[0], *pair)) + b"\r\n\r\n" for pair in itertools.permutations(LINES[:-1], 2)]
    bodied = [head + body for head in one for body in BODIES]
    got = [*shaped, *bodied, *(head + BODIES[2] for head in two)]
    headed = [*shaped, *(head + body for head in one for body in BODIES[:3])]
    return [*dict.fromkeys([*(Case("GET", data) for data in got), *(Case("HEAD", data) for data in headed)])]


def _digest(known: Iterable[Case]) -> str:
    """Return the digest of the responses, by which the file says which ones it is about."""
    return sha256(b"\n".join(map(_line, known))).hexdigest()


def read_by_h11(case: Case) -> Verdict:
    """Return what h11 reads, None if it refuses the response or misses its end."""
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method=case.method, target="/x", headers=[("Host", "a.test")]))
    client.send(h11.EndOfMessage())
    try:
        client.receive_data(case.data)
        client.receive_data(b"")
        while isinstance(event := client.next_event(), h11.InformationalResponse):
            if event.status_code == 101:
                return None
        if not isinstance(event, h11.Response):
            return None
        body = b""
        while isinstance(part := client.next_event(), h11.Data):
            body += bytes(part.data)
        ended = isinstance(part, h11.EndOfMessage)
        return Message(event.status_code, names_of(event.headers), body) if ended else None
    except h11.ProtocolError:
        return None


class Oracle:
    """Node or Go: a process that reads one response after the other."""

    def __init__(self, name: str) -> None:
        self._process = subprocess.Popen(COMMANDS[name], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._asks = cast("IO[bytes]", self._process.stdin)
        self._says = cast("IO[bytes]", self._process.stdout)

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._process.communicate()

    def read(self, case: Case) -> Verdict:
        """Return what the program reads, None if it refuses the response or misses its end."""
        self._asks.write(_line(case) + b"\n")
        self._asks.flush()
        return _decoded(json.loads(self._says.readline()))


def recorded() -> dict[Case, list[Verdict]]:
    """Return what the programs in the file read in each response."""
    found, known = json.loads(VERDICTS.read_text()), cases()
    if found["cases"] != _digest(known):
        raise ValueError(f"{VERDICTS}: it is about other responses; run `make oracles`")
    verdicts = [[_decoded(said) for said in row] for row in found["verdicts"]]
    numbers = itertools.chain.from_iterable(found["read"])
    return {case: verdicts[number] for case, number in zip(known, numbers, strict=True)}


def _comparable(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name in map(str.lower, names) if name not in MOVED))


def _line(case: Case) -> bytes:
    return case.method.encode() + b" " + b64encode(case.data)


def _decoded(said: Said) -> Verdict:
    return said and Message(said[0], _comparable(said[1]), b64decode(said[2]))


def _encoded(verdict: Verdict) -> Said:
    return verdict and (verdict.status, [*verdict.names], b64encode(verdict.body).decode())


def _as_text(known: list[Case], read: list[list[Said]]) -> str:
    """Return the content of the file: each verdict once, and its number for each response, in the order of `cases`."""
    rows = [json.dumps(verdicts) for verdicts in read]
    number = {row: position for position, row in enumerate(dict.fromkeys(rows))}
    numbers = [json.dumps(some) for some in itertools.batched((number[row] for row in rows), 30)]
    head = f'{{"programs": {json.dumps([*COMMANDS])}, "cases": "{_digest(known)}", "verdicts": [\n'
    return head + ",\n".join(number) + '\n], "read": [\n' + ",\n".join(numbers) + "\n]}\n"


def main() -> int:
    """Ask the programs, and write the file."""
    missing = [name for name in COMMANDS if name not in INSTALLED]
    if missing:
        print(f"not installed: {', '.join(missing)}; the verdicts stay as they are", file=sys.stderr)
        return 1
    known = cases()
    read: list[list[Said]] = [[] for _ in known]
    for name in COMMANDS:
        with Oracle(name) as oracle:
            for case, verdicts in zip(known, read, strict=True):
                verdicts.append(_encoded(oracle.read(case)))
    VERDICTS.write_text(_as_text(known, read))
    return 0


if __name__ == "__main__":
    sys.exit(main())

import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent_sandbox.features.ports import relay
from agent_sandbox.features.session.clipboard.clipboard_filter import copy_sequence
from agent_sandbox.features.session.on_terminal import link_question as subject
from agent_sandbox.features.session.on_terminal.link_question import LINK, Browser, LinkQuestion, browse
from agent_sandbox.host.command import Command
from agent_sandbox.project.installed import read_project
from agent_sandbox.project.render.paths import PROJECT_FILE
from table_tests import each

URL = "https://auth.example.com/authorize?client_id=a&scope=openid+profile+email+offline_access&state=0123456"
SIGN_IN = "https://auth.example.com/authorize?client_id=a&redirect_uri=http%3A%2F%2Flocalhost%3A1455%2Fcallback"
ANSWER = "  y also opens port 1455 of the sandbox here, for the answer"


class Held(LinkQuestion):
    """A question on a screen of this many rows, that keeps what it opens and writes; some ports are in use."""

    def __init__(self, url: str = URL, *, rows: int = 24, used: tuple[int, ...] = ()) -> None:
        self.done: list[str | bytes] = []
        self.ports: list[int] = []
        self.used = used
        super().__init__("app-1", browse=self.browse, write=self.done.append, rows=lambda: rows)
        self.hold(url.encode("utf-8", "surrogatepass"))

    def browse(self, url: str, port: int) -> bool:
        """Open a page and its port, unless that is in use."""
        self.ports.append(port)
        if port not in self.used:
            self.done.append(url)
        return port not in self.used


def test_shows_the_host_and_the_whole_url() -> None:
    assert Held().lines(80) == [
        "app-1: the sandbox wants to open a web page in your browser",
        "",
        "  auth.example.com",
        "",
        "  y  open it",
        "  c  copy the address to your clipboard",
        "  n  do not open it",
        "  x  do not open it, and do not ask again in this terminal",
        "",
        f"  | {URL[:75]}",
        f"  | {URL[75:]}",
    ]


@each(
    "key, done, asks_again",
    (
        ("y", [URL], True),
        ("c", [copy_sequence(URL.encode())], True),
        ("n", [], True),
        ("escape", [], True),
        ("x", [], False),
    ),
)
def test_opens_only_for_y(key: str, done: list[str | bytes], *, asks_again: bool) -> None:
    held = Held()
    assert held.lines(80)
    assert held.done == []
    held.press(key)
    assert (held.done, held.lines(80), held.unanswered) == (done, [], "")
    held.hold(URL.encode())
    assert bool(held.lines(80)) is asks_again


def test_y_opens_the_port_of_the_answer_too() -> None:
    held = Held(SIGN_IN)
    assert held.lines(80)[:5] == [
        "app-1: the sandbox wants to open a web page in your browser",
        "",
        "  auth.example.com",
        ANSWER,
        "",
    ]
    held.press("n")
    assert held.ports == []
    held.hold(SIGN_IN.encode())
    held.lines(80)
    held.press("y")
    assert (held.done, held.ports, held.lines(80)) == ([SIGN_IN], [1455], [])


def test_says_if_the_port_of_the_answer_is_in_use_and_opens_the_page_after_another_y() -> None:
    held = Held(SIGN_IN, used=(1455,))
    held.lines(80)
    held.press("y")
    assert (held.done, held.lines(80)[3]) == (
        [],
        "  port 1455 is in use on this machine: the sandbox would not get the answer",
    )
    held.press("y")
    assert (held.done, held.ports, held.lines(80)) == ([SIGN_IN], [1455, 0], [])
    held.hold(SIGN_IN.encode())
    assert held.lines(80)[3] == ANSWER


@each(
    "query, port",
    (
        *(("redirect_uri=http://localhost:1455/x", 1455), ("a=b&redirect_uri=http://127.0.0.1:54545", 54545)),
        *(
            ("redirect_url=http%3a%2f%2flocalhost%3a8085%2f", 8085),
            ("redirect_uri=http%3A%2F%2F127.0.0.1%3A1455&s=1", 1455),
        ),
        *(
            ("redirect_uri=http://localhost/x", 0),
            ("redirect_uri=http://localhost:80/", 0),
            *((f"redirect_uri=http://localhost:{port}/", 0) for port in ("0000", "1023", "65536", "99999")),
            ("redirect_uri=http://b.test:1455", 0),
        ),
        *(
            ("redirect_uri=http://localhost:123456", 0),
            ("no_redirect_uri=http://localhost:1455", 0),
            ("x=http://localhost:1455", 0),
        ),
    ),
)
def test_finds_the_port_of_the_answer(query: str, port: int) -> None:
    held = Held(f"https://a.example.com/x?{query}")
    shown = held.lines(80)[3]
    assert shown == (f"  y also opens port {port} of the sandbox here, for the answer" if port else "")
    held.press("y")
    assert held.ports == [port]


# The side in the sandbox: it ends after the frame that opens a connection.
BOX = ("sh", "-c", f"head --bytes={relay.HEAD.size + relay.PORT.size} >/dev/null")


@pytest.fixture
def browser(project: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Browser]:
    """Return a function that makes a browser of a project with this project file; pages are written down."""

    def make(text: str) -> Browser:
        monkeypatch.setattr(subject, "relay_in", lambda _: Command(argv=BOX))
        return Browser(replace(read_project(project), made_of={PROJECT_FILE: text}))

    return make


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(subject, "browse", lambda url, **_: found.append(url))
    return found


def test_the_port_of_the_answer_leads_to_the_sandbox(browser: Callable[[str], Browser], pages: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    one = browser("")
    assert one.open(URL, port)
    assert one.open(URL, port)  # it is open already
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client, suppress(ConnectionResetError):
        assert client.recv(1) == b""
    deadline = time.monotonic() + 30
    while port in one._ports:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert one.open(URL, port)  # the relay has ended, so it is opened again
    assert port in one._ports
    assert pages == [URL, URL, URL]


# It answers each connection itself: frames of DATA and END.
ANSWERS = """
import sys
from agent_sandbox.features.ports.relay import DATA, END, HEAD, OPEN
while head := sys.stdin.buffer.read(HEAD.size):
    kind, number, length = HEAD.unpack(head)
    sys.stdin.buffer.read(length)
    if kind == OPEN:
        sys.stdout.buffer.write(HEAD.pack(DATA, number, 2) + b"ok" + HEAD.pack(END, number, 0))
        sys.stdout.buffer.flush()
"""


@pytest.mark.parametrize(("longest", "grace", "asks"), [(600, 0.01, True), (0.01, 600, False)])
def test_the_port_of_the_answer_closes_after_it_and_if_none_comes(
    browser: Callable[[str], Browser],
    pages: list[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    longest: float,
    grace: float,
    asks: bool,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    one = browser("")
    monkeypatch.setattr(subject, "relay_in", lambda _: Command(argv=(sys.executable, "-c", ANSWERS)))
    monkeypatch.setattr(subject, "LONGEST", longest)
    monkeypatch.setattr(subject, "GRACE", grace)
    assert one.open(URL, port)
    if asks:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
            assert client.recv(9) == b"ok"
    deadline = time.monotonic() + 30
    while port in one._ports:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=30)
    assert pages == [URL]


def test_a_page_does_not_open_if_another_program_has_the_port_of_its_answer(
    browser: Callable[[str], Browser], pages: list[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        one = browser("")
        assert (one.open(URL, port), pages) == (False, [])
        assert (one.open(URL, 0), pages) == (True, [URL])


def test_a_port_of_the_project_file_is_open_already(browser: Callable[[str], Browser], pages: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as kept:
        port = kept.getsockname()[1]
        assert browser(f"ports: [{port}]").open(URL, port)
        assert not browser(f"ports: ['{port}:3000']").open(URL, port)
    assert pages == [URL]


def test_a_page_does_not_open_if_the_relay_cannot_start(
    browser: Callable[[str], Browser], pages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = browser("")
    monkeypatch.setattr(subject, "relay_in", lambda _: Command(argv=("/no/such/program",)))
    assert (one.open(URL, 1455), pages) == (False, [])


def test_other_keys_do_not_answer_the_question() -> None:
    held = Held()
    held.lines(80)
    held.press("o")
    assert (held.done, bool(held.lines(80)), held.signal()) == ([], True, b"")


def test_keeps_only_the_last_url() -> None:
    held = Held()
    held.hold(b"https://other.example.com/")
    held.hold(b"ftp://ignored.example.com/")
    held.lines(80)
    held.press("y")
    assert held.done == ["https://other.example.com/"]


def test_reports_an_unanswered_request() -> None:
    assert Held().unanswered == "the program in app-1 wanted to open a page of auth.example.com"
    assert (
        Held("https://a.example.com:8443").unanswered == "the program in app-1 wanted to open a page of a.example.com"
    )


def test_does_not_open_a_url_that_does_not_fit_on_the_screen() -> None:
    held = Held(f"https://a.example.com/{'a' * 3000}")
    assert held.lines(80) == [
        "app-1: the sandbox wants to open a web page in your browser",
        "",
        "Its address does not fit: make the window larger, or press:",
        "  n  do not open it",
        "  x  do not open it, and do not ask again in this terminal",
    ]
    for key in "yc":
        held.press(key)
    assert (held.done, bool(held.unanswered)) == ([], True)
    held.press("n")
    assert held.lines(80) == []


@each(
    "url",
    (
        *(
            "",
            "example.com",
            "//example.com",
            "https:example.com",
            "https:/example.com",
            "https://",
            " https://a.example.com",
        ),
        *("file:///etc/passwd", "javascript:alert(1)", "data:text/html,x", "ssh://a.example.com", "vscode://file/x"),
        *(
            "HTTPS://a.example.com",
            "https://A.example.com",
            "https://user@a.example.com",
            "https://a.example.com@b.example.com",
        ),
        *(
            "https://a.example.com:x@b.example.com",
            "https://a.example.com\\@b.example.com",
            "https://a.example.com%2f@b",
        ),
        *("https://localhost", "http://localhost:8080/", "http://a.localhost/", "http://127.0.0.1/", "http://[::1]/"),
        *(
            "http://2130706433/",
            "http://0x7f.1/",
            "http://127.1/",
            "http://10.0.0.1/",
            "http://router/",
            *(f"http://a.{end}/" for end in ("localdomain", "internal", "local", "lan", "home.arpa")),
            "http://a.example.com./",
        ),
        *(
            "https://a.example.com/\x1b[2J",
            "https://a.example.com/\r\n",
            "https://a.example.com/\n",
            "https://a.example.com/ x",
        ),
        *(
            "https://a.example.com/\u202egpj",
            "https://\u0430pple.com/",
            "https://a.example.com/\u200b",
            "https://a.example.com/\x9b1m",
        ),
        *(
            'https://a.example.com/"',
            "https://a.example.com/`id`",
            "https://a.example.com/<b>",
            "https://a.example.com/|x",
            *(f"https://a.example.com/?x={sign}(evil)" for sign in ("$", "", ";", "'")),
        ),
        *(
            "https://a.example.com:123456/",
            "https://a.example.com:/",
            "https://a..example.com/",
            "-https://a.example.com/",
        ),
    ),
)
def test_ignores_what_is_not_a_plain_web_address(url: str) -> None:
    held = Held(url)
    assert (held.lines(80), held.unanswered) == ([], "")
    held.press("y")
    assert held.done == []


@each(
    "url",
    (
        *("https://a.example.com", "http://a.example.com:8080", "https://a.example.com?x", "https://a.example.com#x"),
        *("https://xn--pple-43d.com/", "https://a.example.com/@user/x?q=[1]&r=~a,b+c:h%20"),
    ),
)
def test_asks_about_a_plain_web_address(url: str) -> None:
    assert Held(url).lines(80)[-1] == f"  | {url}"


TAILS = st.text("aZ09.-_~:/?#[]@!$&'()*+,;=%", max_size=60) | st.text(max_size=60)


@given(TAILS, st.integers(min_value=6, max_value=200), st.integers(min_value=1, max_value=60))
def test_shows_every_character_of_whatever_it_opens(tail: str, columns: int, rows: int) -> None:
    held = Held(f"https://b.example.com{tail}", rows=rows)
    lines = held.lines(columns)
    held.press("y")
    assert all(len(line) < columns and line.isascii() and line.isprintable() for line in lines)
    shown = "".join(line.removeprefix("  | ") for line in lines if line.startswith("  | "))
    assert held.done == ([shown] if shown else [])
    assert (len(lines) <= rows and LINK.fullmatch(shown) is not None) or not shown
    assert shown in {"", f"https://b.example.com{tail}"}


@pytest.mark.parametrize(
    ("platform", "programs", "expected"),
    [
        ("linux", ("xdg-open",), "xdg-open"),
        ("linux", ("xdg-open", "wslview"), "wslview"),
        ("linux", ("open",), None),
        ("darwin", ("open", "xdg-open"), "open"),
        ("linux", (), None),
    ],
)
def test_opens_with_the_usual_program_and_none_of_a_project(
    platform: str, programs: tuple[str, ...], expected: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, own = tmp_path / "project", tmp_path / "bin"
    for folder in (project / "bin", own):
        folder.mkdir(parents=True)
        for program in programs:
            (folder / program).touch(mode=0o755)
    for program in subject.OPENERS:
        (project / "bin" / program).touch(mode=0o755)
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(subject, "leave_running", ran.append)
    path = os.pathsep.join((str(project / "bin"), "bin", str(own)))
    browse(URL, project=project, environ={"PATH": path}, platform=platform)
    assert ran == ([("/usr/bin/env", f"PATH={own}", str(own / expected), URL)] if expected else [])

"""The page of `agent-sandbox ui` in a real browser with a real proxy: normal use and attacks."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Self, override

import pytest

from agent_sandbox.features.policy.edit import put
from agent_sandbox.features.policy.layer_rule import RuleLayer
from agent_sandbox.features.proxy.control import ask_socket
from agent_sandbox.features.proxy.reports import Dropped, Grant
from agent_sandbox.features.traffic.record import Record, read_record
from agent_sandbox.features.watch.page.today import Today
from agent_sandbox.features.watch.watching.rules import Rules
from agent_sandbox.features.watch.watching.stack_ports import Inside, PortInside
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policytools.edit.short_rule import read_short_rule
from answering import nobody_answers
from chromium import PROGRAMS, Chromium
from page_stand import NAME, PageStand, SocketConnection, open_state, question, record
from proxy_pair import Pair, start_pair
from proxy_stand import get, read_answer
from watching import Answers

HOSTS = tuple(f"h{number}.example{number}.test" for number in range(9))
POLICY = "version: 1 # mine\ndomains: [allowed.test]\nsettings: {ask: {timeout: 60}}\n"
FREEZE = "performance.now = () => {now}"
STOP = "performance.now = ((now) => () => now)(performance.now() + 1000)"
LATER = "(() => { const now = performance.now.bind(performance); performance.now = () => now() + 1000 })()"
HOSTILE = "/<img src=x onerror=document.title='owned'>\u202e&lt;\x1b[2J" + "a" * 5_000
CHOOSE = """(() => {{
    const choice = document.getElementById("stack");
    choice.value = "{name}";
    choice.dispatchEvent(new Event("input"));
}})()"""
# The contrast of each visible text, as in WCAG 2: [text, ratio].
CONTRAST = """(() => {
    const channels = (colour) => colour.match(/[0-9.]+/g).map(Number);
    const light = (colour) => channels(colour).slice(0, 3).map((part) => part / 255)
        .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
    const behind = (node) => {
        const colour = getComputedStyle(node).backgroundColor;
        return channels(colour)[3] === 0 && node.parentElement ? behind(node.parentElement) : colour;
    };
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found = [];
    while (texts.nextNode()) {
        const node = texts.currentNode.parentElement;
        if (!texts.currentNode.data.trim() || !node.checkVisibility()) continue;
        const [low, high] = [light(getComputedStyle(node).color), light(behind(node))].sort((a, b) => a - b);
        found.push([texts.currentNode.data.trim(), (high + 0.05) / (low + 0.05)]);
    }
    return found;
})()"""
NOTIFICATIONS = """(() => {
    window.notified = [];
    window.Notification = class extends EventTarget {
        static permission = "granted";
        constructor(title, about) { super(); notified.push(about.body); }
    };
})()"""
QUESTIONS = "document.querySelectorAll('#question-list > li').length"
STATUS = "document.getElementById('status').textContent"


@pytest.fixture(scope="module", params=PROGRAMS)
def browser(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """One browser for all tests."""
    with Chromium(request.param, tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A proxy that asks about unlisted hosts."""
    folder = tmp_path_factory.mktemp("project") / ".devcontainer"
    folder.mkdir()
    with nobody_answers(), start_pair(folder, POLICY, names=("allowed.test", *HOSTS)) as pair:
        yield pair


@pytest.fixture
def stand(pair: Pair) -> Iterator[PageStand]:
    """The page, connected to that proxy."""
    control = pair.proxy.ready["control"]
    connection = SocketConnection(control)

    def write_rule(rule: str, _: RuleLayer) -> None:
        put(read_short_rule(Effect.ALLOW, [rule]), pair.proxy.policy_file)
        assert ask_socket(connection.path, "reload")["ok"]

    with PageStand(connection, Rules(pair.proxy.folder.parent, write_rule)) as stand, connection.to(stand):
        yield stand


@pytest.fixture
def answers() -> Answers:
    """The answers given on a page with questions made up by the test."""
    return Answers()


@pytest.fixture
def made_up(answers: Answers) -> Iterator[PageStand]:
    """That page."""
    with PageStand(answers) as stand:
        yield stand


class Client:
    """Sends requests from the sandbox, in the background."""

    def __init__(self, pair: Pair, pool: ThreadPoolExecutor) -> None:
        self._pair, self._pool = pair, pool

    def asks(self, host: str, path: str = "/x", method: str = "GET") -> Future[int]:
        """Send a request over its own connection."""

        def send() -> int:
            with self._pair.proxy.tls(host) as stream:
                stream.settimeout(30)
                stream.sendall(get(path, host, method=method))
                return read_answer(stream)[0]

        return self._pool.submit(send)


@pytest.fixture
def client(pair: Pair) -> Iterator[Client]:
    """A client that waits."""
    with ThreadPoolExecutor(8) as pool:
        yield Client(pair, pool)


def answer(browser: Chromium, key: str) -> None:
    """Press a key when the question has been visible long enough, by the clock of the page."""
    browser.value(LATER)
    browser.press(key)


def test_a_person_allows_once_and_denies_with_one_key(
    browser: Chromium, stand: PageStand, client: Client, pair: Pair
) -> None:
    browser.open(stand.address)
    browser.until("document.getElementById('asking').textContent === 'asks about: unlisted'")
    assert browser.value("location.href") == f"http://{stand.authority}/"
    first = client.asks(HOSTS[0])
    browser.until(f"{QUESTIONS} === 1")
    assert not pair.server.requests
    answer(browser, "a")
    assert first.result(20) == 200
    browser.until(f"{QUESTIONS} === 0")
    again = client.asks(HOSTS[0])
    browser.until(f"{QUESTIONS} === 1")
    answer(browser, "d")
    assert again.result(20) == 403
    browser.until(
        "[...document.querySelectorAll('#rows .deny .request')].some((row) => row.textContent.includes('/x'))"
    )
    assert client.asks(HOSTS[0]).result(20) == 403


def test_a_person_sees_the_change_of_the_policy_before_it_is_written(
    browser: Chromium, stand: PageStand, client: Client, pair: Pair
) -> None:
    browser.open(stand.address)
    waiting = client.asks(HOSTS[1])
    browser.until(f"{QUESTIONS} === 1")
    browser.value(STOP)
    browser.press("u")
    browser.until("document.getElementById('dialog').open")
    assert "Your own policy, for all your projects, will allow" in browser.value("document.body.innerText")
    browser.press("Escape")
    browser.until("!document.getElementById('dialog').open")
    browser.value(LATER)
    browser.press("p")
    browser.until("document.getElementById('dialog').open")
    line = f"GET https://{HOSTS[1]}/**"
    assert f"+  - {line}" in browser.value("document.querySelector('#dialog pre').innerText")
    assert pair.proxy.policy_file.read_text() == POLICY
    write = "document.querySelector('#dialog-buttons button')"
    browser.value(f"{write}.click()")  # a second click, meant for the previous content
    browser.value(LATER)
    browser.press("Enter")  # no button has the focus yet
    browser.press("Tab")
    assert pair.proxy.policy_file.read_text() == POLICY
    assert browser.value(f"document.activeElement === {write}")
    browser.press("Enter")
    assert waiting.result(20) == 200
    assert pair.proxy.policy_file.read_text() == f"{POLICY}allow:\n  - {line}\n"
    browser.until("!document.getElementById('dialog').open")
    assert client.asks(HOSTS[1], "/y").result(20) == 200


def test_the_rule_offered_for_a_denied_request_has_no_wildcard_from_its_path(
    browser: Chromium, stand: PageStand, client: Client
) -> None:
    browser.open(stand.address)
    path = "/**/<b>*"
    assert client.asks("allowed.test").result(20) == 200
    waiting = client.asks(HOSTS[2], path, "POST")
    browser.until(f"{QUESTIONS} === 1")
    answer(browser, "d")
    assert waiting.result(20) == 403
    row = f"[...document.querySelectorAll('#rows .request')].find((row) => row.textContent.includes('{HOSTS[2]}'))"
    browser.until(f"{row} !== undefined")
    browser.value(f"{row}.click()")
    browser.value(LATER)
    browser.value("document.querySelector('#dialog-buttons button').click()")
    browser.until(f"{STATUS} !== '' || document.querySelector('#dialog pre') !== null")
    assert "*" not in browser.value("document.querySelector('#dialog pre')?.innerText ?? ''")


def test_ignores_keys_and_clicks_right_after_the_page_changed(
    browser: Chromium, made_up: PageStand, answers: Answers
) -> None:
    browser.open(made_up.address)
    browser.until("document.getElementById('name').textContent === 'app-1'")
    browser.value(FREEZE.format(now=10_000))
    made_up.report(open_state(question()))
    browser.until(f"{QUESTIONS} === 1")
    click = "document.querySelector('#question-list button').click()"
    browser.value(click)
    # Keys in quick succession are meant for something else.
    for now in (10_000, 10_699, 11_398, 12_097, 12_796):
        browser.value(FREEZE.format(now=now))
        browser.press("a")
    made_up.report(open_state(question(), question(4, host="b.test", url="https://b.test/")))
    browser.until(f"{QUESTIONS} === 2")
    browser.value(click)
    assert answers.given == []
    browser.value(FREEZE.format(now=13_600))
    browser.value(click)
    browser.until(f"{STATUS}.startsWith('allowed once')")
    browser.press("d")
    browser.until(f"{STATUS}.startsWith('denied')")
    assert answers.given == [(3, "once", None), (3, "deny", None)]
    # Later notes on a question move its buttons.
    noted = (question(sender="curl <b>x</b>", risks=("an address",)), question(4, host="b.test", url="https://b.test/"))
    made_up.report(open_state(*noted))
    browser.until("document.querySelectorAll('#question-list .notes p').length === 2")
    browser.value(click)
    browser.until(f"{STATUS}.startsWith('not sent')")
    notes = browser.value("document.querySelector('#question-list .notes').innerText")
    assert notes.split("\n\n") == ["careful: an address", "sent by (not verified): curl <b>x</b>"]
    # The first question was answered here. The next one disappears by itself.
    made_up.report(open_state(noted[1]))
    browser.until(f"{QUESTIONS} === 1")
    assert browser.value(STATUS).startswith("not sent")
    made_up.report(open_state())
    gone = "gone: GET https://b.test/: its client left, it was answered elsewhere, or it timed out"
    browser.until(f"{STATUS} === '{gone}'")
    assert len(answers.given) == 2


def test_ignores_a_click_on_a_port_right_after_a_question_moved_it(browser: Chromium, made_up: PageStand) -> None:
    browser.open(made_up.address)
    browser.value(FREEZE.format(now=10_000))
    made_up.feed.report_ports(NAME, Inside(ports=(PortInside(port=3000, command="node", arrival=1),)))
    click = "document.querySelector('#port-list button').click()"
    browser.until("document.querySelectorAll('#port-list button').length === 1")
    browser.value(FREEZE.format(now=20_000))
    made_up.report(open_state(question()))
    browser.until(f"{QUESTIONS} === 1")
    browser.value(click)
    browser.until(f"{STATUS} === 'not sent, because the ports have just changed: look again'")
    assert made_up.given == []
    browser.value(FREEZE.format(now=20_700))
    browser.value(click)
    while not made_up.given:
        time.sleep(0.01)
    assert made_up.given == [("open", 3000, 3000)]


def test_a_port_can_be_closed_while_the_list_of_ports_changes(browser: Chromium, made_up: PageStand) -> None:
    browser.open(made_up.address)
    browser.value(FREEZE.format(now=10_000))
    opened = PortInside(port=3000, command="node", arrival=1, here=3000)
    made_up.feed.report_ports(NAME, Inside(ports=(PortInside(port=4000, arrival=2), opened)))
    browser.until("document.querySelectorAll('#port-list button').length === 2")
    browser.value("document.querySelectorAll('#port-list button').forEach((button) => button.click())")
    while not made_up.given:
        time.sleep(0.01)
    assert made_up.given == [("close", 3000)]


def test_a_long_message_moves_no_question(browser: Chromium, made_up: PageStand) -> None:
    browser.open(made_up.address)
    made_up.report(open_state(question()))
    browser.until(f"{QUESTIONS} === 1")
    top = "document.querySelector('#question-list button').getBoundingClientRect().top"
    before = browser.value(top)
    said = "the sandbox ended the relay, so no port of it is open: " + "a b" * 300
    made_up.feed.report_ports(NAME, Inside(note=said))
    browser.until(f"{STATUS}.startsWith('{said[:100]}')")
    assert browser.value(top) == before


def test_shows_hostile_text_from_the_sandbox_as_plain_text(browser: Chromium, made_up: PageStand) -> None:
    browser.open(made_up.address)
    made_up.report(record(path=HOSTILE, method=HOSTILE, host=HOSTILE, reason=HOSTILE, rule=HOSTILE, tool=HOSTILE))
    made_up.report(
        open_state(question(url=HOSTILE, reason=HOSTILE, details=HOSTILE, rule=HOSTILE[:1_000], sender=HOSTILE))
    )
    made_up.report(Dropped(count=3))
    browser.until(f"{QUESTIONS} === 1 && document.querySelectorAll('#rows tr').length === 1")
    browser.value("document.querySelector('#rows .request').click()")
    browser.until("document.getElementById('dialog').open")
    assert browser.value("document.querySelectorAll('img, script:not([src]), iframe, a').length") == 0
    assert browser.value("document.title") == "(1) agent-sandbox"
    shown = browser.value("document.getElementById('rows').innerText")
    assert "\\u202e" in shown
    assert "\u202e" not in browser.value("document.body.innerText")
    assert "\x1b" not in browser.value("document.body.innerText")
    assert browser.value("document.body.scrollWidth <= window.innerWidth")
    for way in ("document.body.innerHTML = '<b>x</b>'", "document.write('x')", "setTimeout('1')"):
        done = f"(() => {{ try {{ {way}; return '' }} catch (error) {{ return error.name }} }})()"
        assert browser.value(done) == "TypeError", way


def test_a_flood_of_records_leaves_the_table_bounded_and_questions_answerable(
    browser: Chromium, made_up: PageStand, answers: Answers
) -> None:
    browser.open(made_up.address)
    browser.until("document.getElementById('name').textContent === 'app-1'")
    for number in range(20_000):
        made_up.report(record(number))
    made_up.report(open_state(question()))
    browser.until(f"{QUESTIONS} === 1")
    answer(browser, "d")
    browser.until(f"{STATUS}.startsWith('denied')")
    browser.until("document.querySelector('#rows .request').textContent.endsWith('/19999')")
    assert browser.value("document.querySelectorAll('#rows tr').length") <= 300
    assert answers.given == [(3, "deny", None)]


@pytest.mark.parametrize("lost", ["page.js", "questions.js", "api/session"])
def test_retries_a_request_that_the_browser_aborted(browser: Chromium, made_up: PageStand, lost: str) -> None:
    """Chrome aborts requests when a network interface appears, for example because Docker starts a container."""
    browser.call("Network.setBlockedURLs", urls=[f"*://*/{lost}"])
    try:
        browser.open(made_up.address)
    finally:
        browser.call("Network.setBlockedURLs", urls=[])
    browser.until("document.getElementById('name').textContent === 'app-1'")


def test_shows_the_hosts_and_the_policy_use_of_today(browser: Chromium, pair: Pair, answers: Answers) -> None:
    hostile = {**record(path=HOSTILE, method=HOSTILE), "host": HOSTILE, "rule": HOSTILE}
    lines = [{**record(), "host": "allowed.test", "rule": "policy.yaml:2", "decision": "allow"}, hostile]
    records = [read_record(json.dumps(line)) for line in lines]

    def each(take: Callable[[Record], object]) -> None:
        for found in records:
            assert found
            take(found)

    now = datetime(2026, 1, 2, 10, tzinfo=UTC)
    with PageStand(answers, today=Today(pair.proxy.folder.parent, each, now=lambda: now)) as stand:
        browser.open(stand.address)
        browser.until("document.getElementById('name').textContent === 'app-1'")
        browser.value("document.querySelector('[data-view=hosts]').click()")
        browser.until("document.querySelectorAll('#hosts-rows tr').length === 2")
        assert browser.value("document.querySelectorAll('#hosts-rows svg rect').length") == 2
        assert browser.value("document.querySelectorAll('#hosts-rows img').length") == 0
        assert "\\u202e" in browser.value("document.getElementById('hosts-rows').innerText")
        assert browser.value("document.body.scrollWidth <= window.innerWidth")
        browser.value("document.querySelector('[data-view=policy]').click()")
        browser.until("document.querySelectorAll('#policy-rows tr').length >= 3")
        assert browser.value("document.querySelectorAll('#policy-rows .uses')[1].innerText").strip() == "1 allowed"
        browser.value("document.querySelector('#hosts-rows button').click()")
        browser.until("!document.getElementById('requests').hidden && document.getElementById('filter').value !== ''")


def test_everything_can_be_done_with_the_keyboard(browser: Chromium, made_up: PageStand, answers: Answers) -> None:
    made_up.report(record())
    made_up.report(open_state(question(), question(4, host="b.test", url="https://b.test/")))
    browser.open(made_up.address)
    browser.until(f"{QUESTIONS} === 2 && document.querySelectorAll('#rows tr').length === 1")
    reached = []
    for _ in range(30):
        browser.press("Tab")
        reached.append(browser.value("document.activeElement.id || document.activeElement.textContent"))
    wanted = {"help", "filter", "denied", "paused", "GET https://new.test/0", "Allow once (a)", "Deny (d)"}
    assert wanted <= {*reached}, reached
    browser.value("document.activeElement.blur()")
    browser.press("/")
    browser.press("z")
    browser.until("document.querySelectorAll('#rows tr').length === 0")
    browser.press("Escape")
    browser.until("document.querySelectorAll('#rows tr').length === 1")
    browser.press("j")
    answer(browser, "d")
    browser.until(f"{STATUS}.startsWith('denied: GET https://b.test/')")
    assert answers.given == [(4, "deny", None)]


def test_one_page_shows_several_stacks_and_answers_each_separately(
    browser: Chromium, made_up: PageStand, answers: Answers
) -> None:
    """Show all questions at the top. An answer counts only for its stack, although the IDs are the same."""
    other = Answers()
    made_up.report(record())
    made_up.report(open_state(question()))
    browser.open(made_up.address)
    browser.until(f"{QUESTIONS} === 1 && document.getElementById('choice').hidden")
    made_up.add("app-2", other)
    made_up.report(record(2), name="app-2")
    made_up.report(
        open_state(question(), grants=(Grant(id=5, rule="GET https://a.test/**", who="ana", seconds_left=9),)),
        name="app-2",
    )
    browser.until(f"{QUESTIONS} === 2 && document.querySelectorAll('#rows tr').length === 2")
    titles = "[...document.querySelectorAll('h1, #question-list h3, #grant-list li')].map((one) => one.textContent)"
    waits = [f"app-{number}: GET https://new.test/x" for number in (1, 2)]
    assert browser.value(titles) == ["2 stacks", *waits, "app-2: GET https://a.test/** 1 minute left, by ana End"]
    browser.press("j")
    answer(browser, "d")
    browser.until(f"{STATUS} === 'denied: app-2: GET https://new.test/x'")
    browser.value("document.querySelector('#grant-list button').click()")
    browser.value(CHOOSE.format(name="app-2"))
    browser.until("document.querySelectorAll('#rows tr').length === 1")
    assert browser.value("document.getElementById('rows').innerText").split()[2:5] == [
        "app-2",
        "GET",
        "https://new.test/2",
    ]
    browser.value("document.querySelector('[data-view=policy]').click()")
    browser.until("document.getElementById('policy-note').textContent !== 'reading the log'")
    browser.value(CHOOSE.format(name=""))
    browser.until("document.getElementById('policy-note').textContent === 'choose one stack above'")
    made_up.feed.lost("app-2", "app-2: the proxy does not answer; trying again")
    browser.until(f"{QUESTIONS} === 1")
    asking = "app-1 asks about: unlisted; app-2 not connected to the proxy"
    assert browser.value("document.getElementById('asking').textContent") == asking
    assert (answers.given, other.given) == ([], [(3, "deny", None), (5, "end", None)])


def test_a_noisy_stack_does_not_delay_answers_or_displace_requests_of_another(
    browser: Chromium, made_up: PageStand, answers: Answers
) -> None:
    """Questions of the noisy stack come and go, and its requests exceed the table many times."""
    made_up.add("noisy-1", Answers())
    made_up.report(record())
    made_up.report(open_state(question()))
    browser.open(made_up.address)
    browser.until(f"{QUESTIONS} === 1")
    over = threading.Event()

    def flood() -> None:
        for number in count():
            for _ in range(20):
                made_up.report(record(number), name="noisy-1")
            made_up.report(open_state(*(question(number + more) for more in range(3))), name="noisy-1")
            if over.wait(0.02):
                return

    noisy = threading.Thread(target=flood)
    noisy.start()
    try:
        browser.until("document.querySelectorAll('#rows tr').length === 300")
        assert browser.value("document.querySelector('#question-list .selected h3').innerText").startswith("app-1: ")
        time.sleep(1)  # until the backlog exceeds one page load, and the first questions have settled
        browser.press("d")
        browser.until(f"{STATUS}.startsWith('denied: app-1')")
        browser.value("document.querySelector('#question-list .buttons button').click()")
        browser.until(f"{STATUS}.startsWith('allowed once: app-1')")
        # In one step, because the next message can be about a request that is gone.
        last = "[...document.querySelectorAll('#question-list li')].at(-1).querySelector('button')"
        browser.until(f"({last}.click(), {STATUS}.startsWith('not sent'))")
    finally:
        over.set()
        noisy.join()
    mine = "[...document.querySelectorAll('#rows tr')].filter((row) => row.dataset.stack === 'app-1').length"
    assert browser.value(mine) == 1
    browser.open(made_up.address)
    browser.until("document.querySelectorAll('#rows tr').length === 300")
    assert browser.value(mine) == 1
    assert answers.given == [(3, "deny", None), (3, "once", None)]


def test_keys_that_choose_a_stack_answer_no_question(browser: Chromium, made_up: PageStand, answers: Answers) -> None:
    """Browsers select an option by its first letter. Here that is also the key for `once`."""
    made_up.add("other-1", Answers())
    made_up.report(open_state(question()))
    browser.open(made_up.address)
    browser.until(f"{QUESTIONS} === 1 && !document.getElementById('choice').hidden")
    browser.value("document.getElementById('stack').focus()")
    answer(browser, "a")
    browser.value("document.getElementById('stack').blur()")
    answer(browser, "d")
    browser.until(f"{STATUS} !== ''")
    assert answers.given == [(3, "deny", None)]


def test_every_control_has_a_name(browser: Chromium, made_up: PageStand) -> None:
    made_up.add("app-2", Answers())
    made_up.report(record())
    made_up.report(open_state(question()))
    browser.open(made_up.address)
    browser.until(f"{QUESTIONS} === 1 && document.querySelectorAll('#rows tr').length === 1")
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    roles = {"button", "combobox", "searchbox", "checkbox", "region", "table", "columnheader", "heading"}
    named = [(one["role"]["value"], one["name"]["value"]) for one in nodes if one["role"]["value"] in roles]
    assert {role for role, _ in named} >= roles - {"region"}
    assert [role for role, name in named if not name and role != "table"] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_is_readable_in_light_and_dark(browser: Chromium, made_up: PageStand, scheme: str) -> None:
    for number, decision in enumerate(("deny", "allow")):
        made_up.report(record(number, decision=decision, hint="upload: 9 MiB"))
    grant = Grant(id=1, rule="GET https://a.test/**", who="ana", seconds_left=9)
    noted = question(sender="curl -s", risks=("an address",), services=("npm",), details="with a body of 2MB")
    made_up.report(open_state(noted, grants=(grant,)))
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    try:
        browser.open(made_up.address)
        browser.until(f"{QUESTIONS} === 1 && document.querySelectorAll('#rows tr').length === 2")
        back = browser.value("getComputedStyle(document.body).backgroundColor")
        assert (back == "rgb(255, 255, 255)") is (scheme == "light")
        for view in ("[data-view=hosts]", "[data-view=policy]", "[data-view=requests]", "#rows .request"):
            browser.value(f"document.querySelector('{view}').click()")
            ratios = browser.value(CONTRAST)
            assert len(ratios) > 10
            assert [one for one in ratios if one[1] < 4.5] == [], view
    finally:
        browser.call("Emulation.setEmulatedMedia", features=[])


def test_a_page_in_the_background_notifies_at_a_limited_rate(browser: Chromium, made_up: PageStand) -> None:
    browser.open(made_up.address)
    browser.until("document.getElementById('name').textContent === 'app-1'")
    browser.value(NOTIFICATIONS)
    made_up.report(open_state(question(url="https://new.test/" + "x" * 200)))
    browser.until(f"{QUESTIONS} === 1")
    assert browser.value("notified") == []  # the page is visible
    browser.value("Object.defineProperty(document, 'hidden', {value: true})")
    seen = [question(number, url=f"https://new.test/{number}") for number in range(4, 8)]
    made_up.report(open_state(*seen[:3]))
    browser.until(f"{QUESTIONS} === 3")
    made_up.report(open_state(*seen))
    browser.until(f"{QUESTIONS} === 4")
    assert browser.value("notified") == ["GET https://new.test/4 and 2 more wait for you"]
    browser.value("(() => { const now = performance.now(); performance.now = () => now + 15000 })()")
    made_up.report(open_state(*seen, question(8, url="https://new.test/" + "x" * 200)))
    browser.until("notified.length === 2")
    assert browser.value("notified[1]") == f"GET https://new.test/{'x' * 79} waits for you"


class Neighbour(ThreadingHTTPServer):
    """A server in the sandbox that `agent-sandbox ports` published on another port of 127.0.0.1."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.page = ""
        self.cookies: list[str] = []

    @override
    def __enter__(self) -> Self:
        """Start it."""
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    @override
    def __exit__(self, *_: object) -> None:
        """End it."""
        self.shutdown()
        self.server_close()


class _Answer(BaseHTTPRequestHandler):
    server: Neighbour

    def do_GET(self) -> None:
        """Answer with the page."""
        self.server.cookies.append(self.headers.get("Cookie", ""))
        content = self.server.page.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


STEAL = """<!doctype html><title>trying</title><iframe id=frame src="http://{page}/"></iframe><script>
const body = JSON.stringify({{stack: "app-1", id: 3, request: "GET https://new.test/x", word: "once"}});
const tries = [
  fetch("http://{page}/api/answer", {{method: "POST", credentials: "include", mode: "no-cors", body}}),
  fetch("http://{page}/api/answer", {{method: "POST", credentials: "include", body,
    headers: {{"Agent-Sandbox-Key": "x", "Content-Type": "application/json"}}}}),
  fetch("http://{page}/api/news", {{credentials: "include"}}),
  fetch("http://{page}/page.js").then((answer) => answer.text()),
];
navigator.sendBeacon("http://{page}/api/answer", body);
Promise.allSettled(tries).then((done) => {{
  window.readable = done.filter((one) => one.status === "fulfilled" && one.value.type !== "opaque").length;
  document.title = "done";
}});
</script>"""


def test_a_page_on_another_port_cannot_use_the_session_cookie_that_it_receives(
    browser: Chromium, made_up: PageStand, answers: Answers
) -> None:
    made_up.report(open_state(question()))
    browser.open(made_up.address)
    browser.until(f"{QUESTIONS} === 1")
    with Neighbour() as neighbour:
        neighbour.page = STEAL.format(page=made_up.authority)
        browser.open(f"http://127.0.0.1:{neighbour.server_port}/")
        browser.until("document.title === 'done'")
        assert browser.value("window.readable") == 0
        assert browser.value("document.getElementById('frame').contentDocument") is None
        browser.value(f"location.href = 'http://{made_up.authority}/'")
        browser.until("document.body.innerText.includes('another page sent this request')")
    stolen = next(cookie for cookie in neighbour.cookies if "agent-sandbox-ui" in cookie)
    words = {"stack": NAME, "id": 3, "request": "GET https://new.test/x", "word": "once"}
    assert made_up.send("POST /api/answer", {"Cookie": stolen}, body=words).status == 401
    assert answers.given == []


def test_serves_no_page_under_another_host_name(browser: Chromium, made_up: PageStand) -> None:
    browser.open(f"http://evil.test:{made_up.port}/#{made_up.sessions.new_token()}")
    browser.until(f"document.body.innerText === 'this server answers only at http://{made_up.authority}/'")


def test_a_used_address_does_not_start_a_second_session(browser: Chromium, made_up: PageStand) -> None:
    address = made_up.address
    browser.open(address)
    browser.until("document.getElementById('name').textContent === 'app-1'")
    browser.value("localStorage.clear()")
    browser.open(address)
    browser.until(f"{STATUS}.includes('was used or has expired')")
    browser.open(f"http://{made_up.authority}/")
    browser.until(f"{STATUS}.includes('no session')")

"""Reloads, restarts, faults, and two stacks side by side."""

import itertools
import json
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Self

import pytest

from chromium import PROGRAMS
from engine import run
from people import answers_on_page, on_page, sees_on_page
from real_stacks import STANDIN_ADDRESS, Project, Projects


def test_reload_loads_a_valid_policy_and_keeps_it_when_the_next_policy_is_invalid(claude: Project) -> None:
    good = claude.policy.read_text()
    assert claude.curl("http://allowed.test/")[0] == 403
    claude.allow("allowed.test")
    claude.sandbox("proxy", "reload")
    assert claude.curl("http://allowed.test/")[0] == 200

    claude.policy.write_text(claude.policy.read_text() + "hots: 1\n")
    bad = claude.sandbox("proxy", "reload", check=False)
    assert bad.returncode == 1
    assert "policy.yaml:4:1: unknown key 'hots'" in bad.stderr
    assert claude.curl("http://allowed.test/")[0] == 200

    claude.write_policy(good)
    claude.sandbox("proxy", "reload")
    assert claude.curl("http://allowed.test/")[0] == 403


def test_a_restarted_agent_container_is_still_behind_the_firewall(claude: Project) -> None:
    claude.compose("restart", "--timeout", "1", "agent")
    direct = claude.exec("curl", "--noproxy", "*", "-sS", "--max-time", "5", f"http://{STANDIN_ADDRESS}/", check=False)
    assert direct.returncode == 7
    assert claude.wait_until_it_answers("https://api.anthropic.com/", 200)


def test_nothing_gets_out_after_the_proxy_is_killed_and_it_works_once_started_again(claude: Project) -> None:
    proxy = claude.containers()["proxy"]["Id"]
    stream = subprocess.Popen(
        [
            "docker",
            "compose",
            "exec",
            "-T",
            "agent",
            "curl",
            "-sS",
            "-N",
            "--max-time",
            "30",
            "https://api.anthropic.com/slow",
        ],
        cwd=claude.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert stream.stdout is not None
    assert stream.stdout.readline().startswith(b"data: ")
    run("docker", "kill", proxy)
    assert stream.wait(timeout=60) != 0
    stream.stdout.close()
    direct = claude.exec("curl", "--noproxy", "*", "-sS", "--max-time", "5", f"http://{STANDIN_ADDRESS}/", check=False)
    assert direct.returncode == 7
    run("docker", "start", proxy)
    assert claude.wait_until_it_answers("https://api.anthropic.com/", 200)


def test_server_sent_events_arrive_one_by_one(claude: Project) -> None:
    note = "grep --line-buffered data: | while read -r _; do date +%s%N; done"
    timed = f"curl -sS -N --max-time 30 https://api.anthropic.com/slow | {note}"
    stamps = [int(stamp) for stamp in claude.exec("bash", "-c", timed).stdout.split()]
    assert len(stamps) == 5
    gaps = [later - earlier for earlier, later in itertools.pairwise(stamps)]
    assert min(gaps) > 0.2e9


def test_two_projects_with_the_same_name_run_side_by_side(projects: Projects, claude: Project) -> None:
    other = projects.make(claude.path.name, "claude")
    other.sandbox("up")
    assert claude.path.name == other.path.name
    assert other.curl("https://api.anthropic.com/")[0] == 200
    other.policy.write_text("version: 1\n")
    other.compose("restart", "proxy")
    other.wait_until_it_answers("http://api.anthropic.com/", 403)
    assert claude.curl("https://api.anthropic.com/")[0] == 200
    proxy = next(iter(other.containers()["proxy"]["NetworkSettings"]["Networks"].values()))
    neighbour = [net["IPAddress"] for net in other.containers()["proxy"]["NetworkSettings"]["Networks"].values()]
    assert proxy
    for address in neighbour:
        reached = claude.exec(
            "curl", "--noproxy", "*", "-sS", "--max-time", "5", f"http://{address}:8080/", check=False
        )
        assert reached.returncode == 7
    other.sandbox("destroy", "--yes")
    assert other.compose("ps", "--all", "--quiet").stdout == ""
    assert claude.curl("https://api.anthropic.com/")[0] == 200


def test_status_prints_the_state_and_the_last_denials(claude: Project) -> None:
    claude.curl("http://denied.test/status")
    time.sleep(0.2)  # the log is written in batches
    text = claude.sandbox("status").stdout
    assert "denied.test" in text
    assert "healthy" in text


def test_a_request_to_a_proxy_that_is_gone_fails_within_two_seconds(claude: Project) -> None:
    project = claude
    project.curl("http://denied.test/before")
    time.sleep(0.2)  # the log is written in batches
    project.compose("kill", "proxy")
    for end in (("kill",), ("rm", "--force", "--stop")):
        project.compose(*end, "proxy")
        assert "GET http://denied.test/before" in project.sandbox("traffic", "--denied").stdout
        for _ in range(2):
            said = project.exec("curl", "-sS", "-w", "%{time_total}", "https://api.anthropic.com/", check=False)
            assert said.returncode != 0
            assert float(said.stdout) < 2, said
    project.compose("up", "--detach", "--wait", "proxy")
    assert project.wait_until_it_answers("https://denied.test/", 403)


def test_a_person_answers_a_request_while_it_waits(claude: Project) -> None:
    """`watch` in one terminal, the agent in another: allowed once, then for the project. The agent cannot answer."""
    good, host = claude.policy.read_text(), "denied.test"
    claude.write_policy("version: 1\nservices: [claude] # mine\nsettings: {ask: unlisted}\n")
    claude.sandbox("proxy", "reload")
    try:
        with Watching(claude) as watching, ThreadPoolExecutor(1) as pool:
            answer = pool.submit(claude.curl, f"http://{host}/")
            watching.answers(host, "a", after="sent by (not verified): curl ")
            assert answer.result(30)[0] == 200
            answer = pool.submit(claude.curl, f"http://{host}/x")
            assert claude.exec("ls", "/state/run/control.sock", check=False).returncode == 2
            watching.answers(host, "p")
            assert answer.result(30)[0] == 200
        assert "services: [claude] # mine" in claude.policy.read_text()
        assert f"- GET http://{host}/**" in claude.policy.read_text()
        assert claude.curl(f"http://{host}/y")[0] == 200
    finally:
        claude.write_policy(good)
        claude.sandbox("proxy", "reload")


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_person_answers_on_the_page_in_a_browser(program: str, claude: Project, tmp_path: Path) -> None:
    """`agent-sandbox ui --ask`: the request is allowed once, and denied after the page is closed."""
    with on_page(claude, program, tmp_path) as browser, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(claude.curl, "http://denied.test/page")
        sees_on_page(browser, "http://denied.test/page")
        answers_on_page(browser, "http://denied.test/page", "a")
        assert answer.result(30)[0] == 200
        time.sleep(0.2)  # the log is written in batches
        browser.value("document.querySelector('[data-view=policy]').click()")
        browser.until("document.querySelector('#policy-rows .uses div') !== null")
        browser.value("document.querySelector('[data-view=hosts]').click()")
        browser.until("document.getElementById('hosts-rows').innerText.includes('denied.test')")
    assert claude.curl("http://denied.test/page")[0] == 403


def test_learning_writes_allows_for_a_task_and_traffic_lists_its_requests(claude: Project) -> None:
    """`learn` allows the requests meanwhile, writes no rule for an attacker's upload, and `traffic` finds them all."""
    good, host = claude.policy.read_text(), "denied.test"
    build = f"https://{host}/logs/5d41402abc4b2a76b9719d911017c592/raw"
    try:
        assert (
            "for 5m, requests that no rule denies are allowed"
            in claude.sandbox("policy", "learn", "start", "--allow-for", "5m").stderr
        )
        assert claude.curl(build)[0] == 200
        assert claude.curl(f"https://{host}/upload", "--data", "x")[0] == 200
        assert claude.curl("http://169.254.169.254/latest/meta-data/")[0] == 403
        time.sleep(0.2)  # the log is written in batches
        said = claude.sandbox("policy", "learn", "stop", "--all")
        assert "careful: it writes" in said.stdout
        assert f"- GET https://{host}/logs/*/raw  # learned 2" in claude.policy.read_text()
        assert "upload" not in claude.policy.read_text()
        assert claude.curl(build.replace("5d41", "0123"))[0] == 200
        assert claude.curl(f"https://{host}/upload", "--data", "x")[0] == 403
    finally:
        claude.write_policy(good)
        claude.sandbox("proxy", "reload")
    time.sleep(0.2)
    listed = claude.sandbox("traffic", "--host", host, "--method", "POST", "--json").stdout.splitlines()
    first, last = (line for line in map(json.loads, listed) if line["path"] == "/upload")
    assert (first["decision"], first["rule"][:6], last["decision"]) == ("allow", "grant:", "deny")
    assert f"POST https://{host}/upload" in claude.sandbox("traffic", "--denied", "--since", "10m").stdout
    assert "learning, by" in claude.sandbox("traffic", "show", first["id"][:10]).stdout
    top = claude.sandbox("traffic", "top", "--host", host).stdout.splitlines()
    assert top[1].split()[0] == host
    database = claude.path.parent / "traffic.db"
    claude.sandbox("traffic", "export", "--sqlite", str(database))
    with closing(sqlite3.connect(database)) as records:
        paths = records.execute("SELECT decision, status FROM records WHERE path = '/upload' ORDER BY time").fetchall()
    assert paths == [("allow", 200), ("deny", 403)]


class Watching:
    """`agent-sandbox watch --plain`, with a scripted person who reads and types."""

    def __init__(self, project: Project) -> None:
        argv = (sys.executable, "-P", "-m", "agent_sandbox", "watch", "--plain")
        self._program = subprocess.Popen(
            argv, cwd=project.path, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def __enter__(self) -> Self:
        """Wait until it is connected: before that, requests do not wait for an answer."""
        while not self._line().startswith("connected; "):
            pass
        return self

    def __exit__(self, *_: object) -> None:
        """End the program."""
        self._type("q")
        self._program.wait(60)
        for pipe in (self._program.stdin, self._program.stdout):
            assert pipe
            pipe.close()

    def answers(self, host: str, letter: str, *, after: str = "") -> None:
        """Wait for the question about a host, and for the line `after` if given, and answer it."""
        while not ((line := self._line()).startswith("? ") and host in line):
            pass
        while after and after not in self._line():
            pass
        self._type(f"{line.split()[1]}{letter}")

    def _line(self) -> str:
        assert self._program.stdout
        line = self._program.stdout.readline()
        assert line, "it has ended"
        return line

    def _type(self, text: str) -> None:
        assert self._program.stdin
        self._program.stdin.write(f"{text}\n")
        self._program.stdin.flush()

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.policy.commands.suggest import MOST_DECLINED, load_declined, save_declined, suggest
from fake_docker import FakeDocker
from fake_stack import with_containers
from log_lines import denied

ITEMS = [denied(f"POST https://api.example.com/i/{number}", at=f"10:0{number}:00") for number in (1, 2, 3, 4)]
LOG = [*ITEMS, denied("GET https://docs.test/"), denied("POST https://example.org/admin", cause="rule"), "no json"]
TEXT = """\
agent-sandbox policy allow 'POST https://api.example.com/i/*'
  4 times, 2026-01-02 10:01:00 to 2026-01-02 10:04:00
  `*` stands for 4 values: 1, 2, 3, ...
  careful: it writes: the agent can send data out this way

agent-sandbox policy allow 'GET https://docs.test/'
  once, 2026-01-02 10:00:00

left out:
  once, denied by a rule: POST example.org/admin
  1 line is not an audit record
"""
STARS = (
    "`*` replaces a value after 3 different values with digits, in otherwise equal requests,"
    " or 10 of any kind in requests that only read\n"
)
FIRST = "add the rule? (1 of 2) [y/N/q] "


@pytest.fixture
def log(policy: Path) -> Path:
    assert policy.exists()
    Path("traffic.jsonl").write_text("\n".join(LOG))
    return Path("traffic.jsonl")


def test_prints_suggestions_as_commands(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: suggest(log)) == 0
    assert capsys.readouterr() == (TEXT, STARS)


def test_suggests_nothing_for_a_log_without_denials(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_text("x\ny\n")
    assert exit_code(lambda: suggest(log)) == 0
    assert capsys.readouterr().out == "nothing to suggest\n\nleft out:\n  2 lines are not audit records\n"
    log.write_text(denied("GET https://a.test/", time=""))
    assert exit_code(lambda: suggest(log)) == 0
    assert capsys.readouterr().out == "agent-sandbox policy allow 'GET https://a.test/'\n  once\n"


def test_suggests_shipped_and_resolved_services_before_the_rule(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_text("\n".join((denied("GET https://go.dev/dl/"), denied("GET https://a.test/a", tool="npm"))))
    assert exit_code(lambda: suggest(log)) == 0
    assert capsys.readouterr().out == (
        "for everything that npm fetches: agent-sandbox policy allow npm\n"
        "  once, 2026-01-02 10:00:00\n"
        "  or agent-sandbox policy allow 'GET https://a.test/a'\n"
        "\n"
        "`- go` under `services`, with everything else that it allows\n"
        "  once, 2026-01-02 10:00:00\n"
        "  or agent-sandbox policy allow 'GET https://go.dev/dl/'\n"
    )


def test_a_denied_push_names_the_command_that_allows_it(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    starts = (f"GET https://{host}/o/n.git/info/refs" for host in ("github.com", "git.test"))
    log.write_text("\n".join(denied(start, tool="git push") for start in starts))
    assert exit_code(lambda: suggest(log)) == 0
    seen = "  once, 2026-01-02 10:00:00\n  careful: it writes: the agent can send data out this way\n"
    assert capsys.readouterr().out == (
        f"agent-sandbox policy allow 'POST https://git.test/o/n.git/git-receive-pack'\n{seen}\n"
        f"agent-sandbox secret setup github --repo o/n\n{seen}"
    )


def test_choose_does_not_ask_about_a_push_that_needs_a_token(
    log: Path, answers: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    log.write_text(denied("GET https://github.com/o/n.git/info/refs", tool="git push"))
    answers()
    assert exit_code(lambda: suggest(log, choose=True)) == 0
    told = capsys.readouterr()
    assert told.out.startswith("agent-sandbox secret setup github --repo o/n\n")
    assert told.err == "run this command: a push to this server also needs a token\n"


def test_limits_the_number_of_printed_suggestions(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_text("\n".join(denied(f"POST https://h{number}.test/") for number in range(60)))
    assert exit_code(lambda: suggest(log)) == 0
    assert capsys.readouterr().out.endswith("\n\nand 10 more, seen less often; --json lists all\n")


def test_json_output_has_every_field(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: suggest(log, json=True)) == 0
    got = json.loads(capsys.readouterr().out)
    times = {"first": "2026-01-02T10:00:00.000Z", "last": "2026-01-02T10:00:00.000Z"}
    assert got == {
        "policy": ".devcontainer/policy.yaml",
        "proposals": [
            {
                "line": "POST https://api.example.com/i/*",
                "count": 4,
                "first": "2026-01-02T10:01:00.000Z",
                "last": "2026-01-02T10:04:00.000Z",
                "stars": [["1", "2", "3", "4"]],
                "warnings": ["it writes: the agent can send data out this way"],
                "services": [],
                "git_command": None,
                "resolve": None,
            },
            {
                "line": "GET https://docs.test/",
                "count": 1,
                **times,
                "stars": [],
                "warnings": [],
                "services": [],
                "git_command": None,
                "resolve": None,
            },
        ],
        "left_out": [{"why": "denied by a rule", "count": 1, **times, "example": "POST example.org/admin"}],
        "unreadable_lines": 1,
    }


def test_choose_asks_about_each_suggestion(
    log: Path, answers: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    policy = Path(".devcontainer/policy.yaml")
    before = policy.read_text()
    answers("", "Y")
    assert exit_code(lambda: suggest(log, choose=True)) == 0
    assert policy.read_text() == f"{before}allow:\n  - GET https://docs.test/\n"
    told = capsys.readouterr()
    assert told.out.endswith(f"\n{policy}:9: added `- GET https://docs.test/` under `allow`\n")
    assert told.err == f"{FIRST}add the rule? (2 of 2) [y/N/q] then: agent-sandbox proxy reload\n"


def test_choose_can_add_the_service_instead_of_the_rule(
    log: Path, answers: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    log.write_text("\n".join((denied("GET https://go.dev/dl/"), denied("GET https://docs.test/"))))
    policy = Path(".devcontainer/policy.yaml")
    before = policy.read_text()
    answers("s", "s")
    assert exit_code(lambda: suggest(log, choose=True)) == 0
    # The other suggestion has no service, so `s` is invalid there.
    assert {*policy.read_text().splitlines()} - {*before.splitlines()} == {"services:", "  - go"}
    assert f"{policy}:9: added `- go` under `services`\n" in capsys.readouterr().out


def test_choose_does_not_ask_again_about_declined_suggestions(
    log: Path, answers: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    answers("n", "q")
    assert exit_code(lambda: suggest(log, choose=True)) == 0
    capsys.readouterr()
    answers("q")
    assert exit_code(lambda: suggest(log, choose=True)) == 0
    told = capsys.readouterr()
    assert told.err == (
        "1 that you declined before left out; agent-sandbox policy suggest lists them\nadd the rule? (1 of 1) [y/N/q] "
    )
    assert told.out.startswith("agent-sandbox policy allow 'GET https://docs.test/'\n")
    assert exit_code(lambda: suggest(log)) == 0
    assert capsys.readouterr().out == TEXT


def test_choose_continues_after_an_entry_that_cannot_be_added(
    log: Path, answers: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    policy = Path(".devcontainer/policy.yaml")
    policy.write_text("{domains: [example.org], allow}\n")
    answers("y", "y")
    assert exit_code(lambda: suggest(log, choose=True)) == 0
    assert capsys.readouterr().err == "".join(
        f"add the rule? ({number} of 2) [y/N/q] error: {policy}: cannot add {line} to this file automatically\n"
        f"  hint: add `- {line}` under `allow` by hand\n"
        for number, line in ((1, "POST https://api.example.com/i/*"), (2, "GET https://docs.test/"))
    )


@pytest.mark.parametrize("words", [("q",), ()])
def test_choose_changes_nothing_if_the_user_quits(
    log: Path, answers: Callable[..., None], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    before = Path(".devcontainer/policy.yaml").read_text()
    answers(*words)
    assert exit_code(lambda: suggest(log, choose=True)) == 0
    assert (Path(".devcontainer/policy.yaml").read_text(), capsys.readouterr().err) == (before, FIRST)


def test_choose_fails_without_a_terminal(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: suggest(log, choose=True)) == 1
    expected = "error: --choose needs a terminal to ask on\n  hint: run it without --choose to print the suggestions\n"
    assert capsys.readouterr() == ("", expected)


def test_reads_denials_from_the_running_proxy_without_a_file(
    docker: FakeDocker, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    command = "exec -T proxy /opt/agent-sandbox/venv/bin/python -P -m agent_sandbox.proxy log"
    with_containers(docker, proxy="healthy").says(
        f"{command} --file /state/log/traffic.jsonl --denied", out="\n".join(ITEMS) + "\n"
    )
    assert exit_code(suggest) == 0
    assert capsys.readouterr().out.startswith("agent-sandbox policy allow 'POST https://api.example.com/i/*'\n")


def test_choose_reloads_the_policy_of_a_running_stack(
    docker: FakeDocker, project: Path, answers: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    answers("y")
    with_containers(docker, proxy="healthy").says("--denied", out="\n".join(ITEMS) + "\n")
    docker.says("agent_sandbox.proxy reload", out='{"ok": true, "digest": "0123456789abcdef"}')
    assert exit_code(lambda: suggest(choose=True)) == 0
    assert "POST https://api.example.com/i/*" in (project / ".devcontainer" / "policy.yaml").read_text()
    assert capsys.readouterr().err == "add the rule? (1 of 1) [y/N/q] policy loaded, digest 0123456789ab\n"


def test_declined_rules_are_remembered_for_each_policy_file(tmp_path: Path) -> None:
    environ, policy = {"HOME": str(tmp_path)}, tmp_path / "policy.yaml"
    assert load_declined(policy, environ) == frozenset()
    save_declined(policy, {"GET https://a.test/", "b.test"}, environ)
    assert load_declined(policy, environ) == {"GET https://a.test/", "b.test"}
    assert load_declined(tmp_path / "other.yaml", environ) == frozenset()


def test_a_damaged_record_counts_as_empty(tmp_path: Path) -> None:
    environ, policy = {"HOME": str(tmp_path)}, tmp_path / "policy.yaml"
    save_declined(policy, {"a.test"}, environ)
    (file,) = (tmp_path / ".local" / "state" / "agent-sandbox" / "declined").iterdir()
    for text in ("no json", "{}", "\xff"):
        file.write_text(text, encoding="latin-1")
        assert load_declined(policy, environ) == frozenset()


def test_limits_the_number_of_remembered_rules(tmp_path: Path) -> None:
    environ, policy = {"HOME": str(tmp_path)}, tmp_path / "policy.yaml"
    save_declined(policy, {str(number) for number in range(MOST_DECLINED + 9)}, environ)
    assert len(load_declined(policy, environ)) == MOST_DECLINED

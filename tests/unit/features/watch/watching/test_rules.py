import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent_sandbox.features.policy.layer_rule import RuleLayer
from agent_sandbox.features.watch.watching import rules as subject
from agent_sandbox.features.watch.watching.rules import Rules
from agent_sandbox.problems import UserError
from page_stand import question, record
from table_tests import each

POLICY = "version: 1\ndomains: [a.test] # mine\ndeny: [never.example.com]\n"
ADDED = "+allow:\n+  - GET https://new.example.com/0"


@pytest.fixture
def written() -> list[str]:
    """The rules that were written."""
    return []


@pytest.fixture
def rules(project: Path, written: list[str]) -> Rules:
    """The rules of a project; writing one prints two lines."""
    (project / ".devcontainer" / "policy.yaml").write_text(POLICY)

    def write(rule: str, layer: RuleLayer) -> None:
        assert layer is RuleLayer.PROJECT
        written.append(rule)
        sys.stdout.write("policy.yaml:5: added\npolicy loaded\n")

    return Rules(project, write)


def denied(**more: object) -> dict[str, object]:
    return {**record(), "host": "new.example.com", **more}


def test_a_change_is_shown_first_and_then_written_once(rules: Rules, written: list[str]) -> None:
    change = rules.of_record(denied())
    assert change.rule == "GET https://new.example.com/0"
    assert change.diff.endswith(f" deny: [never.example.com]\n{ADDED}")
    assert written == []
    assert rules.write(change.id) == "policy.yaml:5: added\npolicy loaded"
    assert written == ["GET https://new.example.com/0"]
    for other in (change.id, "", "x"):
        with pytest.raises(UserError, match="already written, or has expired"):
            rules.write(other)
    assert len(written) == 1


def test_two_stacks_can_write_rules_at_the_same_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    began, streams = threading.Event(), (sys.stdin, sys.stdout, sys.stderr)

    def write_first(*_: object) -> None:
        began.set()
        time.sleep(0.1)
        sys.stdout.write("first")

    def write_second(*_: object) -> None:
        time.sleep(0.2)  # until the first has ended
        sys.stdout.write(f"second{sys.stdin.read()}")

    several = [Rules(tmp_path / name, write) for name, write in (("a", write_first), ("b", write_second))]
    for rules in several:
        (rules._root / ".devcontainer").mkdir(parents=True)
        (rules._root / ".devcontainer" / "policy.yaml").write_text(POLICY)
    first, second = (rules.of_record(denied()).id for rules in several)
    with ThreadPoolExecutor() as pool:
        one = pool.submit(several[0].write, first)
        assert began.wait(30)
        two = pool.submit(several[1].write, second)
    assert (one.result(), two.result()) == ("first", "second")
    assert (sys.stdin, sys.stdout, sys.stderr) == streams
    assert capsys.readouterr() == ("", "")


def test_does_not_write_a_change_if_the_policy_has_changed_since(
    rules: Rules, written: list[str], project: Path
) -> None:
    change = rules.of_record(denied())
    (project / ".devcontainer" / "policy.yaml").write_text(f"{POLICY}# other\n")
    with pytest.raises(UserError, match="changed in the meantime: open the change again"):
        rules.write(change.id)
    assert written == []


def test_only_the_last_changes_can_be_written(rules: Rules, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MOST", 1)
    first, second = rules.of_record(denied()), rules.of_record(denied(path="/b"))
    with pytest.raises(UserError, match="has expired"):
        rules.write(first.id)
    rules.write(second.id)


def test_a_question_has_its_rule(rules: Rules) -> None:
    change = rules.of_question(question(rule="POST https://new.test/x", services=("claude",)))
    assert (change.rule, change.services) == ("POST https://new.test/x", ("claude",))
    assert change.warnings == ("it writes: the agent can send data out this way",)
    for rule in ("", "GET https://new.test/" + "x" * 2_000):
        with pytest.raises(UserError, match="no rule can express exactly this request"):
            rules.of_question(question(rule=rule))
    with pytest.raises(UserError, match="its rule has `ask: true`"):
        rules.of_question(question(asked_by_rule=True))


def test_a_request_without_an_answer_can_become_a_rule(rules: Rules) -> None:
    assert rules.of_record(denied(cause="ask")).rule == "GET https://new.example.com/0"


@each(
    ("change", "why"),
    [
        ({"host": "never.example.com"}, "no rule is suggested: denied by"),
        ({"host": "169.254.169.254"}, "no rule is suggested: a private host"),
        ({"decision": "allow"}, "no rule is suggested: a rule would not have allowed it"),
        ({"cause": "rule"}, "no rule is suggested: denied by a rule"),
        ({"host": "a.test"}, "no rule is suggested: allowed by now"),
        ({"path": "/a%zz"}, "no rule is suggested: an ambiguous request"),
        ({"method": "\x1b[2J"}, "no rule is suggested: an ambiguous request"),
        ({"host": None, "port": "x", "path": ["/"]}, "no rule is suggested: an ambiguous request"),
    ],
)
def test_other_requests_do_not_become_a_rule(rules: Rules, change: dict[str, object], why: str) -> None:
    with pytest.raises(UserError) as raised:
        rules.of_record(denied(**change))
    assert why in str(raised.value.problems[0])


@each("path", ["/**", "/*", "/a*b", "/{x}", "/a b", '/"', "/'", "/: x", "/#", "/%2A%2A", "/\\", "/a%2fb"])
def test_a_path_from_the_sandbox_is_never_a_pattern(rules: Rules, path: str) -> None:
    try:
        rule = rules.of_record(denied(path=path)).rule
    except UserError:
        return
    method, _, url = rule.partition(" ")
    assert (method, url.removeprefix("https://new.example.com")) != ("GET", "/**")
    assert "*" not in url


def test_an_allowed_request_needs_no_change(rules: Rules) -> None:
    with pytest.raises(UserError, match=r"GET https://a.test/\*\* is already allowed"):
        rules.of_question(question(rule="GET https://a.test/**"))


def test_a_rule_for_the_user_is_shown_as_a_change_of_their_own_policy(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("config")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    written: list[tuple[str, RuleLayer]] = []
    rules = Rules(project, lambda *rule: written.append(rule))
    change = rules.of_question(question(rule="GET https://new.example.com/**"), RuleLayer.USER)
    file = folder / "agent-sandbox" / "policy.yaml"
    assert change.layer is RuleLayer.USER
    assert change.diff.startswith(f"--- a/{file}\n")
    assert change.diff.endswith("\n version: 1\n+allow:\n+  - GET https://new.example.com/**")
    rules.write(change.id)
    assert written == [("GET https://new.example.com/**", "user")]
    change = rules.of_question(question(rule="GET https://new.example.com/**"), RuleLayer.USER)
    file.parent.mkdir()
    file.write_text("version: 1\n")
    with pytest.raises(UserError, match="changed in the meantime: open the change again"):
        rules.write(change.id)

from pathlib import Path

import pytest

from agent_sandbox.agents.catalogue import known_agents
from agent_sandbox.cli.framework.complete import candidates
from agent_sandbox.resources import data_root
from agent_sandbox.stack.recorded import Ide
from table_tests import each

POLICY = "services: [{name: github, repos: [o/r], git: {access: read, auth: {secret: github.push}}}]\n"


def names(*words: str) -> list[str]:
    return [line.split("\t")[0] for line in candidates(words)]


@each(
    ("words", "expected"),
    [
        (["in"], ["init"]),
        (["p"], ["ports", "prune", "policy", "project", "proxy"]),
        (["proxy", ""], ["run", "reload", "restart", "logs"]),
        (["policy", "ch"], ["check"]),
        (["--v"], ["--version"]),
        (["-"], ["--version", "--color", "--help"]),
        (["--color", ""], ["auto", "always", "never"]),
        (["status", "--color", "n"], ["never"]),
        (["--color", "never", "ini"], ["init"]),
        (["--color=never", "policy", "ch"], ["check"]),
        (["zzz"], []),
    ],
)
def test_names_are_completed(words: list[str], expected: list[str]) -> None:
    assert names(*words) == expected


def test_a_command_is_completed_with_its_help() -> None:
    assert candidates(["dow"]) == ["down\tStop the stack; keep its state and history."]


def test_completes_agents() -> None:
    assert names("init", "") == list(known_agents(data_root() / "templates"))
    assert names("init", "cl") == names("run", "cl") == ["claude"]
    assert names("run", "") == names("init", "")
    assert names("run", "claude", "") == []


def test_options_of_a_command_are_completed_with_their_help() -> None:
    assert candidates(["init", "claude", "--for"]) == ["--force\tReplace generated files even if they were edited."]
    assert names("init", "--d") == ["--detect", "--dotenv", "--dry-run"]


@pytest.mark.parametrize("words", [("nonsense", ""), ("policy", "nonsense", ""), ("policy", "--")])
def test_offers_nothing_without_a_command(words: tuple[str, ...]) -> None:
    assert names(*words) == []


def test_offers_nothing_for_a_second_word() -> None:
    assert names("completion", "zsh", "") == []
    assert names("policy", "explain", "GET", "") == []


def test_offers_each_agent_once() -> None:
    assert {"claude", "codex"} - {*names("init", "claude", "")} == {"claude"}


def test_values_of_an_option_are_completed() -> None:
    assert names("init", "claude", "--ide", "") == [ide.value for ide in Ide]
    assert names("init", "--ide", "v") == ["vscode"]
    assert names("init", "--name", "") == []


def test_completes_values_after_an_equals_sign() -> None:
    assert names("init", "--ide=") == [f"--ide={ide.value}" for ide in Ide]
    assert names("init", "claude", "--ide=v") == ["--ide=vscode"]
    assert names("init", "--name=") == names("init", "--dry-run=") == names("init", "--nonsense=") == []


def test_handles_the_equals_sign_as_a_word_of_bash() -> None:
    assert names("init", "--ide", "=") == [ide.value for ide in Ide]
    assert names("init", "--ide", "=", "v") == ["vscode"]
    assert names("init", "--name", "=", "x", "cl") == ["claude"]


def test_color_and_its_values_are_completed_everywhere() -> None:
    assert names("up", "--c") == ["--color"]
    assert names("--color", "never", "init", "cl") == names("init", "--color=never", "cl") == ["claude"]


def test_options_and_their_values_are_not_arguments() -> None:
    assert names("init", "--force", "--name", "x", "cl") == ["claude"]


def test_methods_are_completed() -> None:
    for command in ("explain", "allow", "deny"):
        assert names("policy", command, "P") == ["PATCH", "POST", "PUT"]


def test_containers_and_agents_are_completed_once_each() -> None:
    assert names("logs", "") == ["proxy", "firewall", "agent"]
    assert names("logs", "agent", "") == ["proxy", "firewall"]
    assert "claude" not in names("build", "claude", "")


def test_completes_services() -> None:
    assert names("policy", "services", "gith") == ["github"]
    assert names("policy", "services", "show", "no") == ["node"]
    assert names("policy", "services", "resolve", "") == ["debian", "go", "java", "node", "python", "ruby", "rust"]
    assert names("policy", "services", "diff", "") == []
    assert {"list", "show", "diff", "resolve"} < {*names("policy", "services", "")}


def test_secrets_that_the_policy_names_are_completed(empty_project: Path) -> None:
    (empty_project / ".devcontainer").mkdir()
    (empty_project / ".devcontainer" / "policy.yaml").write_text(POLICY)
    for command in ("set", "remove"):
        assert names("secret", command, "") == ["github.push"]
    assert names("secret", "set", "github.push", "") == []


def test_offers_nothing_for_a_command_without_arguments() -> None:
    assert names("version", "") == []


def test_options_of_a_default_command_are_completed() -> None:
    assert names("traffic", "--s") == ["--since"]

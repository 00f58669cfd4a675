import pytest

from agent_sandbox.agents.catalogue import known_agents
from agent_sandbox.cli.framework.complete import candidates
from agent_sandbox.resources import data_root


def names(*words: str) -> list[str]:
    return [line.split("\t")[0] for line in candidates(words).splitlines()]


def test_agents_are_completed() -> None:
    assert names("init", "") == list(known_agents(data_root() / "templates"))
    assert names("init", "cl") == ["claude"]


def test_options_of_a_command_are_completed_with_their_help() -> None:
    assert (
        candidates(["init", "claude", "--for"])
        == "--force\tReplace generated files even if they were edited or are for another agent."
    )
    assert names("init", "--d") == ["--detect", "--dry-run"]


@pytest.mark.parametrize("words", [(), ("",), ("nonsense", ""), ("policy", "nonsense", "")])
def test_where_there_is_no_command_there_are_no_candidates(words: tuple[str, ...]) -> None:
    assert names(*words) == []


def test_a_second_word_is_not_guessed() -> None:
    assert names("init", "claude", "") == []


def test_a_command_without_words_has_none() -> None:
    assert names("version", "") == []

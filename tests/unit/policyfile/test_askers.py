from agent_sandbox.policyfile.askers import aliases, askers
from agent_sandbox.policyfile.resolved import COMMAND, RESOLVED


def test_each_service_that_is_resolved_has_its_words_and_no_other_has() -> None:
    assert list(aliases()) == list(RESOLVED)
    assert [tool for name, tool in RESOLVED.items() if tool not in aliases()[name]] == []


def test_each_says_the_command_that_resolves_it() -> None:
    assert {asker.service: asker.tool for asker in askers()} == RESOLVED
    for asker in askers():
        assert asker.way == f"`{COMMAND} {asker.service}`, then `- {asker.service}` under `services`"

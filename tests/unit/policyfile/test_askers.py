from agent_sandbox.policyfile.askers import Asker, askers
from agent_sandbox.policyfile.resolved import RESOLVED


def test_each_service_that_is_resolved_has_its_words_and_no_other_has() -> None:
    assert list(askers()) == list(RESOLVED)
    assert [tool for name, tool in RESOLVED.items() if tool not in askers()[name].also] == []


def test_they_are_values() -> None:
    debian = askers()["debian"]
    assert (type(debian), debian.clients) == (Asker, ("Debian APT",))

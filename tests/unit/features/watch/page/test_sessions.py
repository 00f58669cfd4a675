from agent_sandbox.features.watch.page.sessions import MOST, Session, Sessions


def test_the_oldest_session_ends_when_there_are_too_many() -> None:
    sessions = Sessions()
    begun = [sessions.begin(sessions.new_token()) for _ in range(MOST + 1)]
    assert [one is not None and sessions.has(one) for one in begun] == [False, *[True] * MOST]


def test_accepts_no_token_before_an_address_was_printed() -> None:
    sessions = Sessions()
    assert sessions.begin("") is None
    assert not sessions.has(Session(cookie="", key=""))

import pytest

from agent_sandbox.features.secrets.sources.time_to_live import parse_ttl
from agent_sandbox.policy.errors import InvalidValue


def test_parses_a_number_with_a_unit() -> None:
    assert [parse_ttl(text) for text in ("30s", "30m", "8h", "365d")] == [30, 1_800, 28_800, 31_536_000]


@pytest.mark.parametrize("text", ["", "8", "h", "8 h", "-1h", "0h", "08h", "29s", "366d", "1e3s", "8H", "9999999s"])
def test_rejects_other_texts(text: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        parse_ttl(text)
    assert raised.value.what == f"not a time to live: {text!r}"

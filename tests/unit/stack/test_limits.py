import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.problems import Problem, UserError
from agent_sandbox.stack.limits import DEFAULT, GIB, MIB, beyond, kept, limit_texts, limits


def problems(**said: str) -> tuple[Problem, ...]:
    with pytest.raises(UserError) as raised:
        limits(said, spelled="--{}")
    return raised.value.problems


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4g", 4 * GIB),
        ("4G", 4 * GIB),
        ("4gb", 4 * GIB),
        ("4GiB", 4 * GIB),
        ("1.5g", 1536 * MIB),
        ("512m", 512 * MIB),
        ("524288k", 512 * MIB),
        ("268435456b", 256 * MIB),
    ],
)
def test_parses_sizes_as_docker_does(text: str, expected: int) -> None:
    assert limits({"memory": text}).memory == expected


@pytest.mark.parametrize("text", ["", "4", "g", "-4g", "4 gigs", "1e9g", "inf", "4t", "٤g", "4g\n"])
def test_rejects_invalid_sizes(text: str) -> None:
    what = f"`{text}` is not a size: a number with k, m or g, as in `4g`"
    assert problems(memory=text) == (Problem(where="--memory", what=what),)


def test_reports_all_problems_at_once() -> None:
    assert problems(memory="4x", cpus="two", pids="1.5") == (
        Problem(where="--memory", what="`4x` is not a size: a number with k, m or g, as in `4g`"),
        Problem(where="--cpus", what="`two` is not a number of processors, as in `2` or `1.5`"),
        Problem(where="--pids", what="`1.5` is not a number of processes, as in `4096`"),
    )


def test_rejects_limits_that_are_too_low() -> None:
    assert problems(memory="0b", cpus="0", pids="63") == (
        Problem(where="--memory", what="`0b` is too little: an agent needs at least 256m"),
        Problem(where="--cpus", what="`0` is too little: an agent needs at least 0.1"),
        Problem(where="--pids", what="`63` is too little: an agent needs at least 64"),
    )


def test_rejects_limits_that_are_too_high_and_suggests_the_default() -> None:
    assert problems(memory="9999999g", cpus="5000", pids="5000000") == (
        Problem(where="--memory", what="`9999999g` is more than any machine has", hint="the default is 8g"),
        Problem(where="--cpus", what="`5000` is more than any machine has", hint="the default is 4"),
        Problem(where="--pids", what="`5000000` is more than any machine has", hint="the default is 4096"),
    )


def test_rejects_an_unknown_limit_and_lists_the_known_limits() -> None:
    expected = Problem(where="--files", what="no such limit", hint="there are memory, cpus, pids, disk")
    assert problems(files="9") == (expected,)


def test_limits_that_are_not_given_stay_unchanged() -> None:
    before = limits({"memory": "2g", "pids": "100"})
    assert kept(limits({"cpus": "1"}, before)) == {"memory": "2g", "cpus": "1", "pids": "100"}
    assert limits({}, before) == before


@given(
    st.integers(256 * MIB, 1 << 50),
    st.integers(10, 409_600).map(lambda hundredths: hundredths / 100),
    st.integers(64, 4_194_304),
)
def test_written_limits_parse_to_the_same_limits(memory: int, cpus: float, pids: int) -> None:
    chosen = limits({"memory": f"{memory}b", "cpus": str(cpus), "pids": str(pids)})
    assert limits(kept(chosen)) == chosen
    assert limits(limit_texts(chosen)) == chosen


def test_default_limits_are_not_written() -> None:
    assert kept(limits(limit_texts(DEFAULT), limits({"memory": "2g"}))) == {}


def test_beyond_returns_limits_above_what_the_machine_has() -> None:
    assert beyond(DEFAULT, memory=8 * GIB, cpus=4) == {}
    assert beyond(DEFAULT, memory=8 * GIB - 1, cpus=2) == {"memory": "8.0 GiB", "cpus": "2"}

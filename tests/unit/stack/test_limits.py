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
def test_a_size_is_written_as_the_engine_takes_it(text: str, expected: int) -> None:
    assert limits({"memory": text}).memory == expected


@pytest.mark.parametrize("text", ["", "4", "g", "-4g", "4 gigs", "1e9g", "inf", "4t", "٤g", "4g\n"])
def test_what_is_no_size_is_told(text: str) -> None:
    what = f"`{text}` is not a size: a number with k, m or g, as in `4g`"
    assert problems(memory=text) == (Problem(where="--memory", what=what),)


def test_every_problem_is_told_at_once() -> None:
    assert problems(memory="4x", cpus="two", pids="1.5") == (
        Problem(where="--memory", what="`4x` is not a size: a number with k, m or g, as in `4g`"),
        Problem(where="--cpus", what="`two` is not a number of processors, as in `2` or `1.5`"),
        Problem(where="--pids", what="`1.5` is not a number of processes, as in `4096`"),
    )


def test_nothing_is_without_a_limit_and_nothing_too_small_to_work() -> None:
    assert problems(memory="0b", cpus="0", pids="63") == (
        Problem(where="--memory", what="`0b` is too little: an agent needs at least 256m"),
        Problem(where="--cpus", what="`0` is too little: an agent needs at least 0.1"),
        Problem(where="--pids", what="`63` is too little: an agent needs at least 64"),
    )


def test_what_no_machine_has_is_told_with_the_default() -> None:
    assert problems(memory="9999999g", cpus="5000", pids="5000000") == (
        Problem(where="--memory", what="`9999999g` is more than any machine has", hint="the default is 8g"),
        Problem(where="--cpus", what="`5000` is more than any machine has", hint="the default is 4"),
        Problem(where="--pids", what="`5000000` is more than any machine has", hint="the default is 4096"),
    )


def test_a_limit_that_there_is_none_of_is_told_with_those_that_there_are() -> None:
    expected = Problem(where="--files", what="no such limit", hint="there are memory, cpus, pids, disk")
    assert problems(files="9") == (expected,)


def test_what_is_not_said_stays_as_it_was() -> None:
    before = limits({"memory": "2g", "pids": "100"})
    assert kept(limits({"cpus": "1"}, before)) == {"memory": "2g", "cpus": "1", "pids": "100"}
    assert limits({}, before) == before


@given(
    st.integers(256 * MIB, 1 << 50),
    st.integers(10, 409_600).map(lambda hundredths: hundredths / 100),
    st.integers(64, 4_194_304),
)
def test_what_is_kept_reads_as_it_was(memory: int, cpus: float, pids: int) -> None:
    chosen = limits({"memory": f"{memory}b", "cpus": str(cpus), "pids": str(pids)})
    assert limits(kept(chosen)) == chosen
    assert limits(limit_texts(chosen)) == chosen


def test_the_default_is_not_kept() -> None:
    assert kept(limits(limit_texts(DEFAULT), limits({"memory": "2g"}))) == {}


def test_what_a_machine_does_not_have_is_beyond_it() -> None:
    assert beyond(DEFAULT, memory=8 * GIB, cpus=4) == {}
    assert beyond(DEFAULT, memory=8 * GIB - 1, cpus=2) == {"memory": "8.0 GiB", "cpus": "2"}

from agent_sandbox.policytools.suggest.generalising import generalise
from table_tests import each

WORDS = [f"/p/{word}" for word in ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]]


@each(
    ("paths", "expected"),
    [
        # A star needs three values with digits, all else the same.
        (["/a/1", "/a/2", "/a/3"], ["/a/*"]),
        (["/a/1", "/a/2"], ["/a/1", "/a/2"]),
        (["/a/1", "/a/2", "/b/3"], ["/a/1", "/a/2", "/b/3"]),
        (["/a/1/x", "/a/2/x", "/a/3/y"], ["/a/1/x", "/a/2/x", "/a/3/y"]),
        (["/a/1", "/a/2", "/a/admin"], ["/a/1", "/a/2", "/a/admin"]),
        (["/a/1/", "/a/2/", "/a/3/"], ["/a/*/"]),
        (["/a/", "/a/1", "/a/2"], ["/a/", "/a/1", "/a/2"]),
        # Or ten values of any kind.
        (WORDS, ["/p/*"]),
        (WORDS[:9], sorted(WORDS[:9])),
        # A common prefix and suffix of the values stay.
        (["/job-1.json", "/job-2.json", "/job-30.json"], ["/job-*.json"]),
        (["/10", "/11", "/12"], ["/*"]),
        (["/a-1-", "/a-1-1-", "/a-2-"], ["/a-*-"]),
        (["/a1.a1.", "/a1.", "/a1.b1.a1."], ["/*"]),
        # Two stars need every combination of values.
        ([f"/{one}/x/{two}" for one in "123" for two in "456"], ["/*/x/*"]),
        ([f"/{one}/x/{one}" for one in "123"], ["/1/x/1", "/2/x/2", "/3/x/3"]),
        # A path with more segments than a glob can have stays unchanged.
        ([f"{'/a' * 40}/{one}" for one in "123"], [f"{'/a' * 40}/{one}" for one in "123"]),
    ],
)
def test_uses_a_star_only_with_enough_different_values(paths: list[str], expected: list[str]) -> None:
    assert [found.text for found in generalise(paths, words=True)] == expected


def test_does_not_generalise_words_with_words_false() -> None:
    assert [found.text for found in generalise(WORDS, words=False)] == sorted(WORDS)


def test_a_pattern_keeps_the_values_of_its_stars() -> None:
    (found,) = generalise([f"/{one}/x/{two}" for one in "123" for two in "456"], words=False)
    assert found.values == {1: frozenset("123"), 3: frozenset("456")}
    assert len(found.paths) == 9


def test_uses_no_more_stars_than_a_rule_can_have() -> None:
    paths = [f"/{'/'.join(['1'] * at + [str(one)] + ['1'] * (9 - at))}" for at in range(10) for one in range(3)]
    assert max(found.text.count("*") for found in generalise(paths, words=False)) <= 8


@each(
    ("paths", "expected"),
    [
        (["/c/5d41402abc4b2a76b9719d911017c592/x"], ["/c/*/x"]),
        (["/u/123E4567-e89b-12d3-a456-426614174000"], ["/u/*"]),
        (["/c/5d41402abc4b/t/b9719d911017"], ["/c/*/t/*"]),
        (["/c/5d41402abc4b", "/c/b9719d911017", "/c/main"], ["/c/*", "/c/main"]),
        (["/c/deadbeefcafe", "/c/1234567", "/c/5d41402abc4z", f"/c/{'a1' * 65}"], None),
        (["/" + "/".join(["5d41402abc4b"] * 9)], None),
        (["/" + "/".join(["5d41402abc4b"] * 33)], None),
    ],
)
def test_one_hash_or_uuid_is_enough_for_a_star(paths: list[str], expected: list[str] | None) -> None:
    assert [found.text for found in generalise(paths, words=True, shapes=True)] == (expected or sorted(paths))


def test_the_values_behind_a_star_are_kept() -> None:
    (found,) = generalise(["/c/5d41402abc4b", "/c/b9719d911017"], words=False, shapes=True)
    assert found.values == {2: {"5d41402abc4b", "b9719d911017"}}
    assert found.paths == {"/c/5d41402abc4b", "/c/b9719d911017"}

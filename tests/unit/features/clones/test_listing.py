from agent_sandbox.features.clones.listing import MOST_BRANCHES, parse_listing
from table_tests import each

COMMIT = "1" * 40
INVISIBLE = "its name contains invisible characters"
NOT_ALLOWED = "git does not allow the name"
CLASH = "its name conflicts with another branch, as `a/b` does with `a`"


def said(*names: str, head: str = "main", files: bytes = b"") -> bytes:
    lines = "".join(f"{COMMIT} refs/heads/{name}\n" for name in names)
    return f"{lines}HEAD refs/heads/{head}\n\0".encode("utf-8", "surrogateescape") + files


def test_lists_branches_and_the_checked_out_branch() -> None:
    found = parse_listing(said("main", "topic/x", "ö"))
    assert (found.branches, found.head) == (dict.fromkeys(("main", "topic/x", "ö"), COMMIT), "main")
    assert (found.refused, found.changed, found.ignored, found.complete) == ({}, (), (), True)


@each(
    "name, why",
    {
        "x\x1b[2J": NOT_ALLOWED,
        "x\x9b2J": INVISIBLE,
        "r\u202eevil": INVISIBLE,
        "z\u200b": INVISIBLE,
        "f\ufe0f": INVISIBLE,
        "b\udcff": INVISIBLE,
        "..": NOT_ALLOWED,
        "a/../../../heads/main": NOT_ALLOWED,
        "/etc": NOT_ALLOWED,
        "-d": NOT_ALLOWED,
        "a.lock": NOT_ALLOWED,
        "a.lock/b": NOT_ALLOWED,
        ".git": NOT_ALLOWED,
        "a/.b": NOT_ALLOWED,
        "a b": NOT_ALLOWED,
        "@": NOT_ALLOWED,
        "a@{1}": NOT_ALLOWED,
        "a*": NOT_ALLOWED,
        "": NOT_ALLOWED,
        "x" * 201: NOT_ALLOWED,
        "Main": "its name differs from another branch only in case",
        "main/x": CLASH,
    }.items(),
)
def test_refuses_branches_with_invalid_or_conflicting_names(name: str, why: str) -> None:
    found = parse_listing(said("main", name))
    assert found.branches == {"main": COMMIT}
    assert found.refused == {name: why}


def test_stashes_are_named_by_their_commits_because_their_numbers_change() -> None:
    second = "2" * 40
    text = "".join(f"{one} refs/stash\n" for one in (COMMIT, COMMIT, second))  # the last one is in the log as well
    found = parse_listing(f"{text}HEAD refs/heads/main\n\0".encode())
    assert found.branches == {"stash-1111111111": COMMIT, "stash-2222222222": second}
    assert (found.stashes, dict(found.refused)) == (frozenset(found.branches), {})


def test_a_branch_wins_over_a_stash_of_the_same_name() -> None:
    same = "1" * 39 + "2"
    found = parse_listing(f"{same} refs/heads/stash-1111111111\n{COMMIT} refs/stash\n-- refs/stash\n\0".encode())
    assert (found.branches, found.stashes) == ({"stash-1111111111": same}, frozenset())
    assert found.refused == {
        "stash-1111111111": "its name differs from another branch only in case",
        "stash---": "it does not name a commit",
    }


def test_commits_of_a_detached_head_are_listed_unless_a_branch_has_them() -> None:
    assert parse_listing(f"{COMMIT} HEAD\n\0".encode()).branches == {"detached": COMMIT}
    assert parse_listing(f"{COMMIT} refs/heads/main\n{COMMIT} HEAD\n\0".encode()).branches == {"main": COMMIT}


def test_refuses_branches_that_do_not_name_a_commit() -> None:
    found = parse_listing(b"-- refs/heads/a\n1234 refs/heads/b\n\0")
    assert (found.branches, [*found.refused]) == ({}, ["a", "b"])


def test_ignores_other_references_and_a_head_without_a_branch() -> None:
    found = parse_listing(f"{COMMIT} refs/tags/x\nHEAD refs/heads/gone\n\0".encode())
    assert (found.branches, found.refused, found.head) == ({}, {}, "")


def test_lists_at_most_the_allowed_number_of_branches() -> None:
    found = parse_listing(said(*(f"b{number}" for number in range(MOST_BRANCHES + 1))))
    assert len(found.branches) == MOST_BRANCHES
    assert [*found.refused.values()] == [f"only {MOST_BRANCHES} branches are fetched"]


def test_separates_changed_files_from_ignored_files() -> None:
    found = parse_listing(said("main", files=b"?? new\0 M a b\0!! build/\0"))
    assert (found.changed, found.ignored, found.complete) == (("new", "a b"), ("build/",), True)


def test_a_truncated_listing_is_incomplete() -> None:
    assert not parse_listing(said("main", files=b"?? new\0?? ha")).complete
    assert not parse_listing(b"").complete
    assert not parse_listing(said("main", files=b"?? new\0"), complete=False).complete

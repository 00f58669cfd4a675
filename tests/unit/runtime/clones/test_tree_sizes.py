import pytest

from agent_sandbox.runtime.clones.tree_sizes import Size, Tree, measure, parse_tree

FILE, FOLDER, LINK = b"100644 ab\0", b"40000 dir\0", b"160000 sub\0"


def test_parses_number_of_files_length_of_their_names_and_directories_of_a_tree() -> None:
    hashed = bytes(range(20))
    data = FILE + hashed + FOLDER + hashed + LINK + hashed
    assert parse_tree(data, 20) == Tree(2, len("ab\0sub\0"), ((len("dir/"), hashed.hex()),))
    assert parse_tree(b"", 20) == Tree()


def test_a_truncated_tree_is_an_error() -> None:
    with pytest.raises(ValueError, match="subsection not found"):
        parse_tree(b"100644 a", 20)
    with pytest.raises(ValueError, match="the last hash is cut off"):
        parse_tree(FOLDER + bytes(19), 20)


def test_measures_the_number_and_the_total_length_of_all_paths() -> None:
    trees = {"inner": Tree(2, 4, ()), "outer": Tree(1, 2, ((3, "inner"), (5, "inner")))}
    paths = ["x", *(f"{folder}/{name}" for folder in ("ab", "abcd") for name in "yz")]
    assert measure("outer", trees, {}) == Size(len(paths), sum(len(path) + 1 for path in paths))


def test_measures_trees_that_are_used_many_times_and_takes_missing_trees_as_empty() -> None:
    trees = {str(level): Tree(0, 0, ((2, str(level + 1)),) * 100) for level in range(100)} | {"100": Tree(1, 2)}
    assert measure("0", trees, {}).paths == 100**100
    assert measure("0", {"0": Tree(1, 2, ((2, "1"),))}, {}) == Size(1, 2)

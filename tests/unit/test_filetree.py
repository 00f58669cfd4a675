from agent_sandbox.filetree import digest


def test_the_order_of_the_files_does_not_matter() -> None:
    assert digest({"a": b"1", "b": b"2"}) == digest({"b": b"2", "a": b"1"})


def test_different_trees_have_different_digests() -> None:
    trees = [{}, {"a": b""}, {"b": b""}, {"a": b"1"}, {"a": b"1", "b": b""}, {"a": b"", "b": b"1"}]
    assert len({digest(tree) for tree in trees}) == len(trees)


def test_the_digest_separates_names_from_content() -> None:
    assert digest({"ab": b"c"}) != digest({"a": b"bc"})

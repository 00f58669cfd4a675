from agent_sandbox.filetree import digest


def test_the_order_of_the_files_does_not_matter() -> None:
    assert digest({"a": b"1", "b": b"2"}) == digest({"b": b"2", "a": b"1"})


def test_every_path_and_every_byte_matters() -> None:
    trees = [{}, {"a": b""}, {"b": b""}, {"a": b"1"}, {"a": b"1", "b": b""}, {"a": b"", "b": b"1"}]
    assert len({digest(tree) for tree in trees}) == len(trees)


def test_bytes_can_not_move_from_a_name_to_a_content() -> None:
    assert digest({"ab": b"c"}) != digest({"a": b"bc"})

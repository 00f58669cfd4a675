from agent_sandbox.policytools.edit.outline import Node, Outline, Style, outline

TEXT = """\
# é 😀
allow:
  - "é" # why
  - b

  # the end
deny: [a, {host: b}]
empty:
"""


def node(of: Outline, name: str) -> Node:
    found = of.root and of.root.section(name)
    assert found
    return found


def test_a_block_ends_after_its_last_value_and_before_trailing_comments() -> None:
    found = node(outline(TEXT), "allow")
    assert (found.style, TEXT[found.start : found.end]) == (Style.BLOCK, '- "é" # why\n  - b')
    assert [(item.text, item.quoted, item.column) for item in found.children] == [("é", True, 4), ("b", False, 4)]


def test_a_flow_list_ends_with_its_bracket() -> None:
    found = node(outline(TEXT), "deny")
    assert (found.style, TEXT[found.start : found.end]) == (Style.FLOW, "[a, {host: b}]")
    assert TEXT[found.children[-1].start : found.children[-1].end] == "{host: b}"


def test_a_key_without_a_value_is_null() -> None:
    found = outline(TEXT)
    assert (node(found, "empty").is_nothing, node(found, "deny").is_nothing) == (True, False)
    assert (node(found, "empty").is_null, node(found, "deny").is_null) == (True, False)
    assert found.root
    assert [key.text for key in found.root.keys] == ["allow", "deny", "empty"]
    assert found.root.section("domains") is None


def test_a_document_can_end_before_the_end_of_the_file() -> None:
    assert outline("a: 1\n...\n# more\n").end == 5
    assert outline("a: 1\n").end == 5
    assert outline("# nothing\n") == Outline(root=None, end=10)

from agent_sandbox.policytools.importing.result import HEADER, Imported, entry_lines


def test_writes_an_entry_with_one_line_for_each_rule() -> None:
    assert entry_lines("a.test") == ["  - a.test"]
    assert entry_lines({"name": "x", "repos": ["a/b"]}) == ["  - {name: x, repos: [a/b]}"]
    entry = {"host": "a.test", "merge_mode": "replace", "rules": [{"methods": ["GET"]}, {"schemes": ["https"]}]}
    assert entry_lines(entry) == [
        "  - host: a.test",
        "    merge_mode: replace",
        "    rules:",
        "      - {methods: [GET]}",
        "      - {schemes: [https]}",
    ]


def test_writes_sections_in_order_and_omits_empty_sections() -> None:
    assert Imported().text() == f"{HEADER}\nversion: 1\n"
    found = Imported(allow=["GET https://a.test/"], services=["x"])
    assert found.text() == f"{HEADER}\nversion: 1\n\nservices:\n  - x\n\nallow:\n  - GET https://a.test/\n"

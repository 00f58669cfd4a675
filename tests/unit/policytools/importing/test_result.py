from agent_sandbox.policytools.importing.result import HEADER, Imported, entry_lines


def test_an_entry_takes_a_line_and_its_rules_one_each() -> None:
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


def test_sections_stand_in_their_order_and_empty_ones_not_at_all() -> None:
    assert Imported().text() == f"{HEADER}\nversion: 1\n"
    found = Imported(allow=["GET https://a.test/"], services=["x"])
    assert found.text() == f"{HEADER}\nversion: 1\n\nservices:\n  - x\n\nallow:\n  - GET https://a.test/\n"

from msgspec.structs import replace

from agent_sandbox.policytools.edit.insertion import insertion, written
from table_tests import each

SHARED = "GET https://x/a"


def inserted(text: str) -> str:
    """Return the edited text, with the insertion between `<` and `>`."""
    change = insertion(text, "allow", SHARED)
    return replace(change, text=f"<{change.text}>").into(text) if change else "no usual way"


@each(
    ("text", "expected"),
    [
        # The file is empty.
        ("", f"<allow:\n  - {SHARED}\n>"),
        ("# c", f"# c<\nallow:\n  - {SHARED}>"),
        ("---\n# c\n", f"---\n# c\n<allow:\n  - {SHARED}\n>"),
        # The section is missing.
        ("version: 1\n", f"version: 1\n<allow:\n  - {SHARED}\n>"),
        ("version: 1", f"version: 1<\nallow:\n  - {SHARED}>"),
        ("version: 1\n\ndeny: []\n# end\n", f"version: 1\n\ndeny: []\n# end\n<\nallow:\n  - {SHARED}\n>"),
        ("deny:\n    - a\n...\n# end\n", f"deny:\n    - a\n<allow:\n    - {SHARED}\n>...\n# end\n"),
        ("  version: 1\n", f"  version: 1\n<  allow:\n    - {SHARED}\n>"),
        # The section has no value.
        ("allow:\n", f"allow:\n<  - {SHARED}\n>"),
        ("allow:", f"allow:<\n  - {SHARED}>"),
        ("allow: # c\n  # - d\ndeny:\n- a\n", f"allow: # c\n<- {SHARED}\n>  # - d\ndeny:\n- a\n"),
        # The section is null.
        ("allow: ~\n", f"allow:<\n  - {SHARED}\n>"),
        ("allow: null # c\ndeny:\n- a\n", f"allow:< # c\n- {SHARED}\n>deny:\n- a\n"),
        ("allow: null", f"allow:<\n  - {SHARED}>"),
        ("allow:\n  null # c\n", f"allow:\n< # c\n  - {SHARED}\n>"),
        ("{allow: null}", f'{{allow: <["{SHARED}"]>}}'),
        ("{allow: , deny: []}\n", f'{{allow: <["{SHARED}"]>, deny: []}}\n'),
        ('allow: "~"\n', "no usual way"),
        # The section is a block list.
        ("allow:\n  - a # c\n\n# d\ndeny: []\n", f"allow:\n  - a # c\n<  - {SHARED}\n>\n# d\ndeny: []\n"),
        ("allow:\n-   a\n-   b", f"allow:\n-   a\n-   b<\n-   {SHARED}>"),
        ("allow:\r\n- a\r\n", f"allow:\r\n- a\r\n<- {SHARED}\r\n>"),
        ("allow:\n- reason: |\n    c\ndeny: []\n", f"allow:\n- reason: |\n    c\n<- {SHARED}\n>deny: []\n"),
        # The section is a flow list.
        ("allow: []\n", f'allow: [<"{SHARED}">]\n'),
        ("allow: [a] # c\n", f'allow: [a<, "{SHARED}">] # c\n'),
        ("allow: [a,]\n", f'allow: [a,< "{SHARED}">]\n'),
        ("allow: [\n  a, # b, c\n]\n", f'allow: [\n  a,< "{SHARED}"> # b, c\n]\n'),
        ("allow: [\n  a # b, c\n]\n", f'allow: [\n  a<, "{SHARED}"> # b, c\n]\n'),
        # The whole file is a flow mapping.
        ("{}", f'{{<allow: ["{SHARED}"]>}}'),
        ('{"deny": []}\n', f'{{"deny": []<, "allow": ["{SHARED}"]>}}\n'),
        ("{allow: [a]}\n", f'{{allow: [a<, "{SHARED}">]}}\n'),
    ],
)
def test_adds_the_entry_to_the_section_in_any_supported_layout(text: str, expected: str) -> None:
    assert inserted(text) == expected


@each(
    ("entry", "expected"),
    [
        ("node", "services: [claude, node]"),
        ("*.a.test", 'services: [claude, "*.a.test"]'),
        ("on", 'services: [claude, "on"]'),
    ],
)
def test_quotes_an_entry_of_a_flow_list_only_if_needed(entry: str, expected: str) -> None:
    change = insertion("services: [claude]", "services", entry)
    assert change is not None
    assert change.into("services: [claude]") == expected


@each(
    ("entry", "expected"),
    [
        (SHARED, SHARED),
        ("GET https://x/a:", '"GET https://x/a:"'),
        ("GET https://x/a #b", '"GET https://x/a #b"'),
        ("*.example.com", '"*.example.com"'),
        ("[2606:4700::1]", '"[2606:4700::1]"'),
        ("on", '"on"'),
        ("bücher.example", '"bücher.example"'),
        ('GET https://x/"', 'GET https://x/"'),
        ("a\nb", '"a\\nb"'),
    ],
)
def test_quotes_an_entry_where_yaml_needs_quotes(entry: str, expected: str) -> None:
    assert written(entry) == expected


@each(
    ("text", "expected"),
    [
        ("", f"<allow:\n  - {SHARED}  # why\n>"),
        ("version: 1\n", f"version: 1\n<allow:\n  - {SHARED}  # why\n>"),
        ("allow:\n", f"allow:\n<  - {SHARED}  # why\n>"),
        ("allow: ~\n", f"allow:<\n  - {SHARED}  # why\n>"),
        ("allow:\n- a\n", f"allow:\n- a\n<- {SHARED}  # why\n>"),
        ("allow: []\n", f'allow: [<"{SHARED}">]\n'),
        ("{}\n", f'{{<allow: ["{SHARED}"]>}}\n'),
    ],
)
def test_adds_a_note_as_a_comment_in_block_lists_only(text: str, expected: str) -> None:
    change = insertion(text, "allow", SHARED, note="why")
    assert change is not None
    assert replace(change, text=f"<{change.text}>").into(text) == expected

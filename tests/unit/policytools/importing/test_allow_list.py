import pytest

from agent_sandbox.policytools.importing import allow_list
from agent_sandbox.policytools.importing.allow_list import INSIDE, WILD, import_allowlist
from agent_sandbox.policytools.importing.records import Note, left_out
from agent_sandbox.problems import UserError
from table_tests import each


@each(
    ("line", "expected"),
    [
        ("GET https://a.test/x", ["GET https://a.test/x"]),
        ("get  https://a.test/x  # why", ["GET https://a.test/x"]),
        ("GET,POST https://a.test/x", ["GET https://a.test/x", "POST https://a.test/x"]),
        # A URL without a path means `/`, and a final star matches any rest.
        ("GET https://a.test", ["GET https://a.test/"]),
        ("GET https://a.test/*", ["GET https://a.test/**"]),
        ("GET https://a.test/v1/*", ["GET https://a.test/v1/**"]),
        ("GET https://a.test/v1*", ["GET https://a.test/v1*", "GET https://a.test/v1*/**"]),
        ("GET https://a.test/v1/**", ["GET https://a.test/v1/**"]),
        ("GET https://a.test:8443/x?*", ["GET https://a.test:8443/x"]),
        ("GET https://a.test/x?a=1", ["GET https://a.test/x?a=1"]),
        ("GET https://*.a.test", ["GET https://*.a.test/"]),
        ("GET https://*.a.test/*", ["GET https://*.a.test/**"]),
        ("", []),
        ("# GET https://a.test/x", []),
    ],
)
def test_converts_a_line_to_short_form_entries(line: str, expected: list[str]) -> None:
    got = import_allowlist(line, file="list")
    assert (got.allow, got.notes) == (expected, [])


@pytest.mark.parametrize(
    "url",
    [
        "https://*.a.test/x",
        "https://*.a.test/x*",
        "https://.a.test/x?a=1",
        "http://*.a.test:8080/x/",
        "https://*.a.test/*/x",
    ],
)
def test_leaves_out_a_path_on_a_host_wildcard(url: str) -> None:
    got = import_allowlist(f"GET https://a.test/\nGET {url}\n", file="list")
    assert got.allow == ["GET https://a.test/"]
    assert got.notes == [left_out("list:2", WILD.format(f"'{url}'"))]


def test_merges_duplicate_lines() -> None:
    assert import_allowlist("GET https://a.test/\r\nGET https://a.test\r\n", file="list").allow == [
        "GET https://a.test/"
    ]


def test_notes_what_the_imported_line_allows_less() -> None:
    got = import_allowlist("\n* https://a.test/a/*/b\n", file="list")
    methods = ("DELETE", "GET", "OPTIONS", "PATCH", "POST", "PUT")
    assert got.allow == [f"{method} https://a.test/a/*/b" for method in methods]
    assert got.notes == [
        Note(where="list:2", what="every method means DELETE, GET, OPTIONS, PATCH, POST, PUT and HEAD here"),
        Note(where="list:2", what=INSIDE),
    ]


def test_suggests_domains_file_for_a_host_list() -> None:
    with pytest.raises(UserError) as caught:
        import_allowlist("# hosts\na.test\n*.b.test  # all\n", file="list")
    hint = "a host list needs no import: put it next to the policy file, and name it there with `domains_file`"
    assert [str(problem) for problem in caught.value.problems] == [
        f"list:2: not `METHOD URL`: 'a.test'; {hint}",
        f"list:3: not `METHOD URL`: '*.b.test'; {hint}",
    ]


def test_reports_all_invalid_lines_at_once() -> None:
    lines = ("GTE https://a.test/", "GET https://a.test/", "https://a.test/", "GET a.test/x", "GET https://a.test/?a=*")
    with pytest.raises(UserError) as caught:
        import_allowlist("\n".join(lines), file="list")
    assert [str(problem) for problem in caught.value.problems] == [
        "list:1: unknown method 'GTE'; did you mean `GET`?",
        "list:3: not `METHOD URL`: 'https://a.test/'; write `GET https://example.com/path*`",
        "list:4: not `METHOD URL`: 'GET a.test/x'; write `GET https://example.com/path*`",
        "list:5: a `*` in a query; name the parameters, or leave the query out to allow any",
    ]


def test_reports_each_invalid_line_once_across_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allow_list, "TOGETHER", 2)
    lines = ("GET https://a.test/1", "GET,POST https://a.test//x*", "GET https://a.test/2", "GET https://a.test:0/")
    with pytest.raises(UserError) as caught:
        import_allowlist("\n".join(lines), file="list")
    assert [problem.where for problem in caught.value.problems] == ["list:2", "list:4"]

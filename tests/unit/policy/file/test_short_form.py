from typing import Any

import pytest

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.file.short_form import write_out_allow, write_out_deny, write_out_host, write_out_rule
from table_tests import each


@each(
    ("line", "host", "ports", "conditions"),
    [
        ("GET https://a.test", "a.test", [443], {"path": {"exact": "/"}}),
        ("GET http://a.test/", "a.test", [80], {"path": {"exact": "/"}}),
        ("GET https://a.test:8443/x", "a.test", [8443], {"path": {"exact": "/x"}}),
        ("GET https://a.test/x/*", "a.test", [443], {"path": {"glob": "/x/*"}}),
        ("GET https://[2001:db8::1]/x", "[2001:db8::1]", [443], {"path": {"exact": "/x"}}),
        (
            "GET https://*.a.test?q=a+b&q",
            "*.a.test",
            [443],
            {"path": {"exact": "/"}, "query": {"exact": {"q": ["a b", ""]}}},
        ),
        ("GET https://a.test/x?", "a.test", [443], {"path": {"exact": "/x"}, "query": {"exact": {}}}),
        (
            "GET https://a.test?q=%ff&q=2",
            "a.test",
            [443],
            {"path": {"exact": "/"}, "query": {"exact": {"q": ["\udcff", "2"]}}},
        ),
    ],
)
def test_expands_a_line_to_an_entry(line: str, host: str, ports: list[int], conditions: dict[str, Any]) -> None:
    rule = {"methods": ["GET"], "schemes": [line.split("://", maxsplit=1)[0].split()[1]], **conditions}
    assert write_out_allow(line) == {"host": host, "ports": ports, "rules": [rule]}


@each(("line", "methods"), [("GET,POST https://a.test", ["GET", "POST"]), ("GET,,x https://a.test", ["GET", "", "x"])])
def test_expands_a_line_with_several_methods_to_one_rule(line: str, methods: list[str]) -> None:
    rule = {"methods": methods, "schemes": ["https"]}
    assert write_out_deny(line) == {"host": "a.test", "rules": [rule]}
    assert write_out_allow(line) == {"host": "a.test", "ports": [443], "rules": [{**rule, "path": {"exact": "/"}}]}


def test_a_deny_without_a_port_is_for_every_port() -> None:
    rule = {"methods": ["POST"], "schemes": ["https"], "path": {"exact": "/x"}}
    assert write_out_deny("POST https://a.test/x") == {"host": "a.test", "rules": [rule]}
    assert write_out_deny("POST https://a.test:444/x") == {"host": "a.test", "rules": [rule], "ports": [444]}


def test_a_deny_without_a_path_is_for_every_path() -> None:
    rule = {"methods": ["POST"], "schemes": ["https"]}
    assert write_out_deny("POST https://a.test") == {"host": "a.test", "rules": [rule]}


def test_a_deny_can_be_a_host() -> None:
    assert write_out_deny("a.test") == write_out_host("a.test") == {"host": "a.test"}


def test_a_deny_without_a_method_is_for_every_method() -> None:
    rule = {"schemes": ["https"], "path": {"glob": "/x/**"}}
    assert write_out_deny("https://a.test/x/**") == {"host": "a.test", "rules": [rule]}
    assert write_out_deny("http://a.test:81") == {"host": "a.test", "rules": [{"schemes": ["http"]}], "ports": [81]}


@each("line", ["ftp://a.test/x", "GET, POST ftp://a.test/"])
def test_rejects_a_deny_with_an_invalid_url(line: str) -> None:
    with pytest.raises(InvalidValue) as invalid:
        write_out_deny(line)
    hint = "write a method and a whole address: `GET https://example.com/path`"
    assert (invalid.value.what, invalid.value.hint) == (f"not `METHOD URL`: {line!r}", hint)


@pytest.mark.parametrize("value", [None, 1, ["a.test"], {"host": "a.test"}])
def test_returns_values_that_are_not_lines_unchanged(value: object) -> None:
    assert write_out_host(value) is value
    assert write_out_deny(value) is value


@each(
    "line",
    [
        "GET",
        "host",
        "GET //a.test/x",
        "GET ftp://a.test/x",
        "GET https://",
        "GET https:///x",
        "GET https://a.test:port/x",
        "GET https://[2001:db8::1/x",
        "https://a.test/\x1b",
        "",
    ],
)
def test_rejects_a_line_that_is_not_a_method_and_url(line: str) -> None:
    with pytest.raises(InvalidValue) as invalid:
        write_out_allow(line)
    hint = "write a method and a whole address: `GET https://example.com/path`"
    assert (invalid.value.what, invalid.value.hint) == (f"not `METHOD URL`: {line!r}", hint)


@each(
    ("line", "whole"),
    [
        ("GET a.test/x", "GET https://a.test/x"),
        ("POST a.test:8443", "POST https://a.test:8443"),
        ("a.test/x?y=1", "GET https://a.test/x?y=1"),
    ],
)
def test_suggests_https_for_a_line_without_a_scheme(line: str, whole: str) -> None:
    with pytest.raises(InvalidValue) as invalid:
        write_out_allow(line)
    assert invalid.value.hint == f"write a method and a whole address: `{whole}`"


RANGE = "name the hosts: a rule cannot allow a range of addresses; one private host goes under `host_services`"


@each(
    ("line", "hint"),
    [
        ("wss://a.test/x", "a WebSocket begins with a GET: `GET https://a.test/x`"),
        ("GET ws://a.test/x", "a WebSocket begins with a GET: `GET http://a.test/x`"),
        (r"^https://a\.test/x/.*$", "a path has `*` and `**`, not regular expressions: `GET https://a.test/x/**`"),
        (r"GET ^https://a\.test/x$", "a path has `*` and `**`, not regular expressions: `GET https://a.test/x`"),
        ("^https://a.test/\x1b", "write a method and a whole address: `GET https://example.com/path`"),
        ("203.0.113.0/24", RANGE),
        ("https://203.0.113.0/24", RANGE),
        ("GET|POST https://a.test/x", "write commas between the methods: `GET,POST https://a.test/x`"),
    ],
)
def test_corrects_syntax_of_other_tools(line: str, hint: str) -> None:
    with pytest.raises(InvalidValue) as invalid:
        write_out_allow(line)
    assert (invalid.value.what, invalid.value.hint) == (f"not `METHOD URL`: {line!r}", hint)


@each("line", ["a.test", "*.a.test", ".a.test", "bücher.test"])
def test_suggests_domains_for_a_host_alone(line: str) -> None:
    with pytest.raises(InvalidValue) as invalid:
        write_out_allow(line)
    one = "for one request write a method and a whole address: `GET https://example.com/path`"
    assert invalid.value.hint == f"a host alone goes under `domains`; {one}"


def test_suggests_a_method_for_a_url_without_a_method() -> None:
    with pytest.raises(InvalidValue) as invalid:
        write_out_allow("https://a.test/x")
    assert invalid.value.hint == "add a method: `GET https://a.test/x`"


def test_rejects_an_allow_that_is_not_a_line() -> None:
    with pytest.raises(InvalidValue, match="an entry of `allow` has to be one line"):
        write_out_allow({"host": "a.test"})


@pytest.mark.parametrize(
    ("rule", "written_out"),
    [
        ({"method": "get", "scheme": "HTTPS"}, {"methods": ["GET"], "schemes": ["https"]}),
        ({"methods": ["GET"]}, {"methods": ["GET"]}),
        ({"method": 1}, {"method": 1}),
        ("x", "x"),
    ],
)
def test_expands_method_and_scheme_to_lists(rule: object, written_out: object) -> None:
    assert write_out_rule(rule) == written_out


@pytest.mark.parametrize("rule", [{}, {"reason": "it is needed"}])
def test_rejects_a_rule_without_a_condition(rule: object) -> None:
    with pytest.raises(InvalidValue) as invalid:
        write_out_rule(rule)
    hint = "add one, such as `methods: [GET]`; to match every request, remove `rules`"
    assert (invalid.value.what, invalid.value.hint) == ("a rule without a condition matches every request", hint)


def test_rejects_a_rule_with_both_method_and_methods() -> None:
    with pytest.raises(InvalidValue) as invalid:
        write_out_rule({"method": "GET", "methods": ["POST"]})
    assert (invalid.value.what, invalid.value.hint) == ("both `method` and `methods` are set", "keep `methods`")


def test_rejects_a_url_with_a_fragment() -> None:
    with pytest.raises(InvalidValue) as invalid:
        write_out_allow("GET https://a.test/?a=1#b")
    assert (invalid.value.what, invalid.value.hint) == (
        "'GET https://a.test/?a=1#b' has a fragment",
        "remove it: clients never send it",
    )

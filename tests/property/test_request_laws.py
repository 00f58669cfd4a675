"""The laws of parsing requests: canonical forms are stable, and spelling never changes a decision."""

import string
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_sandbox.policy import Ambiguous, Request, canonical_host, parse_authority, parse_request
from agent_sandbox.policy.http.path import canonical_path, readings
from agent_sandbox.policy.http.query import parameters_of

labels = st.text(string.ascii_letters + string.digits + "_", min_size=1, max_size=8)
names = st.lists(labels, min_size=1, max_size=4).map(".".join)
hosts = st.one_of(names, st.ip_addresses(v=4).map(str), st.ip_addresses(v=6).map(str), st.text(max_size=12))
segments = st.text(string.ascii_letters + string.digits + "-._~!$&'()*+,=:@;%/\\é \x00", max_size=6)
raw_paths = st.lists(segments, max_size=4).map(lambda parts: "/" + "/".join(parts))
encoded_paths = st.lists(st.text(max_size=4).map(lambda text: quote(text, safe="")), max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)
any_path = st.one_of(raw_paths, encoded_paths)


@given(hosts)
@example("Bücher.example.")
def test_a_canonical_host_is_its_own_canonical_form(text: str) -> None:
    try:
        host = canonical_host(text)
    except Ambiguous:
        return
    assert canonical_host(host) == host
    assert host.isascii()
    assert host == host.lower()


@given(names)
def test_canonical_host_ignores_case_and_a_trailing_dot(name: str) -> None:
    try:
        host = canonical_host(name)
    except Ambiguous:
        return
    assert canonical_host(name.upper() + ".") == canonical_host(name.swapcase()) == host


@given(names, st.integers(1, 65535))
def test_an_authority_without_a_port_has_the_default_port(name: str, port: int) -> None:
    try:
        expected = (canonical_host(name), port)
    except Ambiguous:
        return
    assert parse_authority(name, default_port=port) == parse_authority(f"{name}:{port}", default_port=1) == expected


@given(any_path, st.sampled_from(("refused", "taken")))
@example("/%2525", "refused")
@example("/%25%32%65", "refused")
def test_a_canonical_path_is_its_own_canonical_form_and_never_ambiguous(text: str, encoded_slash: str) -> None:
    taken = encoded_slash == "taken"
    try:
        path = canonical_path(text, encoded_slash=taken)
    except Ambiguous:
        return
    assert canonical_path(path, encoded_slash=taken) == path
    for way in readings(path):
        assert way.startswith("/")
        assert "//" not in way
        assert not {".", ".."} & set(way.split("/"))


@given(st.text(string.ascii_letters + string.digits + "-_~", min_size=1))
def test_percent_encoding_unreserved_characters_changes_nothing(segment: str) -> None:
    encoded = "".join(f"%{ord(letter):02x}" for letter in segment)
    assert canonical_path(f"/{encoded}") == canonical_path(f"/{segment}") == f"/{segment}"


@given(st.text(max_size=60))
def test_a_canonical_path_is_printable_ascii(text: str) -> None:
    try:
        path = canonical_path(text)
    except Ambiguous:
        return
    assert path.isascii()
    assert path.isprintable()


@given(st.text(max_size=60))
def test_reads_every_parameter_of_any_query(text: str) -> None:
    assert len(parameters_of(text)) == (text.count("&") + 1 if text else 0)


@given(st.text(max_size=8), st.text(max_size=12), st.integers(-1, 70000), st.text(max_size=8), st.text(max_size=40))
@example("https", "a.test", 443, "GET", "/x?y")
def test_a_parsed_request_parses_to_the_same_request_again(
    scheme: str, host: str, port: int, method: str, target: str
) -> None:
    try:
        request = parse_request(scheme=scheme, host=host, port=port, method=method, target=target)
    except Ambiguous:
        return
    again = parse_request(
        scheme=request.scheme, host=request.host, port=request.port, method=request.method, target=request.target
    )
    assert again == request


def test_a_request_is_immutable_and_compared_by_value() -> None:
    request = parse_request(scheme="https", host="a.test", port=443, method="GET", target="/")
    assert request == Request(scheme="https", host="a.test", port=443, method="GET", path="/", query="")
    with pytest.raises(AttributeError):
        request.host = "evil.test"  # type: ignore[misc] # that is what is tried

"""The laws of the door: what is normalised stays so, and spelling never changes what is decided."""

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
def test_case_and_the_root_s_dot_do_not_count(name: str) -> None:
    try:
        host = canonical_host(name)
    except Ambiguous:
        return
    assert canonical_host(name.upper() + ".") == canonical_host(name.swapcase()) == host


@given(names, st.integers(1, 65535))
def test_a_port_that_is_the_default_may_be_left_out(name: str, port: int) -> None:
    try:
        expected = (canonical_host(name), port)
    except Ambiguous:
        return
    assert parse_authority(name, default_port=port) == parse_authority(f"{name}:{port}", default_port=1) == expected


@given(any_path, st.sampled_from(("refused", "taken")))
@example("/%2525", "refused")
@example("/%25%32%65", "refused")
def test_a_canonical_path_is_its_own_canonical_form_and_never_doubtful(text: str, encoded_slash: str) -> None:
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
def test_encoding_what_needs_none_changes_nothing(segment: str) -> None:
    encoded = "".join(f"%{ord(letter):02x}" for letter in segment)
    assert canonical_path(f"/{encoded}") == canonical_path(f"/{segment}") == f"/{segment}"


@given(st.text(max_size=60))
def test_a_path_is_canonical_or_doubtful_and_nothing_else(text: str) -> None:
    try:
        path = canonical_path(text)
    except Ambiguous:
        return
    assert path.isascii()
    assert path.isprintable()


@given(st.text(max_size=60))
def test_a_query_is_read_to_the_last_piece_and_never_fails(text: str) -> None:
    assert len(parameters_of(text)) == (text.count("&") + 1 if text else 0)


@given(st.text(max_size=8), st.text(max_size=12), st.integers(-1, 70000), st.text(max_size=8), st.text(max_size=40))
@example("https", "a.test", 443, "GET", "/x?y")
def test_the_door_answers_with_a_request_or_a_doubt(
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


def test_a_request_is_a_value() -> None:
    request = parse_request(scheme="https", host="a.test", port=443, method="GET", target="/")
    assert request == Request(scheme="https", host="a.test", port=443, method="GET", path="/", query="")
    with pytest.raises(AttributeError):
        request.host = "evil.test"  # type: ignore[misc] # that is what is tried

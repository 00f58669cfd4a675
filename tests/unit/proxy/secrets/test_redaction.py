import base64
import json
import re
from base64 import b64decode
from functools import cache
from html import escape
from urllib.parse import quote

import pytest

from agent_sandbox.policy.match.credential_kind import KINDS
from agent_sandbox.proxy.secrets.encoded_text import FoldedText, HexText
from agent_sandbox.proxy.secrets.escaped_text import EscapedText
from agent_sandbox.proxy.secrets.redaction import PIECE, Redactor, redact, secret_encodings
from encoders import FOUND, NOT_FOUND, texts
from table_tests import each

VALUE = "k3y/<\"'+>\\x"
BEARER, BASIC = KINDS["bearer"], KINDS["basic"]
encodings = cache(secret_encodings)  # its first search makes patterns and tables, which takes longer than the search


def test_forms_of_a_plain_secret_are_text_hex_and_base64() -> None:
    folded = map(FoldedText, (b"c2VjcmV0", b"NlY3Jld", b"zZWNyZX"))
    expected = (EscapedText(b"secret"), HexText(b"736563726574"), *folded)
    assert expected == secret_encodings("secret", BEARER)[:5]


def test_forms_of_a_basic_credential_include_password_and_token() -> None:
    assert secret_encodings("pa?????ss", BASIC, "user")[:2] == (
        EscapedText(b"pa?????ss"),
        EscapedText(b"dXNlcjpwYT8/Pz8/c3M"),
    )


def test_repr_of_a_form_does_not_contain_the_secret() -> None:
    assert "secret" not in repr(secret_encodings("secret", BEARER)[0])


@pytest.mark.slow
@each(
    "echo",
    [
        VALUE,
        f"authorization: Bearer {VALUE}",
        "k3y%2F%3C%22%27%2B%3E%5Cx",
        "k3y%2f%3c%22%27%2b%3e%5cx",
        "k3y/%3C%22%27%2B%3E%5Cx",  # as Python leaves a slash
        "k3y%2F%3C%22'%2B%3E%5Cx",  # as JavaScript leaves a quote
        r"k3y/<\"'+>\\x",
        r"k3y\/<\"'+>\\x",  # as PHP writes a slash
        r"k3y/\u003c\"'+\u003e\\x",  # as JSON within HTML
        "k3y/&lt;&quot;&#x27;+&gt;\\x",
        "k3y/&lt;&#34;&#39;&#43;&gt;\\x",  # as Go's html/template does
        "k3y&#x2F;&lt;&quot;&#39;+&gt;\\x",  # as Mustache does
        "k3y&sol;&lt&QUOT;&apos;&plus;&GT;&bsol;x",
        r"k3y\x2F\x3C\x22\x27\x2B\x3E\x5Cx",  # as Django writes into JavaScript
        "".join(f"%{ord(char):02X}" for char in VALUE),
        "".join(f"%%{ord(char):02x}" for char in VALUE),
        "".join(f"%u00{ord(char):02X}" for char in VALUE),
        "".join(f"\\x{ord(char):02x}" for char in VALUE),
        "".join(f"\\x{ord(char):04X}" for char in VALUE),
        "".join(f"\\u{ord(char):04X}" for char in VALUE),
        "".join(f"\\U{ord(char):08x}" for char in VALUE),
        "".join(f"\\u{{{ord(char):x}}}" for char in VALUE),
        "".join(f"\\x{{{ord(char):06X}}}" for char in VALUE),
        "".join(f"\\{ord(char):03o}" for char in VALUE),
        "".join(f"\\{ord(char):06x}" for char in VALUE),  # as OWASP's CSS encoder does
        "".join(f"\\{ord(char):x} " for char in VALUE),
        "".join(f"&#{ord(char)};" for char in VALUE),
        "".join(f"&#{ord(char)}" for char in VALUE),
        "".join(f"&#x{ord(char):X};" for char in VALUE),
        "".join(f"&#X{ord(char):x};" for char in VALUE),
        "".join(f"&#{ord(char):07d};" for char in VALUE),
        "".join(f"&#x{ord(char):08x};" for char in VALUE),
        r"\k\3\y/<\"''+>\\x".replace("\\k\\3\\y", "k3y"),  # as SQL doubles a quote
        r"k%33&#121;\/\u003c&quot;\x27\u{2b}\076&#x5c;x",  # mixed
        VALUE.encode().hex(),
        VALUE.encode().hex().upper(),
        "6b33792F3c2227"[:14] + VALUE.encode().hex()[14:].title(),
        "k3y%252F%253C%2522%2527%252B%253E%255Cx",
        "k3y%25%2532f%253c%252522".replace("%25%2532f%253c%252522", "%252f%253c%2522") + "%2527%252b%253e%255cx",
        "k3y&amp;#x2F;&amp;lt;&amp;quot;&amp;#39;&amp;#43;&amp;gt;&amp;bsol;x",
        "k3y/%26lt%3B%26quot%3B%26%2339%3B%2B%26gt%3B%5Cx",  # HTML in a URL
        "k3y\\/<\\\"'+>\\\\x",  # JSON in JSON
        "k3y\\\\u002f\\\\u003c\\\\u0022\\\\u0027\\\\u002b\\\\u003e\\\\u005cx",
        "k3y/\\u0026lt;\\u0026quot;\\u0026#39;+\\u0026gt;\\\\x",  # HTML in JSON
        "k3y%5Cu002F%5Cu003C%5C%22%5Cu0027%5Cu002B%5Cu003E%5C%5Cx",  # JSON in a URL
    ],
)
def test_redacts_echoes_as_servers_write_them(echo: str) -> None:
    size = len(echo.removeprefix("authorization: Bearer ").encode())
    lead = echo.encode()[:-size]
    expected = b"<" + lead + b"*" * size + b">"
    assert expected == redact(encodings(VALUE, BEARER), f"<{echo}>".encode())
    redactor = Redactor(encodings(VALUE, BEARER))
    assert expected == b"".join(
        [*(part for byte in f"<{echo}>".encode() for part in redactor.feed(bytes([byte]))), redactor.end()]
    )


@each(
    "echo",
    [
        VALUE.upper(),
        VALUE[::-1],
        "k3y/\n<\"'+>\\x",
        "k3y%25252F%25253C%252522%252527%25252B%25253E%25255Cx",
        "%25%36%62%25%33%33%25%37%39/<\"'+>\\x",  # letters and digits that are escaped twice
        base64.b64encode(base64.b64encode(base64.b64encode(VALUE.encode()))).decode(),
        base64.b64encode(VALUE.encode().hex().encode()).decode(),
        "k3y/<\"'&#00000000043;>\\x",
    ],
)
def test_does_not_find_the_encodings_that_the_documentation_excludes(echo: str) -> None:
    assert redact(encodings(VALUE, BEARER), echo.encode()) == echo.encode()


WORDS = "k3y /<\"'+>\\x_=z9"


@pytest.mark.slow
@each("name", FOUND)
def test_redacts_what_each_encoder_in_the_documentation_writes(name: str) -> None:
    written = FOUND[name](WORDS)
    data = f"<{written}>".encode()
    shown = redact(encodings(WORDS, BEARER), data)
    # The ends of base64 and base32, and brackets, also depend on what is beside the secret.
    assert shown.count(b"*") >= len(written) - 8
    assert {*re.findall(rb"[^*]{5,}", shown)} <= {b"E======>"}
    redactor = Redactor(encodings(WORDS, BEARER))
    assert shown == b"".join([*(part for byte in data for part in redactor.feed(bytes([byte]))), redactor.end()])


@each("name", NOT_FOUND)
def test_does_not_find_what_each_encoder_that_the_documentation_excludes_writes(name: str) -> None:
    data = f"<{NOT_FOUND[name](WORDS)}>".encode()
    assert redact(encodings(WORDS, BEARER), data) == data


def test_the_page_lists_the_encoders_that_are_tested() -> None:
    assert {path: path.read_text() for path in texts()} == texts(), "run tests/lab/encoders.py"


@each("before", ["", "1", "12", "123", "1234"])
def test_redacts_base32_and_base64_of_utf_16_within_a_longer_text(before: str) -> None:
    text = f"{before}{WORDS}, and more"
    for encode, bits in ((base64.b32encode, 5), (base64.b64encode, 6)):
        for charset in ("utf-8",) if bits == 5 else ("utf-16-le", "utf-16-be"):
            shown = redact(encodings(WORDS, BEARER), encode(text.encode(charset)))
            assert shown.count(b"*") >= len(WORDS.encode(charset)) * 8 // bits - 4


LONG = "sk-proj-" + "aB3dE5fG7hI9" * 8
JOINED = base64.b64encode(f'{{"authorization": "Bearer {LONG}"}}'.encode())


@pytest.mark.slow
@each(
    "end",
    [b"\n", b"\r\n", b"\\n", b"\\r\\n"],
)
@each("width", [60, 64, 76, 77])
def test_redacts_base64_in_lines(end: bytes, width: int) -> None:
    for text in (JOINED, base64.urlsafe_b64encode(f"xx{LONG}".encode())):
        lines = end.join(text[at : at + width] for at in range(0, len(text), width))
        shown = redact(encodings(LONG, BEARER), b"x: " + lines + end)
        left = b64decode(shown.replace(end, b"").replace(b"*", b"").replace(b"x: ", b"") + b"===")
        assert b"aB3d" not in left
        assert len(shown) == len(lines) + len(end) + 3
        redactor = Redactor(encodings(LONG, BEARER))
        cut = b"x: " + lines + end
        assert b"".join([*(part for byte in cut for part in redactor.feed(bytes([byte]))), redactor.end()]) == shown


@each("before", ["", "1", "12"])
@each("inner", ["", "1", "12"])
def test_redacts_base64_of_base64_urls_and_html(before: str, inner: str) -> None:
    for once in (base64.b64encode(f"{inner}{VALUE}".encode()), quote(f"?{VALUE}").encode(), escape(VALUE).encode()):
        twice = base64.b64encode(before.encode() + once)
        shown = redact(encodings(VALUE, BEARER), twice)
        assert shown.count(b"*") >= len(twice) - 12 - len(inner + before)


def test_redacts_a_space_that_is_written_as_a_plus() -> None:
    assert redact(encodings("two words", BEARER), b"two+words two%20words") == b"********* ***********"


@each("before", ["", "1", "12", "123"])
def test_base64_of_a_text_with_the_secret_keeps_only_a_few_bits_of_its_ends(before: str) -> None:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = json.dumps({before: VALUE, "ensure": "more"}).encode()
        shown = redact(encodings(VALUE, BEARER), encode(text))
        written = json.dumps(VALUE)[1:-1].encode()
        start = text.index(written)
        stars = range(-(-start * 8 // 6), (start + len(written)) * 8 // 6)
        expected = bytes(ord("*") if at in stars else sign for at, sign in enumerate(encode(text)))
        assert expected == shown


@each(
    ("echo", "expected"),
    [
        ("Basic dXNlcjpwYT8/Pz8/c3M=", "Basic *******************="),
        ("dXNlcjpwYT8/Pz8/c3M", "*" * 19),
        ("dXNlcjpwYT8%2FPz8%2Fc3M%3D", "*" * 23 + "%3D"),
        (r"dXNlcjpwYT8\/Pz8\/c3M=", "*" * 21 + "="),
        ("pa?????ss", "*" * 9),
    ],
)
def test_redacts_the_whole_token_of_a_basic_credential(echo: str, expected: str) -> None:
    assert expected == redact(encodings("pa?????ss", BASIC, "user"), echo.encode()).decode()


def test_redacts_overlapping_matches_completely() -> None:
    assert redact([b"secret", b"retina", b"nab"], b"a secretinab, a tin") == b"a **********, a tin"
    assert redact([b"ana"], b"banana") == b"b*****"


def fed(redactor: Redactor, pieces: list[bytes]) -> list[bytes]:
    """Return what is passed on of each piece."""
    return [b"".join(redactor.feed(piece)) for piece in pieces]


def test_finds_a_match_that_overlaps_one_in_the_previous_piece() -> None:
    redactor = Redactor([b"secret", b"retina"])
    assert [*fed(redactor, [b"a sec", b"ret", b"ina"]), redactor.end()] == [
        b"a ",
        b"***",
        b"******",
        b"",
    ]
    assert redactor.redacted == 2


def test_passes_on_held_bytes_that_turn_out_not_to_match() -> None:
    redactor = Redactor([b"secret", b"retina"])
    assert [*fed(redactor, [b"secret", b"ire", b"t"]), redactor.end()] == [
        b"***",
        b"***i",
        b"",
        b"ret",
    ]
    assert redactor.redacted == 1


def test_holds_back_nothing_that_cannot_begin_a_match() -> None:
    redactor = Redactor([b"secret", b"ssecond"])
    events = [b"data: a\n\n", b"s", b"", b"s", b"data: secre\n\n", b"sss"]
    assert fed(redactor, events) == [
        b"data: a\n\n",
        b"",
        b"",
        b"",
        b"ssdata: secre\n\n",
        b"s",
    ]
    assert (redactor.end(), redactor.end(), redactor.redacted) == (b"ss", b"", 0)


def test_holds_back_only_the_start_of_one_form() -> None:
    redactor = Redactor([b"axxxxx", b"xayyyy", b"axxxxx"])
    assert [*fed(redactor, [b"ba", b"xxxxx"]), redactor.end()] == [b"b", b"*****", b"*"]
    assert redactor.redacted == 1


def test_passes_data_unchanged_without_forms() -> None:
    redactor = Redactor(())
    data = b"as it is"
    assert next(redactor.feed(data)) is data
    assert redact((), data) is data


def test_redacts_long_runs_between_unknown_escapes() -> None:
    value = "0123456789abcdefXYZ+ABCDEFGHIJKLMNOP==short"
    found = encodings(value, BEARER)
    assert redact(found, value.replace("=", "[=]").encode()) == b"*******************+****************[=][=]short"
    assert redact(found, value.encode()) == b"*" * len(value)


@each("echo", [VALUE, escape(VALUE), quote(VALUE, safe=""), VALUE.encode().hex()])
def test_finds_an_echo_across_the_pieces_of_a_large_chunk(echo: str) -> None:
    forms = encodings(VALUE, BEARER)
    for before in range(PIECE - len(echo), PIECE + 1):
        redactor = Redactor(forms)
        shown = b"".join(redactor.feed(b"." * before + echo.encode() + b"." * PIECE)) + redactor.end()
        assert shown == b"." * before + b"*" * len(echo) + b"." * PIECE


@each(("last", "escaped"), [("%", "\\\\%"), ("%", "%25%"), ("&", "\\\\&"), ("&", "&amp;#38;"), ('"', '\\\\\\"')])
def test_finds_a_last_character_that_is_escaped_twice_at_the_end_of_the_data(last: str, escaped: str) -> None:
    forms, echo = encodings(f"correct horse{last}", BEARER), f"correct horse{escaped}".encode()
    redactor = Redactor(forms)
    assert b"".join(redactor.feed(echo)) + redactor.end() == redact(forms, echo) == b"*" * len(echo)


def test_overwrites_all_that_follows_once_a_search_is_too_costly() -> None:
    redactor = Redactor(encodings("a" * 1_000 + "b", BEARER))
    shown = [b"".join(redactor.feed(data)) for data in (b"a word ", b"&#97;" * 30_000, b"more", b"x")]
    assert (shown[0], shown[2:], redactor.end()) == (b"a word ", [b"****", b"*"], b"")
    assert shown[1].endswith(b"*" * 100_000)


def test_overwrites_a_text_that_is_too_costly_to_search() -> None:
    found = encodings("a" * 1_000 + "b", BEARER)
    assert redact(found, b"&#97;" * 30_000) == b"*" * 150_000


@pytest.mark.parametrize("sep", ["", " ", ":", "-", ", 0x", ",0x"])
def test_redacts_the_header_of_a_password_in_hex(sep: str) -> None:
    """A server that dumps the header, and not the password, reveals it as well."""
    token = base64.b64encode(b"bot:correct horse").decode().rstrip("=")
    shown = sep.join(f"{byte:02x}" for byte in token.encode())
    found = redact(secret_encodings("correct horse", KINDS["basic"], "bot"), f"<{shown}>".encode())
    assert found.strip(b"<>").strip(b"*") == b""

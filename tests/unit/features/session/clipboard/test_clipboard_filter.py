import base64
import re
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from agent_sandbox.features.session.clipboard.clipboard_filter import LONGEST, ClipboardFilter, copy_sequence
from table_tests import each

TEXT = base64.b64encode(b"secret")
# The start of a control string in some terminal: ESC, controls that it can act on, and a bracket; or C1.
BEGINS = re.compile(r"\x1b[\x00-\x1f\x7f]*[]P_^X]|[\x90\x98\x9d\x9e\x9f]")
ENDS = re.compile(r"[\x07\x18\x1a\x1b\x9c]")
NUMBER = re.compile(r"[\x00-\x1f\x7f ]*0*52\D")


def filtered(*parts: bytes) -> tuple[bytes, list[bytes]]:
    """Return the output for these parts, and the texts that they copy or the URLs that they want to open."""
    copies: list[bytes] = []
    one = ClipboardFilter(copies.append, copies.append)
    return b"".join(map(one.feed, parts)), copies


def reaches_clipboard(shown: bytes) -> bool:
    """Return whether some terminal, or one inside tmux or screen, would find OSC 52 in the output."""
    text = shown.decode()  # the output is always valid UTF-8
    if "\x1bPtmux;" in text:
        return True
    return any(NUMBER.match(text, found.end()) for found in BEGINS.finditer(text))


@each(
    "output",
    (
        b"text \xe2\x80\x9d52;c; \xc3\xa4\xf0\x9f\x98\x80\r\n",
        b"\x1b[1;31mred\x1b[0m\x1b(B\x1b7\x1b8\x1b[?1049h\x1b[?2026l",
        b"\x1b]0;title\x07\x1b]8;;https://host.test/52;c\x1b\\link\x1b]8;;\x1b\\\x1b]l old title\x1b\\",
        b"\x1b]11;?\x1b\\\x1b]104\x07\x1b]520;x\x07\x1b]152;c;QQ==\x07",
        b"\x1bPq#0;2;0;0;0~~\x1b\\\x1bP$qm\x1b\\\x1bP+q544e\x1b\\",
        b"\x1b_Gf=100;AAAA\x1b\\\x1b_Ga=T,t=d,m=1;t=fA\x1b\\\x1b]1337;File=inline=1:AAAA\x07\x1b]9;done\x07",
        b"a bell \x07, cancel \x18",
    ),
)
def test_passes_all_other_output_unchanged(output: bytes) -> None:
    assert filtered(output) == (output, [])


@each(
    "form",
    (
        b"\x1b]52;c;%s\x07",
        b"\x1b]52;c;%s\x1b\\",
        b"\x1b]52;c;%s\xc2\x9c",
        b"\xc2\x9d52;c;%s\xc2\x9c",
        b"\x1b]0052;;%s\x07",
        b"\x1b]52;pqs01;%s\x07",
        b"\x1b]5\x002;c\x7f;%s\x07",
        b"\x1b\x1b]52;c;%s\x07",
        b"\x1bPtmux;\x1b\x1b]52;c;%s\x07\x1b\\",
        b"\x1bP\x1b]52;c;%s\x07\x1b\\",
        b"\x1b]0;title\x1b]52;c;%s\x07",
        b"\x1b[1;\x1b]52;c;%s\x07",
        b"\xe2\x1b]52;c;%s\x07",
        b"\x1b_x\x1b]52;c;%s\x07",
        b"\x1b%%@\xc2\x9d52;c;%s\x07",
    ),
)
def test_holds_a_copy_in_every_form(form: bytes) -> None:
    shown, copies = filtered(b"before ", form % TEXT, b" after")
    assert copies == [b"secret"]
    assert b"52" not in shown
    assert not reaches_clipboard(shown)
    assert (shown.startswith(b"before "), shown.endswith(b" after")) == (True, True)


@each(
    "form",
    (
        b"\x1b]52;c;?\x07",
        b"\x1b]52;c;?\x1b\\",
        b"\x1b]52;c;\x07",
        b"\x1b]52;c;!\x07",
        b"\x1b]52\x07",
        b"\x1b]5522;type=read:dGV4dA==;\x1b\\",
        b"\x1b]5522;type=write\x1b\\",
        b"\x1b]1337;CopyToClipboard=\x07\x1b]1337;EndCopy\x07",
        b"\x1b]1337;Copy=:c2VjcmV0\x07",
        b"\x1b] 52;c;c2VjcmV0\x07",
        b"\x1b]5_2;c;c2VjcmV0\x07",
        b"\x1b]0000052;c;c2VjcmV0\x07",
        b"\x1b]50;CopyToClipboard=\x07\x1b]50;EndCopy\x07",
        b"\x1bPtmux;x\x1b\\",
        b"\x1bP0;0;1!z1B5D35323B633B513D3D07\x1b\\",
        b"\x1bP@kitty-echo|eQ==\x1b\\",
        b"\x1bP0;1|31/6c730d\x1b\\",
        b"\x1bP1000p%%begin\x1b\\",
        b"\x1b_Gi=1,a=q,t=f;L2V0Yy9wYXNzd2Q=\x1b\\",
        b"\x1b_Gt=t,f=100;L3RtcC9h\x1b\\",
        b"\x1b_Gf=24,t=s\x1b\\",
        b"\x1b%@",
    ),
)
def test_drops_clipboard_reads_and_dangerous_sequences(form: bytes) -> None:
    assert filtered(b"a", form, b"b") == (b"ab", [])


@each("form", (b"\x1b]8052;%s\x07", b"\x1b]8052;%s\x1b\\", b"\xc2\x9d08052;%s\xc2\x9c", b"\x1bP\x1b]8052;%s\x07"))
def test_holds_a_url_in_every_form_and_shows_it_to_no_terminal(form: bytes) -> None:
    assert filtered(b"a", form % TEXT, b"b") == (b"ab", [b"secret"])


@each("body", (b"", b";", b";?", b";c;" + TEXT, b";" + base64.b64encode(b"x" * ((1 << 20) + 1))))
def test_drops_a_url_that_is_not_valid(body: bytes) -> None:
    assert filtered(b"a\x1b]8052" + body + b"\x07b") == (b"ab", [])


def test_drops_fragments_of_a_copy_that_a_multiplexer_would_join() -> None:
    shown, copies = filtered(b"\x1bP\x1b\x1b\\\x1bP]5\x1b\\\x1bP2;c;" + TEXT + b"\x07\x1b\\")
    assert copies == []
    # A part without an ESC is plain text wherever it arrives.
    assert all(b"\x1b" not in content for content in re.findall(rb"\x1bP(.*?)\x1b\\", shown))


def test_drops_a_string_that_is_too_long() -> None:
    assert filtered(b"a\x1b]0;", b"x" * (LONGEST + 1), b"more", b"\x07b") == (b"ab", [])


def test_drops_a_copy_that_is_too_long() -> None:
    assert filtered(copy_sequence(b"x" * (1 << 20)))[1] == [b"x" * (1 << 20)]
    assert filtered(b"a", copy_sequence(b"x" * ((1 << 20) + 1)), b"b") == (b"ab", [])


def test_replaces_bytes_that_are_not_utf8() -> None:
    assert filtered(b"a\xffb\xc0\xafc\xe2", b"\x82d") == ("a\ufffdb\ufffd\ufffdc\ufffd\ufffdd".encode(), [])


def test_shows_text_in_an_8_bit_encoding_to_its_end() -> None:
    # These encodings use the bytes of the C1 controls for letters and quotes.
    for text in (
        "žluťoučký kůň ťal\n".encode("cp1250"),
        "日本語、ソース\n".encode("shift_jis"),
        b"\x9d52;c;" + TEXT + b"\x07",
    ):
        shown, copies = filtered(text, b"next")
        assert (shown.endswith(b"next"), copies) == (True, [])
        assert shown.translate(None, bytes(range(128, 256))) == (text + b"next").translate(None, bytes(range(128, 256)))


PIECES = st.sampled_from(
    (
        *(b"\x1b", b"]", b"P", b"_", b"\\", b"[", b"5", b"2", b"52;c;", b";", b"?", TEXT, b"0", b"tmux;", b"%"),
        *(
            b"G",
            b"\x07",
            b"\x18",
            b"\x00",
            b"\x7f",
            b"\n",
            b"\x9d",
            b"\xc2",
            b"\x9c",
            b"\x90",
            b"\xe2",
            b"\x80",
        ),
        *(b"\xf0", b"\x9b", b"text", "”".encode(), "ä".encode(), "😀".encode(), b"\xff", b"1337;", b"Copy=", b"5522;"),
    )
)
STREAMS = st.lists(PIECES, max_size=14).map(b"".join)


@given(STREAMS, st.lists(st.integers(min_value=0, max_value=40), max_size=5))
def test_splitting_the_stream_changes_nothing(stream: bytes, places: list[int]) -> None:
    ends = [0, *sorted(min(place, len(stream)) for place in places), len(stream)]
    assert filtered(*(stream[start:end] for start, end in pairwise(ends))) == filtered(stream)


@given(STREAMS)
@example(b"\x1b\x00]52;c;" + TEXT + b"\x07")
@example(b"\x1bP\x1b\\\x1b" + b"]52;c;" + TEXT)
def test_no_output_reaches_the_clipboard(stream: bytes) -> None:
    shown, _ = filtered(stream)
    assert not reaches_clipboard(shown)
    assert not reaches_clipboard(shown.replace(b"\x1b\x1b", b"\x1b"))  # as tmux unpacks it
    text = shown.decode()
    whole = [ENDS.search(text, found.end()) for found in BEGINS.finditer(text)]
    assert None not in whole


@given(STREAMS)
def test_filtering_twice_changes_nothing(stream: bytes) -> None:
    shown, _ = filtered(stream)
    assert filtered(shown) == (shown, [])


@given(st.binary(min_size=1, max_size=60))
def test_a_copy_sequence_copies_the_same_text(copied: bytes) -> None:
    assert filtered(copy_sequence(copied)) == (b"", [copied])

from msgspec.structs import replace

from agent_sandbox.agents.pin import Pin, is_newer, pins_in, pins_suffix
from agent_sandbox.resources import data_root
from table_tests import each

FOLDER = data_root() / "templates"
HASH = f"sha512-{'A' * 86}=="
NEW = Pin(version="1.2.4", integrity=HASH)


@each(
    ("version", "than", "expected"),
    [
        ("1.2.4", "1.2.3", True),
        ("1.2.10", "1.2.9", True),
        ("1.2.3", "1.2.3", False),
        ("1.2.2", "1.2.3", False),
        ("2.0.0", "2.0.0-rc.1", True),
        ("2.0.0-rc.1", "2.0.0", False),
        ("2.0.0-rc.10", "2.0.0-rc.9", True),
        ("2.0.0-rc", "2.0.0-9", True),
        ("0.9.0", "0.10.0", False),
    ],
)
def test_orders_versions_as_npm_does(version: str, than: str, expected: bool) -> None:  # noqa: FBT001 - a row
    assert is_newer(version, than) is expected


def test_reads_back_a_recorded_pin() -> None:
    assert pins_in({"claude": NEW.text, "codex": "1.2.3"}) == {"claude": NEW, "codex": Pin(version="1.2.3")}
    assert Pin(version="1.2.3").text == "1.2.3"


@each(
    "said",
    [
        None,
        [],
        "1.2.3",
        {"claude": "1.2.3 "},
        {"claude": "1.2"},
        {"claude": f"latest {HASH}"},
        {"claude": f"1.2.3 {HASH}x"},
        {"claude": f"1.2.3\n {HASH}"},
        {"claude": "1.2.3 sha1-abc"},
        {"claude": ["1.2.3"]},
        {"claude": f"1.2.3 {HASH} --registry=x"},
        {"claude": f"{'9' * 5_000}.0.0 {HASH}"},
    ],
)
def test_ignores_an_invalid_recorded_pin(said: object) -> None:
    assert pins_in(said) == {}


def test_each_set_of_pins_has_its_own_image_suffix() -> None:
    other = replace(NEW, version="1.2.5")
    assert pins_suffix({}) == ""
    assert len({pins_suffix({"claude": pin}) for pin in (NEW, other)} | {pins_suffix({"codex": NEW})}) == 3
    assert pins_suffix({"a": NEW, "b": other}) == pins_suffix({"b": other, "a": NEW})

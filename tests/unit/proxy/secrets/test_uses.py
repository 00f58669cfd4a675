from pathlib import Path

import pytest

from agent_sandbox.proxy.audit.record import SecretUse
from agent_sandbox.proxy.secrets.uses import Refusal, Used, Uses, read_uses, uses_file

ONE, OTHER = (SecretUse(secret=name, kind="raw", source="env", age=0.0) for name in ("one", "other"))
HOST = "a.test"


def test_uses_are_counted_across_restarts(tmp_path: Path) -> None:
    file = tmp_path / "uses.json"
    for now in (5.0, 7.0):
        uses = Uses(file, clock=lambda now=now: now)  # type: ignore[misc] # a default binds it
        uses.count([ONE], HOST, 200)
        uses.count([ONE, ONE, OTHER] if now > 5 else [], HOST, 200)
        uses.write()
    assert read_uses(file) == {"one": Used(3, 7.0), "other": Used(1, 7.0)}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"one": 5}', '{"one": ["x", 1]}', '{"one": [1, 2, 3]}'])
def test_counting_starts_again_if_the_file_is_damaged(tmp_path: Path, text: str) -> None:
    file = tmp_path / "uses.json"
    file.write_text(text)
    assert read_uses(file) == {}
    uses = Uses(file, clock=lambda: 5.0)
    uses.count([ONE], HOST, 200)
    uses.write()
    assert read_uses(file) == {"one": Used(1, 5.0)}


def test_counts_that_cannot_be_written_are_written_later(tmp_path: Path) -> None:
    uses = Uses(tmp_path / "private" / "uses.json", clock=lambda: 5.0)
    uses.count([ONE], HOST, 200)
    uses.write()
    (tmp_path / "private").mkdir()
    uses.write()
    assert read_uses(tmp_path / "private" / "uses.json") == {"one": Used(1, 5.0)}
    (tmp_path / "private" / "uses.json").unlink()
    uses.write()  # nothing has changed
    assert list((tmp_path / "private").iterdir()) == []


def test_uses_are_written_beside_the_secrets_and_not_among_them(tmp_path: Path) -> None:
    for name in ("secrets", "private"):
        (tmp_path / name).mkdir()
    uses = Uses(uses_file(tmp_path / "secrets"))
    uses.count([ONE], HOST, 200)
    uses.write()
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.json")] == ["private/secret-uses.json"]


def test_a_refusal_lasts_until_that_server_accepts_the_secret(tmp_path: Path) -> None:
    now = [5.0]
    uses = Uses(tmp_path / "uses.json", clock=lambda: now[0])
    uses.count([ONE, OTHER], HOST, 401, refused=True)
    now[0] = 7.0
    uses.count([ONE], "b.test", 403, refused=True)
    for status in (None, 403, 404, 500):
        uses.count([ONE], "b.test", status)
    assert uses.refusal("one") == Refusal(7.0, "b.test")
    uses.count([ONE], "b.test", 204)
    assert uses.refusal("one") == Refusal(5.0, HOST)
    uses.count([ONE], HOST, 200)
    assert (uses.refusal("one"), uses.refusal("other")) == (None, Refusal(5.0, HOST))

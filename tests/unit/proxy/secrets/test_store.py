import errno
import json
import os
import time
from functools import partial
from pathlib import Path

import pytest

from agent_sandbox.problems import UserError
from agent_sandbox.proxy.secrets.store import (
    EXPIRED,
    FAILED,
    LONGEST,
    NOT_YET,
    RECREATE,
    Secret,
    Unresolved,
    _time,
    listed,
    login_names,
    login_of,
    memory_of,
    put_secret,
    put_sourced,
    put_unresolved,
    read_secret,
    remove_secret,
    troubled,
    uptime,
)
from agent_sandbox.proxy.secrets.uses import Refusal
from table_tests import each

VALUE = "correct horse"
put_from_file = partial(put_sourced, source="file")
ACCEPTED = {"refused_by": "", "refused": None}


def never(_: str) -> None:
    """Say that no server refused the secret."""


def test_a_stored_secret_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    put_secret(tmp_path, "forge.token", ["B.test", "a.test.", "b.test"], b"correct horse\n")
    expected = Secret(name="forge.token", hosts=("a.test", "b.test"), value=VALUE)
    assert read_secret(tmp_path, "forge.token") == expected
    assert listed(tmp_path) == [expected]
    assert VALUE not in repr(expected)
    assert [path.stat().st_mode & 0o777 for path in tmp_path.iterdir()] == [0o600]


@each(
    ("name", "hosts", "value", "told"),
    [
        ("a/b", ["a.test"], b"correct horse", ["not a secret name: 'a/b'"]),
        ("t", [], b"correct horse", ["no host is given"]),
        ("t", ["*.a.test", "a_.."], b"correct horse", ["not a host name: '*.a.test'", "not a host name: 'a_..'"]),
        ("t", ["a.test"], b"short", ["the value is not one line of 8 to 65536 ASCII characters"]),
        ("t", ["a.test"], b"two\nlines of it", ["the value is not one line of 8 to 65536 ASCII characters"]),
        ("t", ["a.test"], "größer als".encode(), ["the value is not one line of 8 to 65536 ASCII characters"]),
        ("t", ["a.test"], b" spaces around ", ["the value is not one line of 8 to 65536 ASCII characters"]),
        ("t", ["a.test"], b"x" * (LONGEST + 1), ["the value is not one line of 8 to 65536 ASCII characters"]),
    ],
)
def test_refuses_an_invalid_secret_with_all_its_problems(
    tmp_path: Path, name: str, hosts: list[str], value: bytes, told: list[str]
) -> None:
    with pytest.raises(UserError) as raised:
        put_secret(tmp_path, name, hosts, value)
    assert [problem.what for problem in raised.value.problems] == told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b'{"hosts": ["a.test"]}',
        b'{"hosts": "a.test", "value": "correct horse"}',
        b'{"hosts": [], "value": "short"}',
        b"[" * 100_000,
    ],
)
def test_ignores_files_that_are_not_secrets(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "t").write_bytes(data)
    assert read_secret(tmp_path, "t") is None
    assert listed(tmp_path) == []


def test_ignores_links_folders_pipes_and_odd_names(tmp_path: Path) -> None:
    whole = tmp_path / "elsewhere"
    whole.write_text(json.dumps({"hosts": ["a.test"], "value": VALUE}))
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "link").symlink_to(whole)
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "a name").write_text(whole.read_text())
    assert [read_secret(folder, name) for name in ("link", "folder", "pipe", "a name", "../elsewhere")] == [None] * 5


def test_lists_nothing_without_a_folder(tmp_path: Path) -> None:
    assert listed(tmp_path / "none") == []


def test_removes_a_secret_only_once(tmp_path: Path) -> None:
    put_secret(tmp_path, "t", ["a.test"], b"correct horse")
    remove_secret(tmp_path, "t")
    for name in ("t", "../t"):
        with pytest.raises(UserError) as raised:
            remove_secret(tmp_path, name)
        assert str(raised.value.problems[0]) == f"there is no secret '{name}'"


def test_a_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    for folder, why in ((tmp_path, "No space left on device"), (tmp_path / "none", "No such file or directory")):
        with pytest.raises(UserError) as raised:
            put_secret(folder, "t", ["a.test"], b"correct horse")
        assert str(raised.value.problems[0]) == f"cannot store the secret: {why}; {RECREATE}"
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A volume beside a tmpfs, as in the proxy's container."""
    for name in ("secrets", "run"):
        (tmp_path / name).mkdir()
    return tmp_path / "secrets"


def test_keeps_the_value_of_a_secret_with_a_source_only_in_memory(volume: Path) -> None:
    put_sourced(volume, "t", ["B.test"], b"correct horse", source="file")
    assert read_secret(volume, "t") == Secret(name="t", hosts=("b.test",), value=VALUE, source="file")
    assert VALUE not in (volume / "t").read_text()
    assert memory_of(volume).stat().st_mode & 0o777 == 0o700
    assert (memory_of(volume) / "t").stat().st_mode & 0o777 == 0o600


def test_a_secret_with_a_source_has_no_value_in_a_new_tmpfs(volume: Path) -> None:
    put_sourced(volume, "t", ["a.test"], b"correct horse", source="file")
    (memory_of(volume) / "t").unlink()
    expected = Unresolved(name="t", hosts=("a.test",), why=NOT_YET)
    assert (read_secret(volume, "t"), listed(volume)) == (expected, [expected])
    put_secret(volume, "other", ["a.test"], b"correct horse")
    row = {"name": "t", "hosts": ("a.test",), "problem": NOT_YET, "expires": None, **ACCEPTED}
    assert troubled(volume, never) == [row]


def test_does_not_use_the_previous_value_after_the_source_failed(volume: Path) -> None:
    for put in (put_secret, put_from_file):
        put(volume, "t", ["a.test"], b"correct horse")
        put_unresolved(volume, "t", ["a.test"])
        assert read_secret(volume, "t") == Unresolved(name="t", hosts=("a.test",), why=FAILED)


def test_binds_a_new_value_only_to_the_new_hosts(volume: Path) -> None:
    put_sourced(volume, "t", ["a.test"], b"correct horse", source="file")
    put_sourced(volume, "t", ["b.test"], b"battery staple", source="env")
    assert read_secret(volume, "t") == Secret(name="t", hosts=("b.test",), value="battery staple", source="env")


def test_a_typed_value_replaces_the_source_and_removal_leaves_no_file(volume: Path) -> None:
    put_sourced(volume, "t", ["a.test"], b"correct horse", source="file")
    put_secret(volume, "t", ["b.test"], b"battery staple")
    assert read_secret(volume, "t") == Secret(name="t", hosts=("b.test",), value="battery staple")
    assert list(memory_of(volume).iterdir()) == []
    put_sourced(volume, "t", ["a.test"], b"correct horse", source="file")
    remove_secret(volume, "t")
    assert [*volume.iterdir(), *memory_of(volume).iterdir()] == []


def test_stores_no_invalid_value_in_memory(volume: Path) -> None:
    for value in (b"short", b"two\nlines of it"):
        with pytest.raises(UserError):
            put_from_file(volume, "t", ["a.test"], value)
    with pytest.raises(UserError):
        put_unresolved(volume, "a/b", ["*.a.test"])
    assert [*volume.iterdir(), *volume.parent.glob("run/*")] == []


def test_stores_no_value_without_a_tmpfs(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    with pytest.raises(UserError) as raised:
        put_sourced(tmp_path / "secrets", "t", ["a.test"], b"correct horse", source="file")
    assert str(raised.value.problems[0]) == f"cannot store the secret: No such file or directory; {RECREATE}"
    assert list((tmp_path / "secrets").iterdir()) == []


def test_a_value_is_not_used_after_its_time_to_live(volume: Path) -> None:
    put_from_file(volume, "t", ["a.test"], b"correct horse", until=uptime() + 1_000)
    found = read_secret(volume, "t")
    assert isinstance(found, Secret)
    assert found.expires is not None
    assert 990 < found.expires - time.time() <= 1_000
    gone = Unresolved(name="t", hosts=("a.test",), why=EXPIRED)
    put_from_file(volume, "t", ["a.test"], b"correct horse", until=uptime() - 1)
    assert read_secret(volume, "t") == gone
    (memory_of(volume) / "t").write_text(json.dumps({"hosts": ["a.test"], "value": VALUE, "until": "never"}))
    assert read_secret(volume, "t") == gone


@pytest.mark.parametrize("year", [-365 * 86_400.0, 365 * 86_400.0])
def test_expiry_does_not_depend_on_the_time_of_day(volume: Path, monkeypatch: pytest.MonkeyPatch, year: float) -> None:
    put_from_file(volume, "t", ["a.test"], b"correct horse", until=uptime() + 1_000)
    put_from_file(volume, "u", ["a.test"], b"correct horse", until=uptime() - 1)
    off = time.time() + year
    monkeypatch.setattr(time, "time", lambda: off)
    assert isinstance(read_secret(volume, "t"), Secret)
    assert read_secret(volume, "u") == Unresolved(name="u", hosts=("a.test",), why=EXPIRED)


def test_a_value_that_expires_soon_is_reported(volume: Path) -> None:
    put_from_file(volume, "t", ["a.test"], b"correct horse", until=uptime() + 90)
    assert troubled(volume, never) == []
    put_from_file(volume, "t", ["a.test"], b"correct horse", until=uptime() + 50)
    (row,) = troubled(volume, never)
    expires = row.pop("expires")
    assert isinstance(expires, float)
    assert (row, expires > time.time()) == ({"name": "t", "hosts": ("a.test",), "problem": "", **ACCEPTED}, True)


def test_a_value_that_a_server_refuses_is_reported_until_it_is_replaced(volume: Path) -> None:
    put_secret(volume, "t", ["a.test"], b"correct horse")
    now = time.time()
    assert troubled(volume, lambda _: Refusal(now - 60, "a.test")) == []
    found = troubled(volume, lambda _: Refusal(now + 60, "a.test"))
    row = {"name": "t", "hosts": ("a.test",), "problem": "", "expires": None}
    assert found == [{**row, "refused_by": "a.test", "refused": now + 60}]
    put_unresolved(volume, "t", ["a.test"])
    assert troubled(volume, lambda _: Refusal(now + 60, "a.test")) == [{**row, "problem": FAILED, **ACCEPTED}]


def test_a_login_is_kept_beside_its_value_and_outlives_it(volume: Path) -> None:
    put_sourced(volume, "t", ["a.test"], VALUE.encode(), source="login", until=uptime() - 1, login={"any": "thing"})
    assert login_of(volume, "t") == {"any": "thing"}
    put_unresolved(volume, "t", ["a.test"], login={"other": 1})
    assert (login_of(volume, "t"), login_names(volume)) == ({"other": 1}, ["t"])


@each("text", ["", "[]", "{", "{}"])
def test_other_files_are_not_read_as_logins(text: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(text)
    assert login_of(tmp_path, "t") is None
    assert login_names(tmp_path / "none") == []


def test_reads_a_login_only_from_a_regular_file(volume: Path) -> None:
    put_sourced(volume, "t", ["a.test"], b"correct horse", source="login", login={"any": "thing"})
    (volume / "link").symlink_to(volume / "t")
    os.mkfifo(volume / "pipe")
    names = ("t", "link", "pipe", "missing")
    assert [login_of(volume, name) for name in names] == [{"any": "thing"}, None, None, None]


def test_a_time_that_is_no_number_of_seconds_counts_as_expired() -> None:
    assert (_time(None), _time(5), _time("5"), _time(10**400)) == (None, 5.0, 0.0, 0.0)

from pathlib import Path

import pytest

from agent_sandbox.features.watch.webhook_file import read_webhook, webhook_file
from agent_sandbox.problems import UserError
from table_tests import each

URL = "https://hooks.example.com/services/secret-path"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the path of the webhook file, which does not exist yet."""
    folder = tmp_path / "config" / "agent-sandbox"
    folder.mkdir(parents=True, mode=0o700)
    (tmp_path / "app").mkdir()
    return folder / "webhook.yaml"


def environ(file: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(file.parent.parent)}


def test_there_is_no_webhook_without_the_file(file: Path) -> None:
    assert webhook_file(environ(file)) is None
    assert webhook_file({}) is None
    file.symlink_to("/nowhere")
    assert webhook_file(environ(file)) == file


def test_reads_url_key_and_include(file: Path, tmp_path: Path) -> None:
    file.write_text(f"version: 1\nurl: {URL}\nkey: env:KEY\n")
    found = read_webhook(file, tmp_path / "app")
    assert (found.url.geturl(), found.key, found.include) == (URL, "env:KEY", [])
    assert found.shown == "https://hooks.example.com"
    file.write_text("version: 1\nurl: http://127.0.0.1:8000/\nkey: x\ninclude: [path, answers]\n")
    assert read_webhook(file, tmp_path / "app").include == ["path", "answers"]


@each(
    ("text", "expected"),
    [
        ("version: 1", ["1:1: `key` is missing", "1:1: `url` is missing"]),
        ("{version: 1, url: 1, key: a}", ["1:19: text expected"]),
        (
            f"{{version: 1, url: '{URL}', key: a, include: [query]}}",
            ["1:87: invalid value 'query'; write 'path' or 'answers'"],
        ),
        (
            f"{{version: 1, url: '{URL}', key: a, to: b}}",
            ["1:77: unknown key 'to'; known: include, key, url, version"],
        ),
        *(
            (f"{{version: 1, key: a, url: '{url}'}}", [f"1:27: {what}"])
            for url, what in {
                "ftp://a.test/": "not a URL; write https://HOST/PATH",
                "https:///x": "not a URL; write https://HOST/PATH",
                "https://[::1/": "not a URL; write https://HOST/PATH",
                "https://a.test:99999/": "not a URL; write https://HOST/PATH",
                "https://ana:x@a.test/": "the URL has a user name; remove it",
                "http://a.test/": "`http` is only for a receiver on this machine; write https://HOST/PATH",
                "https://a.test/ b": "the URL has a space; write %20",
            }.items()
        ),
    ],
)
def test_problems_are_reported_at_their_place(text: str, expected: list[str], tmp_path: Path) -> None:
    place = tmp_path / "agent-sandbox"
    place.mkdir(mode=0o700, exist_ok=True)
    file = place / "webhook.yaml"
    file.write_text(text)
    with pytest.raises(UserError) as raised:
        read_webhook(file, tmp_path / "app")
    assert [str(one).removeprefix(f"{file}:") for one in raised.value.problems] == expected


def test_a_repeated_key_is_a_problem(file: Path, tmp_path: Path) -> None:
    file.write_text(f"version: 1\nurl: {URL}\nkey: a\nkey: b\n")
    with pytest.raises(UserError) as raised:
        read_webhook(file, tmp_path / "app")
    assert str(raised.value) == f"{file}:4:1: duplicate key 'key'; keep one of them"


def test_rejects_a_file_that_others_or_an_agent_could_have_written(file: Path, tmp_path: Path) -> None:
    file.write_text(f"version: 1\nurl: {URL}\nkey: a\n")
    file.chmod(0o666)
    with pytest.raises(UserError, match="others may write here"):
        read_webhook(file, tmp_path / "app")
    file.chmod(0o600)
    with pytest.raises(UserError, match="this file is in a project"):
        read_webhook(file, tmp_path)
    file.rename(file.with_name("other"))
    file.symlink_to("other")
    with pytest.raises(UserError, match="it must be a file, not a link"):
        read_webhook(file, tmp_path / "app")

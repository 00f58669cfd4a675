import json
import tomllib

import pytest

from agent_sandbox.agents.settings import kept_keys, unfit
from table_tests import each

KEYS = ("model", "language", "apiKeyHelper")


@each(
    ("path", "text", "why"),
    [
        ("skills/a/SKILL.md", "x", ""),
        ("skills/a/run.py", "x", ""),
        ("skills/monkeys.md", "x", ""),
        ("skills/.env", "x", "its name begins with a dot"),
        ("skills/.mcp.json", "x", "its name begins with a dot"),
        ("skills/tool", "x", "it is not a text file that agents read"),
        ("skills/tool.so", "x", "it is not a text file that agents read"),
        ("skills/key.pem", "x", "it is not a text file that agents read"),
        ("skills/credentials.json", "x", "its name is that of a credential"),
        ("skills/Client_Secret.json", "x", "its name is that of a credential"),
        ("skills/auth.json", "x", "its name is that of a credential"),
        ("skills/api-key.txt", "x", "its name is that of a credential"),
        ("skills/token.txt", "x", "its name is that of a credential"),
        ("skills/id_ed25519.txt", "x", "its name is that of a credential"),
        ("a.md", "-----BEGIN OPENSSH PRIVATE KEY-----\n", "it contains a private key"),
    ],
)
def test_copies_only_text_files_without_credentials(path: str, text: str, why: str) -> None:
    assert unfit(path, text) == why


def test_keeps_only_listed_plain_values_of_a_json_file_and_the_images_values_win() -> None:
    said = {
        "model": "m",
        "language": "en",
        "hooks": {"Stop": [{"command": "x"}]},
        "env": {"KEY": "v"},
        "mcpServers": {"a": {"command": "x"}},
    }
    assert json.loads(kept_keys("s.json", json.dumps(said), KEYS, "")) == {"model": "m", "language": "en"}
    first = json.dumps({"language": "fixed", "privacy": {"x": False}})
    assert json.loads(kept_keys("s.json", json.dumps(said), KEYS, first)) == {
        "model": "m",
        "language": "fixed",
        "privacy": {"x": False},
    }


@each("value", [{"command": "x"}, [{"command": "x"}], None, [["x"]]])
def test_omits_values_that_are_not_plain(value: object) -> None:
    assert json.loads(kept_keys("s.json", json.dumps({"model": value}), KEYS, "")) == {}


def test_writes_the_keys_of_a_toml_file_before_the_tables_of_the_image() -> None:
    said = 'model = "a\\"b"\nlanguage = ["x", "y"]\nnotify = ["x"]\n[mcp_servers.a]\ncommand = "x"\n'
    first = "language = 1\n\n[projects]\ntrust = true\n"
    text = kept_keys("c.toml", said, KEYS, first)
    assert tomllib.loads(text) == {"model": 'a"b', "language": 1, "projects": {"trust": True}}


@pytest.mark.parametrize(("path", "text"), [("s.json", "{"), ("c.toml", "a = ")])
def test_a_file_that_cannot_be_parsed_is_an_error(path: str, text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        kept_keys(path, text, KEYS, "")


def test_a_json_file_that_is_not_an_object_keeps_no_keys() -> None:
    assert kept_keys("s.json", "[1]", KEYS, "") == "{}\n"

import subprocess
from base64 import b64decode, b64encode
from pathlib import Path

import pytest

from agent_sandbox.features.secrets.sources.ssh_key import BEGIN, END, KIND, MAKE_ONE, NotAKeyError, key_on_one_line
from table_tests import each


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a key of each kind, made by OpenSSH."""
    made = tmp_path_factory.mktemp("keys")
    for name, *options in (("good", "-N", ""), ("locked", "-N", "a passphrase"), ("rsa", "-N", "", "-t", "ecdsa")):
        kind = () if "-t" in options else ("-t", "ed25519")
        subprocess.run(("ssh-keygen", "-q", *kind, *options, "-f", made / name), check=True)
    return made


def test_a_key_file_becomes_one_line(folder: Path) -> None:
    text = key_on_one_line((folder / "good").read_bytes())
    assert KIND in b64decode(text, validate=True)
    assert f"{BEGIN}{text}{END}" == (folder / "good").read_text().replace("\n", "")


def test_a_key_that_the_proxy_cannot_use_is_refused(folder: Path) -> None:
    for name, why, hint in (
        ("locked", "the key has a passphrase", f"the proxy cannot ask for it; for the sandbox, {MAKE_ONE}"),
        ("rsa", "the key has the type 'ecdsa-sha2-nistp256', not ed25519", MAKE_ONE),
        ("good.pub", "not a private key of OpenSSH", MAKE_ONE),
    ):
        with pytest.raises(NotAKeyError) as refused:
            key_on_one_line((folder / name).read_bytes())
        assert (str(refused.value), refused.value.hint) == (why, hint)


def changed(key: bytes, *, cut: int = 0, old: bytes = b"", new: bytes = b"") -> bytes:
    data = b64decode(b"".join(key.splitlines()[1:-1]))
    return f"{BEGIN}\n{b64encode(data[: cut or None].replace(old, new, 1)).decode()}\n{END}\n".encode()


@each(
    "change",
    [
        {"cut": 10},
        {"cut": 20},
        {"cut": 60},
        {"old": b"openssh-key-v1", "new": b"openssh-key-v2"},
        {"old": b"\0\0\0\x01\0\0\0\x33", "new": b"\0\0\0\x02\0\0\0\x33"},
    ],
)
def test_a_damaged_key_is_reported(change: dict[str, bytes], folder: Path) -> None:
    with pytest.raises(NotAKeyError, match="the key is damaged"):
        key_on_one_line(changed((folder / "good").read_bytes(), **change))  # type: ignore[arg-type]


@each("data", [b"", b"\xff", f"{BEGIN}\n{END}\n".encode(), b"-----BEGIN RSA PRIVATE KEY-----\nAAAA\n"])
def test_rejects_files_that_are_not_openssh_private_keys(data: bytes) -> None:
    with pytest.raises(NotAKeyError, match="not a private key of OpenSSH"):
        key_on_one_line(data)


def test_characters_that_are_not_base64_are_reported(folder: Path) -> None:
    data = (folder / "good").read_bytes().replace(b"b3BlbnNz", b"b3Blb!!z", 1)
    with pytest.raises(NotAKeyError, match="the key is damaged"):
        key_on_one_line(data)

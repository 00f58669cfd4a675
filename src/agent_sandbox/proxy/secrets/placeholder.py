"""Placeholders: what clients in the sandbox hold in place of a secret.

A placeholder looks like the real credential (its prefix is data of the service). It is random for each sandbox and
secret, and useless anywhere else: the proxy replaces it where it injects that secret. Clients do not hold the key that
signs commits: git's settings name a program that asks the proxy.
"""

import hmac
import os
import re
from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from string import ascii_letters, digits

from agent_sandbox.atomic_file import write_file
from agent_sandbox.policy import Effect, Policy
from agent_sandbox.policy.match.credential_kind import KINDS
from agent_sandbox.policy.match.injection import VARIABLE, Credential
from agent_sandbox.proxy.wire.message import Fields

LETTERS = ascii_letters + digits
KEY_BYTES = 32
# The first part is the same in all placeholders of a sandbox, the second differs per secret. Together they are as long
# as a token of GitHub's after `ghp_`.
TAG, REST = 16, 20
REGION_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,80}_REGION", re.ASCII)
REDACTED = re.compile(rb"(?:[A-Za-z]+ +)?\*{8,}=*")

# The settings of git in the sandbox; the program is in the agent's image.
PROGRAM = "/usr/local/lib/agent-sandbox/sign-commit"
GIT_SETTINGS = f"""\
[commit]
	gpgSign = true
[gpg]
	format = ssh
[gpg "ssh"]
	program = {PROGRAM}
	defaultKeyCommand = {PROGRAM} key
"""


class Placeholders:
    """The placeholders of one sandbox, derived from its key. Without a key there are none."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._tag = _text(key, b"tag", TAG) if key else ""
        self.ending = lru_cache(maxsize=256)(self._ending)

    def of(self, credential: Credential) -> str:
        """Return the placeholder for a credential."""
        return f"{credential.prefix}{self.ending(credential.secret)}"

    def environment(self, policy: Policy) -> Mapping[str, str]:
        """Return the variables with the placeholders of the secrets that the policy injects, and with their regions."""
        rules = (rule for rule in policy.rules.rules if rule.effect is Effect.ALLOW and rule.conditions.inject)
        credentials = [one for rule in rules if rule.conditions.inject for one in rule.conditions.inject.credentials]
        named = sorted({(name, self.of(one)) for one in credentials for name in one.variables})
        regions = Counter((name, one.region) for one in credentials for name in one.row.region_variables(one.env))
        # The region of most entries comes last, and so wins.
        usual = sorted(regions, key=lambda pair: (regions[pair], str(pair[1])))
        return {**{name: str(region) for name, region in usual}, **dict(reversed(named))}

    def place(self, target: bytes, fields: Fields) -> str:
        """Return where a request has a placeholder: the name of a header, `URL`, or an empty string."""
        if not self._tag:
            return ""
        tag = self._tag.encode()
        if tag in target:
            return "URL"
        # One search through all values: it runs for each request, and there is hardly ever anything to find.
        values = [value for _, value in fields]
        if tag not in b"\n".join(values) and not any(value[:1] in (b"B", b"b") for value in values):
            return ""
        return next((name.decode("latin-1") for name, value in fields if _has(tag, value)), "")

    def has(self, text: str) -> bool:
        """Return whether a text has a placeholder of this sandbox."""
        return bool(self._tag) and self._tag in text

    def _ending(self, secret: str) -> str:
        return self._tag + _text(self._key, b"secret " + secret.encode(), REST) if self._key else ""


def _has(tag: bytes, value: bytes) -> bool:
    return tag in value or (value[:5].lower() == b"basic" and tag in _basic_pair(value[5:]))


def _basic_pair(text: bytes) -> bytes:
    """Return user name and password: a client may have the placeholder as either. Padding may be missing."""
    try:
        return b64decode(text.strip() + b"==")
    except ValueError:
        return b""


def _text(key: bytes, what: bytes, length: int) -> str:
    number = int.from_bytes(hmac.digest(key, what, "sha256"))
    letters = []
    for _ in range(length):
        number, at = divmod(number, len(LETTERS))
        letters.append(LETTERS[at])
    return "".join(letters)


def is_placeholder(value: bytes, ending: str) -> bool:
    """Return whether a header value is a credential, of any kind, that is the placeholder with this ending.

    A redacted secret is one, too: LFS servers repeat a request's credential, and the client sends it again.
    """
    is_ours = bool(ending) and any(_credential(value, kind).endswith(ending) for kind in KINDS)
    return is_ours or REDACTED.fullmatch(value) is not None


def _credential(value: bytes, kind: str) -> str:
    return KINDS[kind].read(value.decode("latin-1"))


def key_beside(secrets: Path) -> Path:
    """Return the file with the sandbox's key; `secrets` is the folder of the secret store."""
    return secrets.parent / "private" / "placeholders.key"


def load_placeholders(path: Path) -> Placeholders:
    """Return the placeholders for the key in this file, which is created if there is none."""
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        key = b""
    if len(key) != KEY_BYTES:
        key = os.urandom(KEY_BYTES)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_file(path, key, mode=0o600)
    return Placeholders(key)


def write_environment(path: Path, variables: Mapping[str, str]) -> None:
    """Write the variables as a script for the shells in the sandbox, which keeps those that are set already."""
    _write(path, "".join(_exports(variables.items())))


def write_git_settings(path: Path, policy: Policy) -> None:
    """Write the settings with which git in the sandbox signs commits; none if the policy names no key for that."""
    _write(path, GIT_SETTINGS if policy.settings.sign_commits else "")


def _write(path: Path, text: str) -> None:
    data = text.encode("ascii")
    # Whatever bytes are there now.
    if not path.is_file() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, data, mode=0o644)


def _exports(variables: Iterable[tuple[str, str]]) -> Iterable[str]:
    for name, value in variables:
        if not (VARIABLE.fullmatch(name) or REGION_VARIABLE.fullmatch(name)) or set(value) - {*LETTERS, "_", "-"}:
            raise ValueError("not a placeholder variable")
        yield f'export {name}="${{{name}:-{value}}}"\n'

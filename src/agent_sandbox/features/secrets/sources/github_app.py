"""Get a token of a GitHub App: for named repositories, with the permissions that git and `gh` need, for an hour.

The app's private key signs a statement on the host machine; GitHub answers it with the token.
"""

import json
import re
import shlex
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import IO, Any, override
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.bounded_json import NotJsonError, read_json
from agent_sandbox.features.secrets.sources.value import Fetched
from agent_sandbox.printable import printable_lines

type Sign = Callable[[bytes], bytes]

KIND, HOST, API = "github-app", "github.com", "https://api.github.com"
SECONDS, MOST_BYTES, SHOWN = 30.0, 1 << 20, 200
# GitHub takes statements that are valid for ten minutes at most, and advises to date them back by one.
DATED_BACK, VALID = 60, 480
APP = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
REPOSITORY = re.compile(r"[A-Za-z0-9_-]{1,39}/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}", re.ASCII)
READ_ONLY = ":read"
FORM = "write github-app:ID:FILE OWNER/NAME, with :read after a repository that is only read"
# What git and `gh` need, in the order in which access grows. A push cannot change workflows, which run with secrets.
LEVELS = ("read", "write", "admin")
PERMISSIONS: Mapping[str, str] = {
    "metadata": "read",
    "contents": "write",
    "issues": "write",
    "pull_requests": "write",
    "actions": "read",
    "checks": "read",
    "statuses": "read",
}
CONTENTS = "contents"


class NoTokenError(ValueError):
    """No token could be fetched. The message says why, `hint` how to fix it."""

    def __init__(self, why: str, hint: str = "") -> None:
        super().__init__(why)
        self.hint = hint


class App(Struct, frozen=True, kw_only=True):
    """An app, the file of its private key, and the repositories that its token is for."""

    id: str
    key: str
    written: tuple[str, ...] = ()
    read: tuple[str, ...] = ()

    @property
    def repositories(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.written, *self.read)

    def with_more(self, written: Iterable[str], read: Iterable[str]) -> "App":
        """Return the app with these repositories, too.

        Those of other accounts that are only read are left out: if they are public, any token reads them.
        """
        access = {one.lower(): (one, False) for one in self.read} | {one.lower(): (one, True) for one in self.written}
        access |= {one.lower(): (one, False) for one in read} | {one.lower(): (one, True) for one in written}
        first = next((one for one, writes in access.values() if writes), next(iter(access)))
        kept = [(one, writes) for one, writes in access.values() if writes or _owner(one) == _owner(first)]
        return replace(
            self,
            written=tuple(one for one, writes in kept if writes),
            read=tuple(one for one, writes in kept if not writes),
        )

    @override
    def __str__(self) -> str:
        return f"{KIND}:{shlex.join((f'{self.id}:{self.key}', *self.written, *(one + READ_ONLY for one in self.read)))}"


def parse_app(text: str) -> App:
    """Return what a source names after `github-app:`, or raise NoTokenError."""
    try:
        named, *words = shlex.split(text) or [""]
    except ValueError as error:
        raise NoTokenError("it names no app", FORM) from error
    app, _, key = named.partition(":")
    if not (APP.fullmatch(app) and key):
        raise NoTokenError("it names no app, or no file with its private key", FORM)
    wrong = [word for word in words if not REPOSITORY.fullmatch(word.removesuffix(READ_ONLY))]
    if wrong:
        raise NoTokenError(f"not a repository: {wrong[0]!a}", FORM)
    return App(
        id=app,
        key=key,
        written=tuple(word for word in words if not word.endswith(READ_ONLY)),
        read=tuple(word.removesuffix(READ_ONLY) for word in words if word.endswith(READ_ONLY)),
    )


def token_of(app: App, sign: Sign, *, now: Callable[[], float] = time.time) -> Fetched:
    """Return a new token for the app's repositories, or raise NoTokenError."""
    if not app.repositories:
        raise NoTokenError("it names no repository", FORM)
    if len({_owner(one) for one in app.repositories}) > 1:
        raise NoTokenError("the token of an app is for the repositories of one account", "name only those of one")
    statement = _statement(app.id, int(now()), sign)
    installation, _ = _ask("GET", f"/repos/{app.repositories[0]}/installation", statement, now)
    try:
        granted = {str(name): str(level) for name, level in installation["permissions"].items()}
        path = f"/app/installations/{int(installation['id'])}/access_tokens"
        wanted = {
            "repositories": [one.partition("/")[2] for one in app.repositories],
            "permissions": _permissions(granted, writes=bool(app.written)),
        }
        said, date = _ask("POST", path, statement, now, wanted)
        _require_only(said["repositories"], app)
        return Fetched(
            value=str(said["token"]).encode(), left=datetime.fromisoformat(said["expires_at"]).timestamp() - date
        )
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        if isinstance(error, NoTokenError):
            raise
        raise NoTokenError("the answer of GitHub has an unknown shape", "report this") from error


def _owner(repository: str) -> str:
    return repository.partition("/")[0].lower()


def _permissions(granted: Mapping[str, str], *, writes: bool) -> dict[str, str]:
    """Return what to ask for: no more than the app has, and nothing to write if no repository is written."""
    most = LEVELS.index("write" if writes else "read")
    levels = {
        name: min(LEVELS.index(level), LEVELS.index(granted[name]), most)
        for name, level in PERMISSIONS.items()
        if name in granted
    }
    if levels.get(CONTENTS, -1) < most:
        what = "the app may not write contents" if CONTENTS in levels else "the app has no access to contents"
        raise NoTokenError(what, "change that in the settings of the app, and accept it where the app is installed")
    return {name: LEVELS[level] for name, level in levels.items()}


def _require_only(repositories: Iterable[Mapping[str, Any]], app: App) -> None:
    named = {one.lower() for one in app.repositories}
    others = [str(one["full_name"]) for one in repositories if str(one["full_name"]).lower() not in named]
    if others:
        raise NoTokenError(f"GitHub gave a token for another repository: {others[0]!a}", "it is not used")


def _statement(app: str, now: int, sign: Sign) -> str:
    """Return a JSON Web Token that says which app this is."""
    claims = {"iat": now - DATED_BACK, "exp": now + VALID, "iss": app}
    text = b".".join(_base64(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT"}, claims))
    return b".".join((text, _base64(sign(text)))).decode()


def _base64(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirect: urllib would send the statement along."""

    @override
    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str) -> None:
        return None


def _ask(method: str, path: str, statement: str, now: Callable[[], float], body: object = None) -> tuple[Any, float]:
    """Return the answer of GitHub and its time, or raise NoTokenError."""
    headers = {
        "Authorization": f"Bearer {statement}",
        "Accept": "application/vnd.github+json",
        "Content-Type": "application/json",
        "X-GitHub-Api-Version": "2022-11-28",
        "User-Agent": "agent-sandbox",
    }
    data = None if body is None else json.dumps(body).encode()
    request = Request(f"{API}{path}", data=data, headers=headers, method=method)  # noqa: S310 - https, as above
    try:
        with build_opener(_NoRedirects).open(request, timeout=SECONDS) as answer:
            return read_json(answer.read(MOST_BYTES)), _date(answer.headers, now())
    except HTTPError as error:
        with error:
            raise _refusal(error, path, _date(error.headers, now()) - now()) from error
    except (OSError, HTTPException, NotJsonError) as error:
        why = getattr(error, "reason", error)
        raise NoTokenError(f"{API} cannot be asked: {why}", "agent-sandbox secret sync tries again") from error


def _date(headers: Message, otherwise: float) -> float:
    """Return the server's time: the clock of this machine may be off."""
    try:
        return parsedate_to_datetime(headers["Date"]).timestamp()
    except (TypeError, ValueError):
        return otherwise


def _refusal(error: HTTPError, path: str, off: float) -> NoTokenError:
    """Return what a refusal of GitHub means."""
    repository = path.removeprefix("/repos/").removesuffix("/installation")
    if error.code == 401 and abs(off) > DATED_BACK:
        what = f"the clock of this machine is {abs(off) / 60:.0f} minutes off"
        return NoTokenError(what, "set it: GitHub accepts what the app signs for a few minutes")
    if error.code == 404 and repository != path:
        return NoTokenError(f"the app is not installed on {repository}", "install it there, on this repository")
    if error.code in (301, 302, 307, 308):
        return NoTokenError(f"{repository} has another name now", "agent-sandbox secret setup github --repo NEW/NAME")
    try:
        said = read_json(error.read(MOST_BYTES))["message"]
    except (OSError, HTTPException, NotJsonError, LookupError, TypeError):
        said = ""
    why = printable_lines(str(said))[:SHOWN]
    hints = {
        401: "check the app's ID, and that the key is one of its private keys",
        422: "install the app on each of these repositories, and accept its permissions there",
    }
    return NoTokenError(
        f"GitHub answers {error.code}{': ' if why else ''}{why}",
        hints.get(error.code, "agent-sandbox secret sync tries again"),
    )

"""Select the upstream proxy for a host by the policy in force, with its credentials and trusted CAs."""

import ssl
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

import certifi

from agent_sandbox.policy import Policy
from agent_sandbox.policy.match.upstream import CREDENTIALS
from agent_sandbox.policyfile.text.reading import read_policy
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.proxy.upstream.proxy_connect import ProxyEndpoint

LONGEST = 1024
HINT = "write one line: `user:password`"


class UpstreamProxySelector:
    """Selects the upstream proxy for each connection.

    `folders` maps layers to the directories from which credentials are read. The project is not among them, because
    the agent can read its files. Credentials go only to the upstream proxy that the policy file next to them names.
    """

    def __init__(self, policy: Callable[[], Policy], folders: Mapping[str, Path], extra: Iterable[Path] = ()) -> None:
        self._policy = policy
        self._folders = folders
        self._extra = tuple(extra)
        self._trusted: tuple[str, ssl.SSLContext] | None = None

    def of(self, host: str) -> ProxyEndpoint | None:
        """Return the upstream proxy for a host, None to connect directly."""
        policy = self._policy()
        upstream, proxy = policy.settings.upstream, policy.upstream_proxy(host)
        if upstream is None or proxy is None:
            return None
        folder = self._folders.get(upstream.layer)
        return ProxyEndpoint(
            proxy=proxy,
            credentials=partial(read_credentials, folder / CREDENTIALS) if folder else str,
            trust=partial(self._trust, policy.authorities),
        )

    def _trust(self, pem: str) -> ssl.SSLContext:
        if self._trusted is None or self._trusted[0] != pem:
            context = ssl.create_default_context(cafile=certifi.where())
            # Since 3.13, Python checks CAs more strictly than OpenSSL, and many corporate CAs fail these checks.
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            context.load_default_certs()
            for bundle in self._extra:
                context.load_verify_locations(bundle)
            if pem:
                context.load_verify_locations(cadata=pem)
            self._trusted = (pem, context)
        return self._trusted[1]


def read_credentials(path: Path) -> str:
    """Return `user:password`, "" if there is no such file. Raises UserError, which never quotes the content."""
    try:
        path.lstat()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise UserError([Problem(where=CREDENTIALS, what=f"cannot be read: {error.strerror}")]) from error
    try:
        text = read_policy(path)[: LONGEST + 1].decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        text = ""
    except UserError as error:
        raise UserError([Problem(where=CREDENTIALS, what=problem.what) for problem in error.problems]) from error
    if len(text) > LONGEST or ":" not in text or not text.isprintable():
        raise UserError([Problem(where=CREDENTIALS, what="contains no credentials", hint=HINT)])
    return text

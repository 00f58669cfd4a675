"""Which hosts are reached through a company's proxy, as the policy in force says, and what that takes."""

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
HINT = "it holds one line, `user:password`"


class UpstreamProxySelector:
    """Asked whenever something is dialled.

    `folders` are where the layers lie whose credentials are taken, and a project's is none of them: the agent reads
    what lies there. Credentials go to the proxy alone that the policy beside them names.
    """

    def __init__(self, policy: Callable[[], Policy], folders: Mapping[str, Path], extra: Iterable[Path] = ()) -> None:
        self._policy = policy
        self._folders = folders
        self._extra = tuple(extra)
        self._trusted: tuple[str, ssl.SSLContext] | None = None

    def of(self, host: str) -> ProxyEndpoint | None:
        """Return the proxy on the way to a host, None where the way is a direct one."""
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
            # Python asks more of an authority than OpenSSL does since 3.13, and more than companies' own have.
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            context.load_default_certs()
            for bundle in self._extra:
                context.load_verify_locations(bundle)
            if pem:
                context.load_verify_locations(cadata=pem)
            self._trusted = (pem, context)
        return self._trusted[1]


def read_credentials(path: Path) -> str:
    """Return `user:password`, nothing where there is no such file; raise UserError without a word of what it holds."""
    try:
        path.lstat()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise UserError([Problem(where=CREDENTIALS, what=f"can't be read: {error.strerror}")]) from error
    try:
        said = read_policy(path)[: LONGEST + 1].decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        said = ""
    except UserError as error:
        raise UserError([Problem(where=CREDENTIALS, what=problem.what) for problem in error.problems]) from error
    if len(said) > LONGEST or ":" not in said or not said.isprintable():
        raise UserError([Problem(where=CREDENTIALS, what="holds no credentials", hint=HINT)])
    return said

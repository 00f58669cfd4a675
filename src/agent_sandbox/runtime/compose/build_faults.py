"""Explain why an image build failed, and what to do."""

from agent_sandbox.problems import Problem
from agent_sandbox.runtime.compose.build_log import failure
from agent_sandbox.runtime.compose.faults import FAULTS, fault, problem_of

BUILD_FAULTS = (
    # First, because the engine pulls it with its own proxy settings and trust store.
    fault(
        r"(?:failed to resolve source metadata for|pull access denied for) "
        r"(?P<image>[^\s,]+?)[:,]?(?:\s|$)",
        what="the base image {image} cannot be pulled",
        hint="make sure that `docker pull IMAGE` works, or use another image: agent-sandbox build --base-image IMAGE",
    ),
    fault(
        r"(?:certificate verif(?:y|ication) failed|unable to get (?:local )?issuer certificate|self.signed certificate"
        r"|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_GET_ISSUER_CERT\w*|unknown authority)",
        what="a server's certificate is not trusted: something on the way intercepts TLS",
        hint="give your company's CA: agent-sandbox build --extra-ca /path/to/company-ca.pem",
    ),
    fault(
        r"(?:Temporary failure resolving|Could not resolve(?: host)?:?|EAI_AGAIN|ENOTFOUND"
        r"|Name or service not known|Temporary failure in name resolution)[^\w\n]*(?P<host>[\w.-]*)",
        what="the build cannot resolve this name: {host}",
        hint="check the network and Docker's DNS (`docker run --rm IMAGE getent hosts NAME`), then build again; "
        "an upstream proxy goes under `proxies` in ~/.docker/config.json",
    ),
    fault(
        r"THESE PACKAGES DO NOT MATCH THE HASHES",
        what="a package differs from the pinned one",
        hint="a mirror or cache may have changed it: try another one, and report the problem if it remains",
    ),
)


def build_problem(image: str, said: str) -> Problem:
    """Return why building `image` failed; unknown causes are quoted from BuildKit."""
    known = problem_of(said, doing=image, table=(*BUILD_FAULTS, *FAULTS), otherwise=_unknown)
    return Problem(where=image, what=known.what, hint=known.hint)


def _unknown(said: str) -> str:
    return "the build stopped:\n  " + failure(said).replace("\n", "\n  ")

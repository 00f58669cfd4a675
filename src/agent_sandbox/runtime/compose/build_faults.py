"""Why an image could not be built, and what a person can do about it."""

from agent_sandbox.problems import Problem
from agent_sandbox.runtime.compose.build_log import failure
from agent_sandbox.runtime.compose.faults import FAULTS, fault, problem_of

BUILD_FAULTS = (
    # First: the engine pulls it, with its own proxy settings and its own trust.
    fault(
        r"(?:failed to resolve source metadata for|pull access denied for) "
        r"(?P<image>[^\s,]+?)[:,]?(?:\s|$)",
        what="the base image {image} can't be fetched",
        hint="see that `docker pull IMAGE` works, or name another: agent-sandbox build --base-image IMAGE",
    ),
    fault(
        r"(?:certificate verif(?:y|ication) failed|unable to get (?:local )?issuer certificate|self.signed certificate"
        r"|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_GET_ISSUER_CERT\w*|unknown authority)",
        what="a server's certificate is not trusted: something between here and there signs it anew",
        hint="give your company's CA: agent-sandbox build --extra-ca /path/to/company-ca.pem",
    ),
    fault(
        r"(?:Temporary failure resolving|Could not resolve(?: host)?:?|EAI_AGAIN|ENOTFOUND"
        r"|Name or service not known|Temporary failure in name resolution)[^\w\n]*(?P<host>[\w.-]*)",
        what="names can't be resolved while building: {host}",
        hint="check the network and Docker's DNS (`docker run --rm IMAGE getent hosts NAME`), then build again; "
        "a proxy that is the only way out stands under `proxies` in ~/.docker/config.json",
    ),
    fault(
        r"THESE PACKAGES DO NOT MATCH THE HASHES",
        what="a package differs from the one that was pinned",
        hint="a mirror or cache may have changed it: try another, and report it when it stays",
    ),
)


def build_problem(image: str, said: str) -> Problem:
    """Return why `image` was not built; what is not known is told in BuildKit's own words."""
    known = problem_of(said, doing=image, table=(*BUILD_FAULTS, *FAULTS), otherwise=_unknown)
    return Problem(where=image, what=known.what, hint=known.hint)


def _unknown(said: str) -> str:
    return "the build stopped:\n  " + failure(said).replace("\n", "\n  ")

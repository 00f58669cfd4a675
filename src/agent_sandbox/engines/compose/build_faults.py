"""Explain why an image build failed, and what to do."""

import re
from collections.abc import Mapping
from pathlib import Path

from agent_sandbox.atomic_file import write_file
from agent_sandbox.engines.compose.build_log import failure
from agent_sandbox.engines.compose.faults import FAULTS, fault, problem_of
from agent_sandbox.host.user_dirs import state_directory
from agent_sandbox.problems import Problem

BUILD_FAULTS = (
    # First, because the engine pulls it with its own proxy settings and trust store.
    fault(
        r"(?:failed to resolve source metadata for|pull access denied for) "
        r"(?P<image>[^\s,]+?)[:,]?(?:\s|$)",
        what="the base image {image} cannot be pulled",
        hint="make sure that `docker pull IMAGE` works, or use another image: `base_image` in the project file, or"
        " AGENT_SANDBOX_BASE_IMAGE in the environment",
    ),
    fault(
        r"(?:certificate verif(?:y|ication) failed|unable to get (?:local )?issuer certificate|self.signed certificate"
        r"|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_GET_ISSUER_CERT\w*|unknown authority)",
        what="a server's certificate is not trusted: something on the way intercepts TLS",
        hint="put your company's CA into ~/.config/agent-sandbox, and name it in policy.yaml there: "
        "`settings: {upstream: {ca: FILE}}`",
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
    fault(
        r"failed to (?:compute cache key|calculate checksum)[^\n]*?\"(?P<path>/[^\"\n]*)\": not found",
        what="the Dockerfile copies {path}, but the build has no files of the project",
        hint="fetch or create it with RUN; the project is at /workspace when the sandbox runs",
    ),
    # What `images/project/install` says last; after the network's problems, which it repeats.
    fault(
        r"agent-sandbox: (?P<key>packages|tools\.npm|tools\.pip): (?P<words>[^\n]+)",
        what="`{key}` could not be installed: {words}",
        hint="correct the name or the version in .devcontainer/sandbox.yaml",
    ),
    # Of `doctor --build`, which asks for pip itself.
    fault(
        r"(?P<said>requirement pip \(from versions: none\)|npm error code (?:ECONNREFUSED|ECONNRESET|ETIMEDOUT))",
        what="a package index does not answer: {said}",
        hint="check what pip and npm use on this machine: PIP_INDEX_URL, pip.conf, npm_config_registry, .npmrc",
    ),
)


def build_problem(image: str, said: str, environ: Mapping[str, str]) -> Problem:
    """Return why building `image` failed, and keep the whole output; unknown causes are quoted from BuildKit."""
    known = problem_of(said, doing=image, table=(*BUILD_FAULTS, *FAULTS), otherwise=_unknown)
    kept = _keep(image, said, environ)
    return Problem(where=image, what=known.what, hint=f"{known.hint}; the whole output: {kept}" if kept else known.hint)


def _keep(image: str, said: str, environ: Mapping[str, str]) -> Path | None:
    """Write the output of the last failed build of an image to a file of the user; return None if that fails."""
    path = state_directory(environ) / "builds" / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', image)}.log"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(path, said.encode("utf-8", "backslashreplace"))
    except OSError:
        return None
    return path


def _unknown(said: str) -> str:
    return "the build stopped:\n  " + failure(said).replace("\n", "\n  ")

from pathlib import Path

from agent_sandbox.engines.compose.build_faults import BUILD_FAULTS, build_problem
from agent_sandbox.problems import Problem
from table_tests import each

SAID = {
    "npm error code SELF_SIGNED_CERT_IN_CHAIN": "x:1: a server's certificate is not trusted: something on the way",
    "#4 ERROR: debian:trixie-slim: failed to resolve source metadata for docker.io/library/debian:trixie-slim: x": (
        "x:1: the base image docker.io/library/debian:trixie-slim cannot be pulled; make sure that `docker pull"
    ),
    "ERROR: failed to solve: 127.0.0.1:1/x:1: failed to resolve source metadata for 127.0.0.1:1/x:1: failed to do"
    ' request: Head "https://127.0.0.1:1/v2/x/manifests/1": x509: certificate signed by unknown authority': (
        "x:1: the base image 127.0.0.1:1/x:1 cannot be pulled; make sure that `docker pull IMAGE` works"
    ),
    "Err:1 Temporary failure resolving 'deb.example.org'": (
        "x:1: the build cannot resolve this name: deb.example.org; check the network and Docker's DNS "
        "(`docker run --rm IMAGE getent hosts NAME`), then build again; an upstream proxy goes under"
    ),
    "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE": (
        "x:1: a package differs from the pinned one; a mirror"
    ),
    "E: Unable to locate package nope\nagent-sandbox: packages: E: Unable to locate package nope\n---": (
        "x:1: `packages` could not be installed: E: Unable to locate package nope; correct the name"
    ),
    "ERROR: Could not find a version that satisfies the requirement pip (from versions: none)": (
        "x:1: a package index does not answer: requirement pip (from versions: none); check what pip and npm use"
    ),
    "npm error code ECONNREFUSED": "x:1: a package index does not answer: npm error code ECONNREFUSED; check what",
    'failed to calculate checksum of ref abc: "/setup.py": not found': (
        "x:1: the Dockerfile copies /setup.py, but the build has no files of the project; fetch"
    ),
    "write /var/lib/docker/x: no space left on device": (
        "x:1: no space left on the disk that Docker uses; docker builder prune"
    ),
}

# A file is in the way of the directory for logs.
NOWHERE = {"XDG_STATE_HOME": "/dev/null"}


@each(("said", "expected"), SAID.items())
def test_explains_known_build_errors_and_what_to_do(said: str, expected: str) -> None:
    assert str(build_problem("x:1", said, NOWHERE))[: len(expected)] == expected


def test_the_samples_cover_every_row_of_the_table() -> None:
    met = {row.what for row in BUILD_FAULTS for said in SAID if row.found_in(said)}
    assert met == {row.what for row in BUILD_FAULTS}


def test_quotes_buildkits_output_for_an_unknown_error() -> None:
    said = "------\n > [2/2] RUN false:\n0.1 no\n------\nERROR: failed to solve\n"
    expected = Problem(
        where="x:1",
        what="the build stopped:\n  > [2/2] RUN false:\n  0.1 no",
        hint="run agent-sandbox doctor to find the cause",
    )
    assert build_problem("x:1", said, NOWHERE) == expected


def test_keeps_the_whole_output_of_the_last_failed_build(tmp_path: Path) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path)}
    build_problem("agent-sandbox/a b:1", "first", state)
    problem = build_problem("agent-sandbox/a b:1", "no space left on device\n\x1b[2J", state)
    log = tmp_path / "agent-sandbox" / "builds" / "agent-sandbox-a-b-1.log"
    assert problem.hint.endswith(f"; the whole output: {log}")
    assert log.read_text() == "no space left on device\n\x1b[2J"
    assert (log.stat().st_mode & 0o777, log.parent.stat().st_mode & 0o777) == (0o600, 0o700)

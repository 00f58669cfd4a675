from agent_sandbox.problems import Problem
from agent_sandbox.runtime.compose.build_faults import BUILD_FAULTS, build_problem
from table_tests import each

SAID = {
    "npm error code SELF_SIGNED_CERT_IN_CHAIN": "x:1: a server's certificate is not trusted: something between here",
    "#4 ERROR: debian:trixie-slim: failed to resolve source metadata for docker.io/library/debian:trixie-slim: x": (
        "x:1: the base image docker.io/library/debian:trixie-slim can't be fetched; see that `docker pull"
    ),
    "ERROR: failed to solve: 127.0.0.1:1/x:1: failed to resolve source metadata for 127.0.0.1:1/x:1: failed to do"
    ' request: Head "https://127.0.0.1:1/v2/x/manifests/1": x509: certificate signed by unknown authority': (
        "x:1: the base image 127.0.0.1:1/x:1 can't be fetched; see that `docker pull IMAGE` works"
    ),
    "Err:1 Temporary failure resolving 'deb.example.org'": (
        "x:1: names can't be resolved while building: deb.example.org; check the network and Docker's DNS "
        "(`docker run --rm IMAGE getent hosts NAME`), then build again; a proxy that is the only way out stands under"
    ),
    "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE": (
        "x:1: a package differs from the one that was pinned; a mirror"
    ),
    "write /var/lib/docker/x: no space left on device": "x:1: no space is left on the disk that Docker uses; see",
}


@each(("said", "expected"), SAID.items())
def test_a_known_cause_is_told_with_what_to_do(said: str, expected: str) -> None:
    assert str(build_problem("x:1", said))[: len(expected)] == expected


def test_every_cause_of_the_table_is_met_above() -> None:
    met = {row.what for row in BUILD_FAULTS for said in SAID if row.pattern.search(said)}
    assert met == {row.what for row in BUILD_FAULTS}


def test_an_unknown_cause_is_told_in_buildkits_words() -> None:
    said = "------\n > [2/2] RUN false:\n0.1 no\n------\nERROR: failed to solve\n"
    expected = Problem(
        where="x:1",
        what="the build stopped:\n  > [2/2] RUN false:\n  0.1 no",
        hint="agent-sandbox doctor looks for the cause",
    )
    assert build_problem("x:1", said) == expected

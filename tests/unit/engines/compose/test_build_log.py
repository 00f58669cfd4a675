from agent_sandbox.engines.compose.build_log import BuildLog, expected_steps, failure
from table_tests import each

OUTPUT = """\
#0 building with "default" instance using docker driver

#1 [internal] load build definition from Dockerfile
#1 DONE 0.0s

#4 [tools 1/2] FROM docker.io/library/debian:trixie-slim
#4 CACHED

#5 [tools 2/2] RUN apt-get update
#6 [npm 1/1] RUN true
#6 DONE 0.2s
#5 1.234 Get:1 a package
#5 DONE 3.0s

#7 exporting to image
#7 DONE 0.1s
"""
CACHED = """\
#4 [tools 1/3] FROM docker.io/library/debian:trixie-slim
#4 CACHED

#5 [tools 3/3] RUN apt-get update
#5 CACHED

#6 [tools 2/3] COPY a b
#6 CACHED

#7 [npm 1/1] RUN npm
#7 DONE 0.1s
"""
FAILED = """\
#5 [2/2] RUN apt-get install nonsense
#5 0.300 E: Unable to locate package nonsense
#5 ERROR: process "/bin/sh -c apt-get install nonsense" did not complete successfully: exit code: 100
------
 > [2/2] RUN apt-get install nonsense:
0.300 E: Unable to locate package nonsense
------
Dockerfile:2
--------------------
ERROR: failed to solve: process "/bin/sh -c apt-get install nonsense" did not complete successfully: exit code: 100
"""
DOCKERFILE = """\
ARG BASE=debian
FROM ${BASE} AS tools
RUN apt-get update \\
    && apt-get install x
FROM tools AS npm
RUN npm install
FROM tools AS unwanted
RUN a
RUN b
FROM tools AS agent
ENV A=b
COPY --chown=1:1 --from=npm /x /x
WORKDIR /workspace
USER dev
"""


def test_counts_the_finished_steps_and_names_the_running_step() -> None:
    log, seen = BuildLog(), list[tuple[int, str]]()
    for line in OUTPUT.splitlines():
        if log.feed(line):
            seen.append((log.done, log.doing))
    base, tools = "[tools 1/2] FROM docker.io/library/debian:trixie-slim", "[tools 2/2] RUN apt-get update"
    npm = "[npm 1/1] RUN true"
    assert seen == [(0, base), (1, "finishing"), (1, tools), (1, npm), (2, tools), (3, "finishing")]


@each(("target", "steps"), [("tools", 2), ("npm", 3), ("agent", 5), ("", 5), ("nowhere", 0)])
def test_counts_the_steps_of_a_target_and_of_all_stages_that_it_needs(target: str, steps: int) -> None:
    assert expected_steps(DOCKERFILE, target) == steps


def test_reports_the_failed_step_with_its_last_lines() -> None:
    expected = "> [2/2] RUN apt-get install nonsense:\n0.300 E: Unable to locate package nonsense"
    assert failure(FAILED) == expected


@each(
    "error",
    [
        "npm ERR! code ETIMEDOUT",
        "src/a.c:3: fatal error: x.h: No such file",
        "error[E0432]: unresolved import",
        "E: no",
    ],
)
def test_reports_the_first_error_of_the_failed_step_before_its_last_lines(error: str) -> None:
    before = f"#4 0.1 E: of another step\n#5 0.1 no error yet\n#5 0.200 {error}\n"
    assert failure(before + FAILED).splitlines() == [
        "> [2/2] RUN apt-get install nonsense:",
        error,
        "...",
        "0.300 E: Unable to locate package nonsense",
    ]


def test_reports_the_last_lines_of_a_failure_before_any_step() -> None:
    assert failure("one\nERROR: two\n") == "one\nERROR: two"


def test_an_empty_dockerfile_has_no_steps() -> None:
    assert expected_steps("", "") == 0


def test_counts_but_does_not_name_steps_logged_after_a_later_step_of_their_stage() -> None:
    log, seen = BuildLog(), list[tuple[int, str]]()
    for line in CACHED.splitlines():
        if log.feed(line):
            seen.append((log.done, log.doing))
    base, tools = "[tools 1/3] FROM docker.io/library/debian:trixie-slim", "[tools 3/3] RUN apt-get update"
    end = "finishing"
    assert seen == [(0, base), (1, end), (1, tools), (2, end), (2, end), (3, end), (3, "[npm 1/1] RUN npm"), (4, end)]


@each(
    ("step", "words"),
    [
        ("RUN --mount=type=secret,id=extra_ca /build/install tools.npm /build/npm", "installing tools with npm"),
        ("RUN /build/install packages /build/browser", "installing the browser"),
        ("RUN /build/install packages /build/apt", "installing Debian packages"),
        ("RUN --mount=type=tmpfs,target=/run/install /build/install-agent claude", "installing claude"),
        ("RUN --mount=type=tmpfs,target=/run/install /build/try-registries", "asking npm and PyPI for a package"),
        ("COPY a b", "COPY a b"),
    ],
)
def test_names_the_steps_of_our_own_build_files_in_words(step: str, words: str) -> None:
    log = BuildLog()
    assert log.feed(f"#5 [npm 2/3] {step}")
    assert log.doing == f"[npm 2/3] {words}"


def test_says_that_npm_tries_again() -> None:
    log = BuildLog()
    log.feed("#5 [npm 2/3] RUN npm")
    assert not log.feed("#5 1.234 npm http fetch GET 200 https://npm.test/a 12ms")
    assert log.feed("#5 1.234 npm http fetch GET https://me:secret@npm.test/a attempt 1 failed with ECONNRESET")
    assert log.doing == "npm tries npm.test again: attempt 1 failed with ECONNRESET"
    assert log.feed("#5 DONE 3.0s")
    assert (log.done, log.doing) == (1, "finishing")

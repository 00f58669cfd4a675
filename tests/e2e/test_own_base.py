"""A base image of one's own: with the tools that a project wants, under everything that the box is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from real_stacks import run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from real_stacks import Projects

BASE = "agent-sandbox-test-base"
DOCKERFILE = """\
FROM debian:trixie-slim
RUN printf '#!/bin/sh\\necho made here\\n' >/usr/local/bin/my-tool && chmod 755 /usr/local/bin/my-tool
"""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("base")
    (folder / "Dockerfile").write_text(DOCKERFILE)
    run("docker", "build", "--quiet", "--tag", BASE, folder)
    yield BASE
    run("docker", "image", "rm", "--force", BASE)


def test_a_stack_has_the_tools_of_its_users_base_until_another_is_asked_for(projects: Projects, base: str) -> None:
    project = projects.make("own", "claude", owner=1357)
    project.sandbox("build", "--base-image", base)
    try:
        project.sandbox("up")
        assert project.exec("my-tool").stdout == "made here\n"
        assert project.exec("claude", "--version").returncode == 0
        assert project.curl("http://denied.test/")[0] == 403
    finally:
        project.sandbox("build", "--base-image", "debian:trixie-slim")
    project.sandbox("up")
    assert project.exec("my-tool", check=False).returncode != 0

"""Fixtures that return findings as pairs of line and text."""

from collections.abc import Callable, Iterable
from textwrap import dedent

import pytest
from msgspec.structs import replace

from agent_sandbox.policy import Layer, compile_policy
from agent_sandbox.policy.match.host_list import parse_host_list
from agent_sandbox.policyfile import parse_layer
from agent_sandbox.policytools.edit.comments import comments_by_line
from agent_sandbox.policytools.lint.subject import Finding, Subject
from policy_texts import Find

type SubjectOf = Callable[..., Subject]
type Check = Callable[[Subject], Iterable[Finding]]


def layer(text: str, name: str) -> Layer:
    shown = "policy.yaml" if name == "project" else f"{name}.yaml"
    return parse_layer(dedent(text), name=name, file=shown, shown=shown, services=("s", "t", "node"))


@pytest.fixture
def subject_of() -> SubjectOf:
    """Return a factory of subjects, optionally with services and an organisation's layer."""

    def subject(
        text: str, *, services: dict[str, str] | None = None, organisation: str = "", hosts: str = ""
    ) -> Subject:
        known = {name: layer(of, f"service {name}") for name, of in (services or {}).items()}
        own = layer(text, "project")
        if hosts:
            listed, invalid = parse_host_list(hosts, name="hosts.txt")
            assert invalid == []
            own = replace(own, listed=listed)
        layers = [layer(organisation, "organisation"), own] if organisation else [own]
        return Subject(layer=own, comments=comments_by_line(dedent(text)), policy=compile_policy(layers, known))

    return subject


@pytest.fixture
def find(subject_of: SubjectOf) -> Find:
    """Return a function that runs one check on a file."""

    def run(check: Check, text: str, **beside: object) -> list[tuple[int, str]]:
        return [(finding.line, finding.what) for finding in check(subject_of(text, **beside))]

    return run

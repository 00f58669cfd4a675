"""What lint checks look at: a policy file with its comments, and the effective policy that it is part of."""

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policy.file.entry_spec import EntrySpec
from agent_sandbox.policy.match.host_list import ListedHosts
from agent_sandbox.policyfile.resolved import TOOLS
from agent_sandbox.policytools.edit.comments import Comment, remarks

# `# accepted: upload-host, the agent publishes its report there`
ACCEPTED = re.compile(r"accepted: *(?P<check>[\w-]*),? *(?P<why>.*)")


class Finding(Struct, frozen=True, kw_only=True):
    """What is on a line, why it is a risk, and how to fix it."""

    line: int
    what: str
    why: str
    fix: str


class Subject(Struct, frozen=True, kw_only=True):
    """A layer with its comments by line, and the policy of all layers and services."""

    layer: Layer
    comments: Mapping[int, Comment]
    policy: Policy

    @property
    def allows(self) -> Iterator[Rule]:
        """The allows in the file itself, including those of a restricting layer."""
        restrictions = (rule for restriction in self.policy.rules.restrictions for rule in restriction.rules)
        for rule in (*self.policy.rules.rules, *restrictions):
            if rule.effect is Effect.ALLOW and rule.origin.layer == self.layer.name:
                yield rule

    @property
    def listed(self) -> Iterator[tuple[int, ListedHosts]]:
        """The host list that the file names, with the line that names it."""
        for rule in self.allows:
            if isinstance(rule.conditions.host, ListedHosts):
                yield rule.origin.line, rule.conditions.host

    @property
    def resolved(self) -> Iterator[tuple[int, str, Rule]]:
        """The allows of resolved services: the line that names the service, the service's name, and the rule."""
        for number, service in enumerate(self.layer.spec.services):
            for rule in self.policy.rules.rules if service.name in TOOLS else ():
                if rule.effect is Effect.ALLOW and rule.origin.layer == f"service {service.name}":
                    yield self.layer.origin("services", number).line, service.name, rule

    @property
    def entries(self) -> Iterator[tuple[int, EntrySpec]]:
        """The entries of `domains` and `allow`, with their lines."""
        for section in ("domains", "allow"):
            entries: tuple[EntrySpec, ...] = getattr(self.layer.spec, section)
            for number, entry in enumerate(entries):
                yield self.layer.origin(section, number).line, entry

    def remarks(self, line: int) -> tuple[str, ...]:
        """Return the comments on a line and directly above it."""
        return remarks(self.comments, line)

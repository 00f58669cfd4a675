"""Make a request a rule of the project's policy or the user's own: show the change first, then write exactly that.

The page and the screen name a question or a decision, never a rule: the text of a rule comes from here.
"""

import os
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from agent_sandbox.features.policy.edit import difference
from agent_sandbox.features.policy.layer_rule import RuleLayer, layer_policy
from agent_sandbox.features.policy.rule_edit import planned_edits
from agent_sandbox.features.proxy.reports import Question
from agent_sandbox.features.watch.watching.connection import quiet, rule_for
from agent_sandbox.features.watch.watching.policy_line import suggested_rule
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policytools.edit.editing import AlreadyCovered
from agent_sandbox.policytools.edit.short_rule import read_short_rule, rules_of_push
from agent_sandbox.policytools.suggest.suggesting import warnings_about
from agent_sandbox.problems import Problem, UserError

MOST = 16  # changes that were shown and not yet written


class Change(Struct, frozen=True, kw_only=True):
    """A rule, the diff that adds it, and what to know before it is written. `id` is how the page asks to write it."""

    id: str
    layer: RuleLayer
    rule: str
    diff: str
    warnings: tuple[str, ...]
    services: tuple[str, ...] = ()


class Rules:
    """Plans changes of one project's policy file and the user's, and writes those that were planned."""

    def __init__(self, root: Path, write_rule: Callable[[str, RuleLayer], None]) -> None:
        self._root = root
        self._write_rule = write_rule
        self._lock = threading.Lock()
        self._planned: OrderedDict[str, tuple[str, str, RuleLayer]] = OrderedDict()

    def of_question(self, question: Question, layer: RuleLayer = RuleLayer.PROJECT) -> Change:
        """Plan the rule that would allow a request that waits."""
        return self._plan(rule_for(question), question.services, layer)

    def of_record(self, record: Mapping[str, Any]) -> Change:
        """Plan the narrowest rule that would have allowed a request that was denied."""
        proposal = suggested_rule(self._root, record)
        return self._plan(proposal.rule.text, proposal.services, RuleLayer.PROJECT)

    def _plan(self, text: str, services: tuple[str, ...], layer: RuleLayer) -> Change:
        rule = read_short_rule(Effect.ALLOW, [text])
        file = layer_policy(self._root, layer)
        shown = file.relative_to(self._root) if file.is_relative_to(self._root) else file
        before, afters = planned_edits(file, rules_of_push(rule), os.environ)
        edits = [after for after in afters if not isinstance(after, AlreadyCovered)]
        if not edits:
            raise UserError([Problem(where=str(shown), what=f"{text} is already allowed")])
        change = Change(
            id=secrets.token_urlsafe(16),
            layer=layer,
            rule=text,
            diff=difference(shown, before, edits[-1].text),
            warnings=tuple(warnings_about(rule)),
            services=services,
        )
        with self._lock:
            self._planned[change.id] = (text, before, layer)
            if len(self._planned) > MOST:
                self._planned.popitem(last=False)
        return change

    def write(self, number: str) -> str:
        """Write a change that was planned, and load the policy; return what the command would print."""
        with self._lock:
            text, before, layer = self._planned.pop(number, ("", "", RuleLayer.PROJECT))
            if not text:
                what = "this change was already written, or has expired: open it again"
                raise UserError([Problem(where="", what=what)])
            file = layer_policy(self._root, layer)
            now, _ = planned_edits(file, (), os.environ)
            if now != before:
                what = "changed in the meantime: open the change again"
                raise UserError([Problem(where=file.name, what=what)])
            with quiet() as said:
                self._write_rule(text, layer)
            return said.getvalue().strip()

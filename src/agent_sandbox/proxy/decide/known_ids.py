"""Remember object ids from responses about the policy's repositories: later operations name objects by them."""

import dataclasses
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from agent_sandbox.bounded_json import NotJsonError, read_json
from agent_sandbox.policy import Effect, Policy, Request
from agent_sandbox.policy.http.graphql_confinement import ids_in
from agent_sandbox.policy.http.graphql_operation import Confinement
from agent_sandbox.proxy.exchange.exchange import Exchange

MAX_IDS = 4_096


class KnownIds:
    """The repositories of objects, by their ids. The oldest are forgotten."""

    def __init__(self) -> None:
        self._repositories: dict[str, str] = {}

    def added_to(self, request: Request) -> Request:
        """Return the request with the known ids in its operation."""
        if request.operation is None:
            return request
        return replace(request, operation=dataclasses.replace(request.operation, known=self._repositories))

    def expect(self, exchange: Exchange, policy: Policy) -> None:
        """Have the response to an allowed request copied if the policy confines its operation to repositories."""
        if exchange.request and any(_confinements(policy, exchange.request)):
            exchange.received.copied = bytearray()

    def learn(self, exchange: Exchange, policy: Policy) -> None:
        """Learn ids from the copy of a response."""
        request, answer = exchange.request, exchange.received.copied
        exchange.received.copied = None
        if request is None or request.operation is None or not answer:
            return
        try:
            said = read_json(bytes(answer))
        except NotJsonError:
            return
        data = said.get("data") if isinstance(said, dict) else None
        for confined in _confinements(policy, request):
            self._keep(ids_in(confined, request.operation, data))

    def _keep(self, found: Mapping[str, str]) -> None:
        for name, repository in found.items():
            self._repositories.pop(name, None)
            self._repositories[name] = repository
        while len(self._repositories) > MAX_IDS:
            del self._repositories[next(iter(self._repositories))]


def _confinements(policy: Policy, request: Request) -> Iterator[Confinement]:
    """Yield the confinements of the rules that allow a request's operation."""
    for rule in policy.rules.rules:
        pattern = rule.conditions.graphql
        if rule.effect is Effect.ALLOW and pattern and pattern.confined and pattern.takes(request.operation):
            yield pattern.confined

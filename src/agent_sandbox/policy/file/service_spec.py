"""A service: the entry by which a policy names it, and the models of its own file."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from agent_sandbox.policy.file.entry_spec import DomainSpec, PathSpec, Reachable, RuleSpec
from agent_sandbox.policy.file.fields import AtLeastOne, BudgetSpec, Strict, Written, written_out
from agent_sandbox.policy.file.graphql_spec import ConfinedGraphqlSpec
from agent_sandbox.policy.file.service_options import Access, Auth, Chosen, Declared, InvalidOption, choose
from agent_sandbox.policy.file.short_form import write_out_host
from agent_sandbox.policy.file.transform_spec import KindSpec, Prefix, TransformSpec, Variable
from agent_sandbox.policy.http.method import STANDARD
from agent_sandbox.policy.match.host_pattern import HostPattern

READING = frozenset({"GET", "HEAD"})


class ServiceSpec(BaseModel):
    """An entry of `services`. The service's own file says which options it has."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    name: str
    merge_mode: Written[Literal["replace"]] = None
    readonly: bool = False
    budget: Written[BudgetSpec] = None

    @field_validator("name")
    @classmethod
    def _is_known(cls, name: str, info: ValidationInfo) -> str:
        context = info.context or {}
        known = context.get("services", [name])
        if name not in known:
            called: str | None = context.get("called", lambda *_: None)(name, known)
            if called is not None:
                return called
            raise PydanticCustomError("word", "service", {"kind": "service", "word": name, "words": list(known)})
        return name

    @model_validator(mode="after")
    def _has_its_options(self, info: ValidationInfo) -> "ServiceSpec":
        known = (info.context or {}).get("services")
        if self.model_extra and isinstance(known, Mapping):
            try:
                self.chosen(known[self.name].spec.declared)
            except InvalidOption as invalid:
                context = {"what": invalid.what, "hint": invalid.hint, "at": invalid.at}
                raise PydanticCustomError("invalid_value", "{what}", context) from invalid
        return self

    def chosen(self, declared: Declared) -> Chosen:
        """Return the parsed options, or raise InvalidOption."""
        return choose(self.name, declared, self.model_extra or {}, readonly=self.readonly)


class AuthSpec(KindSpec):
    """How the service, or a part of it, takes a secret, and the hosts that the secret is sent to."""

    host: str
    more_hosts: AtLeastOne[str] = ()
    header: str = "authorization"
    client_shim: str = ""
    env: Written[Variable] = None
    also: AtLeastOne[Variable] = ()
    prefix: Written[Prefix] = None
    others: AtLeastOne[str] = ()
    parameters: AtLeastOne[str] = ()
    test: str = ""

    @property
    def declared(self) -> Auth:
        """The same as an `Auth`."""
        return Auth(
            host=self.host,
            more_hosts=self.more_hosts,
            kind=self.type,
            username=self.username,
            region=self.region,
            service=self.service,
            header=self.header,
            client_shim=self.client_shim,
            env=self.env or "",
            also=self.also,
            prefix=self.prefix or "",
            others=self.others,
            parameters=self.parameters,
            test=self.test,
        )


class AccessSpec(Strict):
    """The access levels of a part of the service, lowest first."""

    access: AtLeastOne[str]
    auth: Written[AuthSpec] = None

    @property
    def declared(self) -> Access:
        """The same as an `Access`."""
        return Access(levels=self.access, auth=self.auth.declared if self.auth else None)


class ServiceRuleSpec(RuleSpec):
    """A rule of a service: `when` it applies, and whether it only `reads`, whatever its method.

    `confined` is a condition on GraphQL operations that keeps them in the repositories of the policy.
    """

    when: Mapping[str, str] = Field(default_factory=dict)
    reads: bool = False
    confined: Written[ConfinedGraphqlSpec] = None


class ServiceEntrySpec(DomainSpec):
    """An entry of a service."""

    rules: AtLeastOne[ServiceRuleSpec] = ()


ServiceEntry = Annotated[ServiceEntrySpec, Reachable, written_out(write_out_host)]


def variants(host: HostPattern, rule: RuleSpec, chosen: Chosen) -> Iterator[RuleSpec]:
    """Yield the rules that an allow of a service expands to with these options: one per repository, or none."""
    when, reads = (rule.when, rule.reads) if isinstance(rule, ServiceRuleSpec) else ({}, False)
    methods = rule.methods
    if chosen.readonly and not reads:
        methods = tuple(sorted(READING & frozenset(methods or STANDARD)))
    if not chosen.meets(when) or (chosen.readonly and not methods):
        return
    secret = chosen.secret_for(str(host), when)
    transform = TransformSpec.model_validate(secret.written) if secret else rule.transform
    confined = rule.confined if isinstance(rule, ServiceRuleSpec) else None
    graphql = confined.model_copy(update={"repositories": chosen.reached(when)}) if confined else rule.graphql
    paths = chosen.paths(rule.path.pattern, when) if rule.path and rule.path.pattern else (None,)
    for pattern in paths:
        path = pattern and PathSpec.model_construct(None, **{str(pattern.kind): pattern})
        changed = {"methods": methods, "path": path, "transform": transform, "graphql": graphql}
        yield rule.model_copy(update=changed)

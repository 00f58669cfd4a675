"""The section `settings` of the policy file."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, PlainValidator, model_validator

from agent_sandbox.policy.decision import Origin
from agent_sandbox.policy.engine.settings import SettingValues
from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.file.fields import (
    AtLeastOne,
    BodySize,
    BudgetSpec,
    Host,
    Listed,
    Strict,
    Written,
    call_parser,
    fits,
)
from agent_sandbox.policy.file.transform_spec import SecretName
from agent_sandbox.policy.http.body_size import shown_size
from agent_sandbox.policy.match.host_pattern import EVERY
from agent_sandbox.policy.match.upstream import (
    Authorities,
    Upstream,
    UpstreamProxy,
    parse_ca_name,
    parse_upstream_proxy,
)

Proxy = Annotated[UpstreamProxy, PlainValidator(fits(parse_upstream_proxy), json_schema_input_type=str)]
CaName = Annotated[str, PlainValidator(fits(parse_ca_name), json_schema_input_type=str)]


Kind = Literal["unlisted", "writes"]
# Clients give up by themselves if they wait longer.
LONGEST_WAIT = 600
SECONDS = 60


def _write_out_ask(value: object) -> object:
    """Expand `ask: unlisted` and `ask: [unlisted]`; `ask: false` asks about nothing."""
    if isinstance(value, str) or value is False:
        return {"about": [value] if value else []}
    return {"about": value} if isinstance(value, list) else value


class UpstreamSpec(Strict):
    """An upstream proxy, and CAs that the proxy trusts."""

    proxy: Written[Proxy] = None
    ca: Written[CaName] = None
    no_proxy: AtLeastOne[Host] = ()

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        call_parser(_refuse_what_does_nothing, self)
        return self

    def value(self, origin: Origin, authorities: Authorities | None) -> Upstream:
        """Return it as a value; `authorities` is the content of the file `ca`, or None if it was not read."""
        around = tuple(sorted(set(self.no_proxy)))
        unread = Authorities(name=self.ca, pem="") if self.ca else None
        return Upstream(layer=origin.layer, proxy=self.proxy, no_proxy=around, ca=authorities or unread, origin=origin)


def _refuse_what_does_nothing(written: UpstreamSpec) -> None:
    if written.proxy is None and written.ca is None:
        raise InvalidValue("`upstream` has neither `proxy` nor `ca`", "write `proxy`, `ca`, or both")
    if written.no_proxy and written.proxy is None:
        raise InvalidValue("`no_proxy` without a `proxy`", "remove it, or add `proxy`")
    if EVERY in written.no_proxy:
        raise InvalidValue("with `no_proxy: [*]` the proxy is never used", "remove `proxy` and `no_proxy`")


class AskSpec(Strict):
    """Which requests wait for a person, and how long. Without `about` and `uploads`, those to unlisted hosts."""

    about: Listed[Kind] = ()
    uploads: Written[BodySize] = None
    timeout: Annotated[int, Field(ge=1, le=LONGEST_WAIT)] = SECONDS

    @property
    def values(self) -> SettingValues:
        """The settings, by name."""
        uploads = -1 if self.uploads is None else self.uploads
        default = () if {"about", "uploads"} & self.model_fields_set else ("unlisted",)
        sizes = () if uploads < 0 else (f"uploads over {shown_size(uploads)}",)
        kinds = ", ".join((*sorted({*self.about, *default}), *sizes))
        return {"ask": kinds, "ask_timeout": self.timeout, "ask_uploads": uploads}


AskForms = BeforeValidator(_write_out_ask, json_schema_input_type=Literal[False] | Kind | list[Kind] | AskSpec)


class SettingsSpec(Strict):
    """How the proxy behaves."""

    block_status: Written[Literal[403, 418]] = None
    inspect: Written[bool] = None
    http1: Written[Literal["auto", "lane"]] = None
    reload: Written[Literal["restart", "watch"]] = None
    upstream: Written[UpstreamSpec] = None
    ask: Written[Annotated[AskSpec, AskForms]] = None
    budget: Written[BudgetSpec] = None
    sign_commits: Written[SecretName] = None

    def values(self, origin: Origin, authorities: Authorities | None) -> SettingValues:
        """Return the settings that are set, by name."""
        values = {name: getattr(self, name) for name in sorted(self.model_fields_set - {"budget"})}
        if self.upstream:
            values["upstream"] = self.upstream.value(origin, authorities)
        if self.ask is not None:
            values |= self.ask.values
        return values

"""The key `transform` of the policy file: which secrets are injected into which headers, and how."""

import re
from collections.abc import Collection
from typing import Annotated, Any, Literal, Self, override

from msgspec.structs import replace
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, PlainValidator, model_validator
from pydantic_core import PydanticCustomError

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.file.fields import AtLeastOne, Strict, Written, call_parser, fits
from agent_sandbox.policy.http.headers import check_header_names
from agent_sandbox.policy.match.credential_kind import KINDS, QUERY, KindName
from agent_sandbox.policy.match.injection import (
    Credential,
    Existing,
    Injection,
    injection,
    parse_prefix,
    parse_secret_name,
    parse_variable,
)
from agent_sandbox.policy.text import safe_repr

USERNAME = re.compile(r"[\x20-\x39\x3b-\x7e]{1,100}")
# A region or a service, as in a signature.
SCOPE = re.compile(r"[A-Za-z0-9-]{1,60}", re.ASCII)
# Bounded because each denial names them all.
MOST_HEADERS = 16
EXAMPLE = "write `headers: {Authorization: {secret: NAME, transform: {type: bearer}}}`"
# Needs no escaping in a query.
PARAMETER = re.compile(r"[A-Za-z0-9_.-]{1,100}", re.ASCII)


def _username(text: str) -> str:
    if not USERNAME.fullmatch(text) or text != text.strip():
        raise InvalidValue(
            f"not a user name: {safe_repr(text)}", "use ASCII characters, no colon, no space at either end"
        )
    return text


def _scope(text: str) -> str:
    if not SCOPE.fullmatch(text):
        raise InvalidValue(
            f"not a region or a service of a signature: {safe_repr(text)}", "write them as in `eu-central-1` and `s3`"
        )
    return text


def _header_name(text: str) -> str:
    check_header_names((text,))
    return text


def _names(headers: dict[str, "CredentialSpec"]) -> dict[str, "CredentialSpec"]:
    if not headers:
        raise PydanticCustomError("invalid_value", "{what}", {"what": "`headers` is empty", "hint": EXAMPLE})
    if len(headers) > MOST_HEADERS:
        what, hint = f"`headers` has more than {MOST_HEADERS} headers", "a request never needs so many secrets"
        raise PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint})
    call_parser(check_header_names, headers.keys())
    for name, one in headers.items():
        only = KINDS[one.transform.type].header
        if only and name.lower() != only:
            what, hint = f"`type: {one.transform.type}` has to be in `{only.title()}`", "move it there"
            raise PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint})
    return headers


def _parameters(query: dict[str, "ParameterSpec"]) -> dict[str, "ParameterSpec"]:
    if not query or len(query) > MOST_HEADERS or not all(PARAMETER.fullmatch(name) for name in query):
        what, hint = "`query` is not a list of parameters", "write `query: {key: {secret: NAME}}`"
        raise PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint})
    return query


SecretName = Annotated[str, PlainValidator(fits(parse_secret_name), json_schema_input_type=str)]
Variable = Annotated[str, PlainValidator(fits(parse_variable), json_schema_input_type=str)]
Prefix = Annotated[str, PlainValidator(fits(parse_prefix), json_schema_input_type=str)]
HeaderName = Annotated[str, PlainValidator(fits(_header_name), json_schema_input_type=str)]
Username = Annotated[str, PlainValidator(fits(_username), json_schema_input_type=str)]
Scope = Annotated[str, PlainValidator(fits(_scope), json_schema_input_type=str)]
# The options of all kinds, as messages call them.
OPTIONS = {"username": "user name", "region": "region", "service": "service"}


def _kinds_with(option: str) -> list[str]:
    return [name for name, kind in KINDS.items() if option in kind.options]


def _options_where_taken() -> dict[str, Any]:
    """Return the JSON Schema that requires each option for the kinds that take it, and rejects it for the others."""
    return {
        "allOf": [
            {
                "if": {"properties": {"type": {"enum": _kinds_with(option)}}},
                "then": {"required": [option]},
                "else": {"properties": {option: False}},
            }
            for option in OPTIONS
        ]
    }


def _in_lower_case(kind: object) -> object:
    # The older format takes `Bearer` as well.
    return kind.lower() if isinstance(kind, str) and kind.lower() in KINDS else kind


class KindSpec(Strict):
    """How a secret is written into its header: `Bearer SECRET`, `Basic` with a user name, or as a signature."""

    model_config = ConfigDict(json_schema_extra=_options_where_taken())

    type: Annotated[KindName, BeforeValidator(_in_lower_case)]
    username: Written[Username] = None
    region: Written[Scope] = None
    service: Written[Scope] = None

    @property
    def options(self) -> dict[str, str | None]:
        """The options of this kind."""
        return {option: getattr(self, option) for option in OPTIONS}

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        taken = KINDS[self.type].options
        for option, called in OPTIONS.items():
            if option in taken and self.options[option] is None:
                what, hint = f"`type: {self.type}` needs a {called}", f"write `{option}: NAME` beside it"
            elif option not in taken and self.options[option] is not None:
                what = f"`type: {self.type}` takes no {called}"
                hint = f"remove `{option}`, or write `type: {_kinds_with(option)[0]}`"
            else:
                continue
            raise PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint})
        return self


class ShimSpec(Strict):
    """What clients in the sandbox send in place of the secret: a placeholder, from one of these variables."""

    kind: Literal["env"]
    name: Variable
    also: AtLeastOne[Variable] = ()
    prefix: Written[Prefix] = None


class ParameterSpec(Strict):
    """The name of a secret that is a parameter of the query, and what clients send in its place."""

    secret: SecretName
    client_shim: Written[ShimSpec] = None
    other_headers: AtLeastOne[HeaderName] = ()
    other_parameters: AtLeastOne[str] = ()

    def credential(self, name: str) -> Credential:
        """Return the credential for this parameter."""
        shim = self.client_shim
        return Credential(
            header=name,
            secret=self.secret,
            kind=QUERY,
            env=shim.name if shim else "",
            also=shim.also if shim else (),
            prefix=(shim.prefix or "") if shim else "",
            others=tuple(sorted({name.lower() for name in self.other_headers})),
            parameters=tuple(sorted(set(self.other_parameters))),
        )


class CredentialSpec(ParameterSpec):
    """The name of a secret, how the secret is written, and what clients send in its place."""

    transform: KindSpec

    @override
    def credential(self, name: str) -> Credential:
        """Return the credential for this header."""
        kind = self.transform
        return replace(
            super().credential(name.lower()),
            kind=kind.type,
            username=kind.username,
            region=kind.region,
            service=kind.service,
        )


class RequestTransformSpec(Strict):
    """The secrets to inject into headers and the query, and what happens if the client sends such a credential."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["headers"]}, {"required": ["query"]}]})

    headers: Annotated[
        dict[str, CredentialSpec],
        AfterValidator(_names),
        Field(json_schema_extra={"minProperties": 1, "maxProperties": MOST_HEADERS}),
    ] = Field(default_factory=dict)
    query: Annotated[
        dict[str, ParameterSpec],
        AfterValidator(_parameters),
        Field(json_schema_extra={"minProperties": 1, "maxProperties": MOST_HEADERS}),
    ] = Field(default_factory=dict)
    on_existing_header: Literal["fail", "replace", "keep"] = "fail"

    @model_validator(mode="after")
    def _has_a_place(self) -> Self:
        if not (self.headers or self.query):
            what, hint = "`headers` is missing", EXAMPLE
            raise PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint})
        return self


class TransformSpec(Strict):
    """What the proxy changes: the headers of requests."""

    request: RequestTransformSpec

    @property
    def injection(self) -> Injection:
        """The credentials as an `Injection`."""
        return injection(
            (one.credential(name) for name, one in (*self.request.headers.items(), *self.request.query.items())),
            existing=Existing(self.request.on_existing_header),
        )


def require_https(schemes: Collection[str], *at: str | int) -> None:
    """Raise an error for a secret that would be sent without TLS; `at` is the rule's location below the entry."""
    if "http" in schemes:
        what, hint = "a secret is sent only over https", "write `schemes: [https]`"
        raise PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint, "at": (*at, "schemes")})

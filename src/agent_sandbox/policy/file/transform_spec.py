"""`transform` of the policy file: which secrets go into which headers of a request, and how."""

import re
from collections.abc import Collection
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, PlainValidator, model_validator
from pydantic_core import PydanticCustomError

from agent_sandbox.policy.errors import Unfit
from agent_sandbox.policy.file.fields import Strict, Written, fits, told
from agent_sandbox.policy.http.headers import check_header_names
from agent_sandbox.policy.match.injection import Credential, Injection, injection, parse_secret_name
from agent_sandbox.policy.text import safe_repr

USERNAME = re.compile(r"[\x20-\x39\x3b-\x7e]{1,100}")
# Each denial names them all.
MOST_HEADERS = 16
BEARER, BASIC = "bearer", "basic"


def _username(text: str) -> str:
    if not USERNAME.fullmatch(text) or text != text.strip():
        raise Unfit(f"{safe_repr(text)} is no user name", "write it in ASCII, without a colon")
    return text


def _names(headers: dict[str, "CredentialSpec"]) -> dict[str, "CredentialSpec"]:
    if not headers:
        hint = "write `headers: {Authorization: {secret: NAME, transform: {type: bearer}}}`"
        raise PydanticCustomError("unfit", "{what}", {"what": "`headers` names no header", "hint": hint})
    if len(headers) > MOST_HEADERS:
        what, hint = f"`headers` names more than {MOST_HEADERS} headers", "no request wants so many secrets"
        raise PydanticCustomError("unfit", "{what}", {"what": what, "hint": hint})
    told(check_header_names, headers.keys())
    return headers


SecretName = Annotated[str, PlainValidator(fits(parse_secret_name), json_schema_input_type=str)]
Username = Annotated[str, PlainValidator(fits(_username), json_schema_input_type=str)]


class KindSpec(Strict):
    """How a secret is written into its header: `Bearer SECRET`, or `Basic` with a user name."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"type": {"const": BASIC}}},
            "then": {"required": ["username"]},
            "else": {"properties": {"username": False}},
        }
    )

    type: Literal["basic", "bearer"]
    username: Written[Username] = None

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.type == BASIC and self.username is None:
            what, hint = "`type: basic` wants a user name", "write `username: NAME` beside it"
        elif self.type == BEARER and self.username is not None:
            what, hint = "`type: bearer` has no user name", "take `username` out, or write `type: basic`"
        else:
            return self
        raise PydanticCustomError("unfit", "{what}", {"what": what, "hint": hint})


class CredentialSpec(Strict):
    """A secret by its name, and how it is written."""

    secret: SecretName
    transform: KindSpec


class RequestTransformSpec(Strict):
    """What is put into the headers of a request, and what becomes of one that brings such a header along."""

    headers: Annotated[
        dict[str, CredentialSpec],
        AfterValidator(_names),
        Field(json_schema_extra={"minProperties": 1, "maxProperties": MOST_HEADERS}),
    ]
    on_existing_header: Literal["fail", "replace"] = "fail"


class TransformSpec(Strict):
    """What the proxy changes of what passes: the headers of requests."""

    request: RequestTransformSpec

    @property
    def injection(self) -> Injection:
        """The credentials as values."""
        return injection(
            (
                Credential(header=name.lower(), secret=one.secret, username=one.transform.username)
                for name, one in self.request.headers.items()
            ),
            replaces=self.request.on_existing_header == "replace",
        )


def refuse_in_the_clear(schemes: Collection[str], *at: str | int) -> None:
    """Refuse a secret for what goes without TLS; `at` is where the rule stands below the entry."""
    if "http" in schemes:
        what, hint = "a secret goes over https alone", "write `schemes: [https]`"
        raise PydanticCustomError("unfit", "{what}", {"what": what, "hint": hint, "at": (*at, "schemes")})

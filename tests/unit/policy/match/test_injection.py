from typing import Any

import pytest
from msgspec.structs import replace

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.file.transform_spec import TransformSpec
from agent_sandbox.policy.match.credential_kind import KINDS
from agent_sandbox.policy.match.injection import (
    Credential,
    Existing,
    injection,
    parse_prefix,
    parse_secret_name,
    parse_variable,
)

TOKEN = Credential(header="authorization", secret="forge.token", kind="basic", username="bot")
KEY = Credential(header="x-key", secret="key")


def test_shows_secrets_and_headers_in_canonical_order() -> None:
    told = "secret forge.token in authorization as 'bot' and secret key in x-key"
    assert str(injection([KEY, TOKEN])) == told
    assert str(injection([KEY, TOKEN], existing=Existing.REPLACE)) == f"{told} replacing what is sent"
    assert str(injection([KEY, TOKEN], existing=Existing.KEEP)) == f"{told} unless another credential is sent"


def test_a_credential_is_a_bearer_token_unless_another_kind_is_named() -> None:
    signed = Credential(header="authorization", secret="aws", kind="sigv4", region="eu-north-1", service="s3")
    assert str(signed) == "secret aws in authorization for s3 in eu-north-1"
    assert (KEY.row.name, TOKEN.row.name) == ("bearer", "basic")


def test_dumps_a_query_secret_in_its_own_section() -> None:
    both = injection([KEY, Credential(header="key", secret="k", kind="query", env="A_KEY")], existing=Existing.KEEP)
    assert str(both) == "secret k in ?key and secret key in x-key unless another credential is sent"
    assert both.written == {
        "request": {
            "query": {"key": {"secret": "k", "client_shim": {"kind": "env", "name": "A_KEY"}}},
            "headers": {"x-key": {"secret": "key", "transform": {"type": "bearer"}}},
            "on_existing_header": "keep",
        }
    }
    assert TransformSpec.model_validate(both.written).injection == both


@pytest.mark.parametrize("existing", Existing)
@pytest.mark.parametrize("kind", KINDS)
def test_round_trips_injections_of_every_kind(existing: Existing, kind: str) -> None:
    shimmed = Credential(
        header=KINDS[kind].header or "x-api-key",
        secret="key",
        kind=kind,
        env="A_KEY",
        also=("B_KEY",),
        prefix="sk-",
        others=("cookie", "x-other"),
        parameters=("key",),
    )
    options: dict[str, Any] = dict.fromkeys(KINDS[kind].options, "bot")
    shimmed = replace(shimmed, **options)
    both = injection([KEY, shimmed], existing=existing)
    assert TransformSpec.model_validate(both.written).injection == both


def test_dumps_an_injection_as_transform() -> None:
    assert injection([TOKEN]).written == {
        "request": {
            "headers": {
                "authorization": {"secret": "forge.token", "transform": {"type": "basic", "username": "bot"}},
            },
            "on_existing_header": "fail",
        }
    }


@pytest.mark.parametrize(
    "name", ["a", "github.agent-sandbox.push_token", "..a", "A" * 100, "npm_token_for_publishing", "sk-of-the-team-2"]
)
def test_accepts_secret_names(name: str) -> None:
    assert parse_secret_name(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", "-a", "a/b", "a b", "é", "a\n", "A" * 101])
def test_rejects_invalid_secret_names(name: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        parse_secret_name(name)
    assert raised.value.hint == "use letters, digits, `.`, `_` and `-`, such as `github.token`"


@pytest.mark.parametrize(
    "value", ["ghp_0123456789abcdef", "github_pat_11ABCDEFG0123456789_x", "sk-ant-api03-0123456789"]
)
def test_rejects_a_secret_in_place_of_its_name_without_printing_the_secret(value: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        parse_secret_name(value)
    assert raised.value.what == "this is a secret, not the name of one"
    assert value not in raised.value.hint


@pytest.mark.parametrize(
    "name", ["ANTHROPIC_API_KEY", "GH_TOKEN", "A_PASSWORD", "AWS_ACCESS_KEY_ID", "AWS_SECRET", "X_PAT"]
)
def test_accepts_placeholder_variables_that_are_named_like_credentials(name: str) -> None:
    assert parse_variable(name) == name


@pytest.mark.parametrize(
    "name",
    ["PATH", "LD_PRELOAD", "HTTPS_PROXY", "NODE_OPTIONS", "BASH_ENV", "_KEY", "a_KEY", "A KEY", "A_KEY\n", "1_KEY"],
)
def test_rejects_placeholder_variables_that_are_not_named_like_credentials(name: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        parse_variable(name)
    assert raised.value.hint == (
        "use capital letters, digits and `_`, with `_KEY`, `_KEY_ID`, `_TOKEN`, `_SECRET`, `_PASSWORD` or `_PAT` "
        "at the end"
    )


def test_a_placeholder_prefix_is_short_and_safe_in_a_shell() -> None:
    assert parse_prefix("sk-ant-api03-") == "sk-ant-api03-"
    for text in ("", "a b", "$(x)", '"', "a" * 41, "a\n"):
        with pytest.raises(InvalidValue, match="not the beginning of a placeholder"):
            parse_prefix(text)

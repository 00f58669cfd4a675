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


def test_all_of_it_is_told_by_the_headers() -> None:
    told = "secret forge.token in authorization as 'bot' and secret key in x-key"
    assert str(injection([KEY, TOKEN])) == told
    assert str(injection([KEY, TOKEN], existing=Existing.REPLACE)) == f"{told} replacing what is sent"
    assert str(injection([KEY, TOKEN], existing=Existing.KEEP)) == f"{told} unless another credential is sent"


def test_a_credential_is_a_bearer_token_unless_another_kind_is_named() -> None:
    signed = Credential(header="authorization", secret="aws", kind="sigv4", region="eu-north-1", service="s3")
    assert str(signed) == "secret aws in authorization for s3 in eu-north-1"
    assert (KEY.row.name, TOKEN.row.name) == ("bearer", "basic")


def test_a_secret_in_the_query_is_written_in_its_own_section() -> None:
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
def test_what_is_written_reads_back_as_it_was(existing: Existing, kind: str) -> None:
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


def test_it_is_written_in_the_words_of_the_language() -> None:
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
def test_a_name_of_a_secret_is_one_of_a_file(name: str) -> None:
    assert parse_secret_name(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", "-a", "a/b", "a b", "é", "a\n", "A" * 101])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        parse_secret_name(name)
    assert raised.value.hint == "use letters, digits, `.`, `_` and `-`, such as `github.token`"


@pytest.mark.parametrize(
    "value", ["ghp_0123456789abcdef", "github_pat_11ABCDEFG0123456789_x", "sk-ant-api03-0123456789"]
)
def test_a_secret_in_place_of_its_name_is_refused_and_not_repeated(value: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        parse_secret_name(value)
    assert raised.value.what == "this is a secret, not the name of one"
    assert value not in raised.value.hint


@pytest.mark.parametrize(
    "name", ["ANTHROPIC_API_KEY", "GH_TOKEN", "A_PASSWORD", "AWS_ACCESS_KEY_ID", "AWS_SECRET", "X_PAT"]
)
def test_a_variable_for_a_placeholder_is_named_like_a_credential(name: str) -> None:
    assert parse_variable(name) == name


@pytest.mark.parametrize(
    "name",
    ["PATH", "LD_PRELOAD", "HTTPS_PROXY", "NODE_OPTIONS", "BASH_ENV", "_KEY", "a_KEY", "A KEY", "A_KEY\n", "1_KEY"],
)
def test_no_variable_that_changes_what_programs_do_gets_a_placeholder(name: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        parse_variable(name)
    assert raised.value.hint == (
        "use capital letters, digits and `_`, with `_KEY`, `_KEY_ID`, `_TOKEN`, `_SECRET`, `_PASSWORD` or `_PAT` "
        "at the end"
    )


def test_a_placeholder_begins_with_few_letters_that_mean_nothing_to_a_shell() -> None:
    assert parse_prefix("sk-ant-api03-") == "sk-ant-api03-"
    for text in ("", "a b", "$(x)", '"', "a" * 41, "a\n"):
        with pytest.raises(InvalidValue, match="not the beginning of a placeholder"):
            parse_prefix(text)

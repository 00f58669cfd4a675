from typing import Any

import pytest
from pydantic import ValidationError

from agent_sandbox.policy.decision import Origin
from agent_sandbox.policy.file.settings_spec import SettingsSpec
from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from agent_sandbox.policy.match.upstream import Authorities, Upstream, UpstreamProxy

PROXY = "http://proxy.corp.example:3128"
HERE = Origin(file="user/policy.yaml", line=3, layer="user")
CA = Authorities(name="corp-ca.pem (sha256 0a1b)", pem="...")


def test_returns_only_the_settings_that_are_written() -> None:
    written = {"http1": "lane", "inspect": False, "reload": "watch"}
    assert SettingsSpec.model_validate(written).values(HERE, None) == written
    assert SettingsSpec().values(HERE, None) == {}


def test_parses_upstream_settings_with_their_layer_and_origin() -> None:
    written = {"proxy": PROXY, "ca": "corp-ca.pem", "no_proxy": ["b.example", ".a.example", "b.example"]}
    said = SettingsSpec.model_validate({"upstream": written}).values(HERE, CA)
    assert said == {
        "upstream": Upstream(
            layer="user",
            proxy=UpstreamProxy(tls=False, host="proxy.corp.example", port=3128),
            no_proxy=(parse_host_pattern("b.example"), parse_host_pattern(".a.example")),
            ca=CA,
        )
    }
    assert said["upstream"].origin == HERE
    unread = SettingsSpec.model_validate({"upstream": {"ca": "corp-ca.pem"}}).values(HERE, None)["upstream"]
    assert (str(unread), unread.ca.pem) == ("corp-ca.pem can sign for every host", "")


@pytest.mark.parametrize(
    ("written", "what"),
    [
        ({}, "`upstream` has neither `proxy` nor `ca`"),
        ({"ca": "a.pem", "no_proxy": ["a.example"]}, "`no_proxy` without a `proxy`"),
        ({"proxy": PROXY, "no_proxy": ["*"]}, "with `no_proxy: [*]` the proxy is never used"),
        ({"proxy": PROXY, "no_proxy": []}, "empty list"),
        ({"proxy": PROXY, "ca": "/etc/ssl/ca.pem"}, "`ca` has to be in the directory of the policy file"),
        ({"proxy": "http://me:pw@proxy.corp.example:3128"}, "the proxy URL has credentials"),
        ({"proxy": None}, "no value"),
    ],
)
def test_rejects_upstream_settings_that_are_invalid_or_have_no_effect(written: dict[str, Any], what: str) -> None:
    with pytest.raises(ValidationError) as caught:
        SettingsSpec.model_validate({"upstream": written})
    assert [error["msg"] for error in caught.value.errors()] == [what]


@pytest.mark.parametrize(
    ("written", "ask", "timeout", "uploads"),
    [
        ("unlisted", "unlisted", 60, -1),
        (["writes", "unlisted"], "unlisted, writes", 60, -1),
        ({"timeout": 5}, "unlisted", 5, -1),
        ({"about": ["unlisted"], "timeout": 600}, "unlisted", 600, -1),
        ({"uploads": "1MiB"}, "uploads over 1MiB", 60, 1 << 20),
        ({"about": ["writes"], "uploads": 0}, "writes, uploads over 0B", 60, 0),
        (False, "", 60, -1),
    ],
)
def test_parses_ask_to_what_it_is_about_its_timeout_and_its_upload_threshold(
    written: object, ask: str, timeout: int, uploads: int
) -> None:
    values = SettingsSpec.model_validate({"ask": written}).values(HERE, None)
    assert values == {"ask": ask, "ask_timeout": timeout, "ask_uploads": uploads}


@pytest.mark.parametrize("written", [True, None, "everything", {"about": ["unlisted"], "timeout": 0}, {"timeout": 601}])
def test_rejects_invalid_values_of_ask(written: object) -> None:
    with pytest.raises(ValidationError):
        SettingsSpec.model_validate({"ask": written})

from agent_sandbox.policy.decision import Effect
from agent_sandbox.policytools.edit.short_rule import read_short_rule
from agent_sandbox.policytools.suggest.host_warnings import careful
from table_tests import each


@each(
    ("scheme", "host", "said"),
    [
        ("https", "example.org", []),
        ("http", "example.org", ["not encrypted: anyone on the network path can read and change it"]),
        ("https", "198.51.100.7", ["an address: no name says who owns it"]),
        ("https", "xn--bcher-kva.example", ["the host is displayed as b\u00fccher.example: check each letter"]),
        (
            "https",
            "dpaste.org",
            ["dpaste.org accepts pastes from anyone: anyone who knows the URL can read what the agent pastes there"],
        ),
    ],
)
def test_warns_about_plain_http_addresses_international_names_and_upload_hosts(
    scheme: str, host: str, said: list[str]
) -> None:
    assert list(careful(scheme, host, read_short_rule(Effect.ALLOW, (f"POST https://{host}/**",)).alone)) == said


@each(
    ("host", "warned"),
    [
        ("6b65793d73656372.leak.example", True),
        ("123e4567-e89b-12d3-a456-426614174000.example.org", True),
        (f"{'ab' * 21}.example.org", True),
        (f"{'ab' * 20}.example.org", False),
        ("deadbeefdead.example.org", False),
        ("web-20250101.example.org", False),
        ("198.51.100.7", False),
    ],
)
def test_warns_about_names_that_look_random(host: str, warned: bool) -> None:  # noqa: FBT001 - a row
    said = careful("https", host, read_short_rule(Effect.ALLOW, (f"GET https://{host}/x",)).alone)
    assert ("a part of the name looks random: it can carry data out" in said) == warned


@each(
    ("host", "suffix"),
    [
        ("loot.s3.amazonaws.com", "s3.amazonaws.com"),
        ("loot.s3.eu-west-1.amazonaws.com", "s3.*.amazonaws.com"),
        ("a.b.blob.core.windows.net", "blob.core.windows.net"),
        ("s3.amazonaws.com", ""),
        ("ec2.amazonaws.com", ""),
        ("docs.example.com", ""),
    ],
)
def test_warns_about_names_that_anyone_can_get(host: str, suffix: str) -> None:
    rule = read_short_rule(Effect.ALLOW, (f"GET https://{host}/x",))
    found = [warning for warning in careful("https", host, rule.alone) if warning.startswith("anyone can get")]
    expected = f"anyone can get a name below {suffix}: check that this one is not a stranger's"
    assert found == ([expected] if suffix else [])

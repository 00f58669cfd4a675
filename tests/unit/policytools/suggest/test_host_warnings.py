from agent_sandbox.policy.decision import Effect
from agent_sandbox.policytools.edit.short_rule import read_short_rule
from agent_sandbox.policytools.suggest.host_warnings import careful
from table_tests import each


@each(
    ("scheme", "host", "said"),
    [
        ("https", "example.org", []),
        ("http", "example.org", ["it is not encrypted: anybody on the way can read and change it"]),
        ("https", "198.51.100.7", ["it is an address: no name says whose it is"]),
        ("https", "xn--bcher-kva.example", ["the host reads b\u00fccher.example: look at each letter"]),
        (
            "https",
            "dpaste.org",
            ["dpaste.org takes pastes from anybody: what the agent pastes there, anybody reads who knows the address"],
        ),
    ],
)
def test_what_is_to_be_known_of_a_host_is_told(scheme: str, host: str, said: list[str]) -> None:
    assert list(careful(scheme, host, read_short_rule(Effect.ALLOW, (f"POST https://{host}/**",)).alone)) == said

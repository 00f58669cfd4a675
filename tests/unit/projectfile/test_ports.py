import pytest

from agent_sandbox.projectfile.ports import Pair, parse_port


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1", (1, 1)),
        ("65535", (65535, 65535)),
        ("0:80", (0, 80)),
        ("65536", None),
        ("65536:80", None),
        ("80:0", None),
        ("8080:", None),
        ("\u0663000", None),
        ("80\n", None),
    ],
)
def test_parses_only_valid_ports(text: str, found: Pair | None) -> None:
    assert parse_port(text) == found

import pytest

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.match.other_protocols import HINT, PROTOCOLS, require_http
from table_tests import each


@each(("ports", "what"), [([80, 3306], "port 3306 is MySQL"), ([27017], "port 27017 is MongoDB")])
def test_refuses_the_port_of_another_protocol(ports: list[int], what: str) -> None:
    with pytest.raises(InvalidValue) as invalid:
        require_http(ports, named=False, how="say so")
    assert (invalid.value.what, invalid.value.hint) == (
        f"{what}, and only HTTP and TLS leave the sandbox",
        HINT.format("say so"),
    )


def test_accepts_usual_http_ports_and_any_port_with_a_scheme() -> None:
    require_http([80, 443, 3000, 5000, 8080, 9090, 11434, None], named=False, how="")
    require_http(PROTOCOLS, named=True, how="")

from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.http.host import canonical_host, is_address
from table_tests import each

VECTORS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parents[1] / "vectors/hosts.yaml").read_text("utf-8"))


@each("vector", VECTORS)
def test_a_host_has_one_canonical_form_or_is_ambiguous(vector: dict[str, Any]) -> None:
    if "is" in vector:
        assert canonical_host(vector["text"]) == vector["is"], vector["why"]
        return
    with pytest.raises(Ambiguous) as doubt:
        canonical_host(vector["text"])
    assert str(doubt.value) == vector["doubt"], vector["why"]


@pytest.mark.parametrize("length", [63, 253])
def test_accepts_a_name_as_long_as_dns_allows(length: int) -> None:
    name = ".".join(["a" * 63] * 4)[:length]
    assert canonical_host(name) == name


@pytest.mark.parametrize("name", ["a" * 64, ".".join(["a" * 62] * 4) + ".aaa"])
def test_rejects_a_name_longer_than_dns_allows(name: str) -> None:
    with pytest.raises(Ambiguous, match="not a host name"):
        canonical_host(name)


def test_distinguishes_addresses_from_names() -> None:
    hosts = ["192.0.2.1", "2001:db8::1", "example.com", "1.example.com", "v1"]
    assert [host for host in hosts if is_address(host)] == ["192.0.2.1", "2001:db8::1"]

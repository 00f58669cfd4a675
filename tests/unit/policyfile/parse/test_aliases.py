import pytest

from agent_sandbox.policyfile import parse_layer, parse_service, shipped_services
from agent_sandbox.policyfile.parse.aliases import (
    also_called,
    every_alias,
    known_elsewhere,
    service_called,
    service_meant,
)
from agent_sandbox.policytools.importing.old_services import old_hosts
from agent_sandbox.problems import UserError

NAMES = ("claude", "debian", "go", "java", "node", "python", "rust")


@pytest.mark.parametrize(
    ("word", "service"),
    [
        ("pip", "python"),
        ("npm", "node"),
        ("apt", "debian"),
        ("golang", "go"),
        ("Cargo", "rust"),
        ("maven", "java"),
        ("claude-code", "claude"),
        ("go", "go"),
        ("nothing", None),
    ],
)
def test_service_called_finds_a_service_by_name_or_alias(word: str, service: str | None) -> None:
    assert service_called(word, NAMES) == service


@pytest.mark.parametrize(
    ("word", "service"), [("github", "github"), ("npm", "node"), ("python", "python"), ("db", None), ("a.test", None)]
)
def test_service_meant_finds_a_service_by_name_or_alias(word: str, service: str | None) -> None:
    assert service_meant(word) == service


def test_a_policy_can_name_a_service_by_its_alias() -> None:
    services = shipped_services()
    layer = parse_layer("services: [golang, {name: Cargo}]", name="p", file="p", shown="p", services=services)
    assert [service.name for service in layer.spec.services] == ["go", "rust"]
    with pytest.raises(UserError) as error:
        parse_layer("services: [golang, go]", name="p", file="p", shown="p", services=services)
    assert str(error.value) == "p:1:20: service `go` is named at p:1:12, too; keep one entry with the options of both"


def test_every_alias_leads_to_a_service() -> None:
    assert {"npm", "pip", "apt", "cargo", "gomod", "maven", "gem"} <= set(every_alias())
    assert all(map(service_meant, every_alias()))


def test_service_called_returns_only_services_from_the_given_names() -> None:
    assert service_called("golang", ["rust"]) is None


def test_reads_the_aliases_from_also_in_the_service_file() -> None:
    assert also_called(parse_service("also: [a, b]", name="x", file="f", shown="s")) == ("a", "b")
    assert also_called(parse_layer("version: 1", name="x", file="f", shown="s", services=())) == ()


def test_known_elsewhere_is_true_for_imported_services_that_do_not_ship() -> None:
    words = {*old_hosts(), *shipped_services(), "nonesuch"}
    assert {word for word in words if known_elsewhere(word.upper())} == {*old_hosts()} - {*shipped_services()}

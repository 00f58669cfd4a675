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
def test_a_service_goes_by_what_people_call_it(word: str, service: str | None) -> None:
    assert service_called(word, NAMES) == service


@pytest.mark.parametrize(
    ("word", "service"), [("github", "github"), ("npm", "node"), ("python", "python"), ("db", None), ("a.test", None)]
)
def test_a_service_is_meant_by_its_name_and_by_what_people_call_it(word: str, service: str | None) -> None:
    assert service_meant(word) == service


def test_a_policy_names_a_service_by_what_people_call_it() -> None:
    services = shipped_services()
    layer = parse_layer("services: [golang, {name: Cargo}]", name="p", file="p", shown="p", services=services)
    assert [service.name for service in layer.spec.services] == ["go", "rust"]
    with pytest.raises(UserError) as error:
        parse_layer("services: [golang, go]", name="p", file="p", shown="p", services=services)
    assert str(error.value) == "p:1:20: service `go` is named at p:1:12, too; keep one entry with the options of both"


def test_every_alias_leads_to_a_service() -> None:
    assert {"npm", "pip", "apt", "cargo", "gomod", "maven", "gem"} <= set(every_alias())
    assert all(map(service_meant, every_alias()))


def test_only_services_that_can_be_named_are_told() -> None:
    assert service_called("golang", ["rust"]) is None


def test_the_words_stand_in_the_file_of_the_service() -> None:
    assert also_called(parse_service("also: [a, b]", name="x", file="f", shown="s")) == ("a", "b")
    assert also_called(parse_layer("version: 1", name="x", file="f", shown="s", services=())) == ()


def test_what_an_import_knows_and_we_do_not_ship_is_known_elsewhere() -> None:
    words = {*old_hosts(), *shipped_services(), "nonesuch"}
    assert {word for word in words if known_elsewhere(word.upper())} == {*old_hosts()} - {*shipped_services()}

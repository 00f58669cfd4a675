import dataclasses

from msgspec.structs import replace

from agent_sandbox.policy import Policy, parse_request
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.proxy.decide.service_hints import ServiceHints
from policy_texts import PolicyOf

NOTHING = Policy.deny_all("nothing is allowed yet")
GET = parse_request(scheme="https", host="a.test", port=443, method="GET", target="/x")


def test_suggests_services_once_they_have_been_read(policy: PolicyOf) -> None:
    offers = ServiceHints(lambda: {"one": policy("domains: [a.test]"), "other": policy("domains: [b.test]")})
    assert offers.matching_services(GET, NOTHING) == ()
    offers.read().join()
    assert offers.matching_services(GET, NOTHING) == ("one",)


def test_an_unreadable_service_is_not_a_fault() -> None:
    def load() -> dict[str, Policy]:
        raise UserError([Problem(where="services/python.yaml", what="broken")])

    offers = ServiceHints(load)
    offers.read().join()
    assert offers.matching_services(GET, NOTHING) == ()


def test_recognises_the_package_manager_without_any_service() -> None:
    asked = replace(GET, path="/simple/requests/")
    offers = ServiceHints(dict)
    found = [offers.package_manager(request) for request in (GET, asked)]
    assert [package_manager and package_manager.service for package_manager in found] == [None, "python"]


def test_suggests_a_command_for_fetching_a_repository_that_the_policy_does_not_name(policy: PolicyOf) -> None:
    request = replace(GET, host="github.com", path="/o/r.git/info/refs", query="service=git-upload-pack")
    named = dataclasses.replace(policy("domains: [a.test]"), layers=frozenset({"service github"}))
    command = (
        "run `agent-sandbox secret setup github --read o/r` on the host machine: it asks for a token if there is none"
    )
    assert ServiceHints(dict).advise(request, named) == command


def test_advice_names_the_services_that_would_allow_the_request(policy: PolicyOf) -> None:
    offers = ServiceHints(lambda: {"one": policy("domains: [a.test]")})
    offers.read().join()
    assert "or `agent-sandbox policy allow one`" in offers.advise(GET, policy("domains: [b.test]"))
    assert offers.advise(GET, policy("domains: [a.test]")) == ""

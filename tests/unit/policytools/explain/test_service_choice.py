from agent_sandbox.policy import Layer, Request
from agent_sandbox.policy.decision import Origin
from agent_sandbox.policyfile import parse_layer, parse_service
from agent_sandbox.policytools.explain.service_choice import chosen_for
from policy_texts import RequestOf
from table_tests import each

FORGE = """
options: {repos: repositories, git: {access: [read, readwrite]}, api: {access: [read, readwrite]}}
domains:
  - host: a.test
    rules:
      - {when: {repos: any, git: read}, methods: [GET]}
      - {when: {repos: named, git: read}, methods: [GET], path: {prefix: "/{repo}"}}
      - {when: {repos: named, git: read}, methods: [GET], path: {prefix: "/{repo}.git"}}
      - {when: {git: readwrite}, methods: [POST], path: {glob: "/{repo}/push"}}
      - {when: {repos: named, git: readwrite}, methods: [POST], path: {glob: "/{repo}.git/push"}}
      - {when: {api: read}, methods: [GET], path: {prefix: "/api/{repo}"}}
      - {when: {api: readwrite}, methods: [POST], path: {glob: "/api/{repo}/issues"}}
      - {when: {git: readwrite}, methods: [PUT], path: {prefix: /files/o/n}}
"""


def service(text: str) -> Layer:
    return parse_service(text, name="x", file="x.yaml", shown="services/x.yaml")


SERVICES = {"x": service(FORGE), "plain": service("domains: [a.test]")}


def layer(entry: str) -> Layer:
    text = f"services: [{entry}]\n" if entry else "domains: [b.test]\n"
    return parse_layer(text, name="project", file="policy.yaml", shown="policy.yaml", services=SERVICES)


def chosen(request: Request, entry: str) -> list[str]:
    return [choice.line for choice in chosen_for(request, layer(entry), SERVICES)]


READ, WRITE = "{access: read}", "{access: readwrite}"


@each(
    ("line", "entry", "expected"),
    [
        ("GET https://a.test/o/n.git/refs", "", f"- {{name: x, repos: [o/n], git: {READ}}}"),
        ("POST https://a.test/o/n.git/push", "", f"- {{name: x, repos: [o/n], git: {WRITE}}}"),
        ("POST https://a.test/api/o/n/issues", "", f"- {{name: x, repos: [o/n], api: {WRITE}}}"),
        ("POST https://a.test/o/n/push", "x", f"- {{name: x, repos: [o/n], git: {WRITE}, api: {READ}}}"),
        (
            "POST https://a.test/o/n/push",
            f"{{name: x, git: {READ}, repos: [o/n]}}",
            f"- {{name: x, repos: [o/n], git: {WRITE}}}",
        ),
        (
            "GET https://a.test/o/n/refs",
            f"{{name: x, git: {READ}, repos: [o/m]}}",
            f"- {{name: x, repos: [o/m, o/n], git: {READ}}}",
        ),
        (
            "POST https://a.test/o/n/push",
            f'{{name: x, git: {READ}, repos: ["o/*"], merge_mode: replace, readonly: false}}',
            f'- {{name: x, repos: ["o/*"], git: {WRITE}, merge_mode: replace, readonly: false}}',
        ),
        (
            "PUT https://a.test/files/o/n",
            f"{{name: x, git: {READ}, repos: [o/n]}}",
            f"- {{name: x, repos: [o/n], git: {WRITE}}}",
        ),
    ],
)
def test_chooses_the_least_options_that_allow_the_request_and_keeps_existing_options(
    request_of: RequestOf, line: str, entry: str, expected: str
) -> None:
    assert chosen(request_of(line), entry) == [expected]
    (choice,) = chosen_for(request_of(line), layer(entry), SERVICES)
    again = layer(choice.line.removeprefix("- "))
    assert list(chosen_for(request_of(line), again, SERVICES)) == [
        type(choice)(entry=choice.entry, instead_of=again.origin("services", 0))
    ]


@each(
    ("line", "entry"),
    [
        ("DELETE https://a.test/o/n/push", ""),  # no option allows DELETE
        ("GET https://b.test/o/n", ""),
        ("PUT https://a.test/files/o/n", ""),  # names no repository, and push access to all is too wide
        ("POST https://a.test/o/n/push", f"{{name: x, repos: [o/n], git: {READ}, readonly: true}}"),
        ("GET https://a.test/o/*/refs", ""),  # not a repository; in a policy, `o/*` means all of an owner
    ],
)
def test_offers_no_choice_if_no_option_or_only_a_far_too_wide_option_allows_the_request(
    request_of: RequestOf, line: str, entry: str
) -> None:
    assert chosen(request_of(line), entry) == []


@each(
    ("entry", "instead_of", "closes"),
    [
        ("", None, False),
        ("x", Origin(file="policy.yaml", line=1, layer="project"), True),
        (f"{{name: x, repos: [o/n], git: {READ}}}", Origin(file="policy.yaml", line=1, layer="project"), False),
    ],
)
def test_reports_which_entry_a_choice_replaces_and_whether_it_closes_other_repositories(
    request_of: RequestOf, entry: str, instead_of: Origin | None, *, closes: bool
) -> None:
    (got,) = chosen_for(request_of("POST https://a.test/o/n/push"), layer(entry), SERVICES)
    assert (got.instead_of, got.closes_others) == (instead_of, closes)


def test_keeps_a_chosen_secret(request_of: RequestOf) -> None:
    auth = "auth: {host: a.test, type: bearer}"
    forge = FORGE.replace("git: {access: [read, readwrite]", f"git: {{access: [read, readwrite], {auth}")
    secretive = {"x": service(forge)}
    text = "services: [{name: x, repos: [o/n], git: {access: read, auth: {secret: token}}}]"
    project = parse_layer(text, name="project", file="policy.yaml", shown="policy.yaml", services=secretive)
    (choice,) = chosen_for(request_of("POST https://a.test/o/n/push"), project, secretive)
    assert choice.line == "- {name: x, repos: [o/n], git: {access: readwrite, auth: {secret: token}}}"


def test_quotes_a_secret_name_that_yaml_would_not_read_as_text(request_of: RequestOf) -> None:
    forge = FORGE.replace("git: {access: [read, readwrite]", "git: {access: [read], auth: {host: a.test, type: bearer}")
    secretive = {"x": service(forge)}
    entry = '{name: x, repos: [o/m], git: {access: read, auth: {secret: "123"}}, api: {access: read}}'
    text = f"services: [{entry}]"
    project = parse_layer(text, name="project", file="policy.yaml", shown="policy.yaml", services=secretive)
    (choice,) = chosen_for(request_of("GET https://a.test/o/n/refs"), project, secretive)
    assert choice.line == f"- {entry.replace('o/m', 'o/m, o/n')}"

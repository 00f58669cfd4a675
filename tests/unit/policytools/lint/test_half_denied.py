from collections.abc import Callable

from agent_sandbox.policytools.lint.half_denied import half_denied

type Find = Callable[..., list[tuple[int, str]]]

TEXT = """
domains:
  - www.example.com
  - host: api.example.com
    rules: [{schemes: [https]}]
  - host: old.example.com
    rules: [{methods: [DELETE], schemes: [http], path: {exact: /x/1}}]
deny:
  - POST https://www.example.com/admin/**
  - POST https://api.example.com/admin/**
  - GET http://www.example.com/a
  - GET https://www.example.com/a
  - host: old.example.com
    rules: [{schemes: [https], path: {prefix: /x}}]
  - host: www.example.com
    ports: [8443]
    rules: [{schemes: [https]}]
"""


def test_a_deny_whose_requests_are_allowed_over_the_other_scheme_is_found(find: Find) -> None:
    assert find(half_denied, TEXT) == [
        (
            9,
            "`POST https://www.example.com/admin/**` is denied,"
            " and `POST http://www.example.com/admin/**` is allowed by policy.yaml:3",
        ),
        (
            14,
            "`any method https://old.example.com/x/...` is denied,"
            " and `any method http://old.example.com/x/...` is allowed by policy.yaml:7",
        ),
    ]

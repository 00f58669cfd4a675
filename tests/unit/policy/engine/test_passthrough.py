from collections.abc import Callable

from agent_sandbox.policy.compiler.compile import compile_policy
from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.engine.passthrough import passes_through
from table_tests import each

type LayerOf = Callable[..., Layer]

UNREAD = "{host: a.test, inspect: false}"


@each(
    ("text", "unopened"),
    [
        ("domains: [a.test]", False),
        (f"domains: [{UNREAD}]", True),
        ("domains: [{host: .a.test, inspect: false}]", True),
        (f"domains: [{UNREAD}, a.test, .a.test]", True),
        (f"domains: [{UNREAD}, {{host: .a.test, inspect: true}}]", False),
        (f"domains: [{UNREAD}, {{host: .a.test, rules: [{{path: {{prefix: /x}}}}]}}]", False),
        (f"domains: [{UNREAD}, {{host: a.test, rules: [{{methods: [GET]}}]}}]", False),
        (f"domains: [{UNREAD}, {{host: a.test, ports: [80], rules: [{{methods: [GET]}}]}}]", True),
        (f"domains: [{UNREAD}]\nallow: [GET https://a.test/]", False),
        (f"domains: [{UNREAD}]\ndeny: [POST https://a.test/x]", False),
        (f"domains: [{UNREAD}]\ndeny: [a.test]", False),
        (f"domains: [{UNREAD}]\ndeny: [{{host: a.test, ports: [8443]}}, b.test]", True),
        ("domains: [a.test]\nsettings: {inspect: false}", True),
        ("domains: [{host: a.test, inspect: true}]\nsettings: {inspect: false}", False),
        ("domains: [{host: a.test, rules: [{methods: [GET]}]}]\nsettings: {inspect: false}", False),
        ("domains: [{host: a.test, ports: [8443], inspect: false}]", False),
        ("domains: [b.test]\nsettings: {inspect: false}", False),
        ("deny: [a.test]\nsettings: {inspect: false}", False),
        ("domains: [{host: a.test, ask: true}]\nsettings: {inspect: false}", False),
        (f"domains: [{UNREAD}, {{host: .a.test, ask: true}}]", False),
        (f"domains: [{UNREAD}, {{host: a.test, ports: [8443], ask: true}}]", True),
        ("domains: [a.test, {host: b.test, ask: true}]\nsettings: {inspect: false}", True),
    ],
)
def test_passes_tls_through_only_if_no_rule_for_the_host_needs_inspection(
    layer_of: LayerOf, text: str, *, unopened: bool
) -> None:
    assert compile_policy([layer_of(text)], {}).passthrough("a.test", 443) is unopened


@each(
    ("above", "unopened"),
    [
        ("domains: [a.test]", True),
        ("domains: [.a.test, {host: a.test, rules: [{methods: [GET]}]}]", True),
        ("domains: [{host: a.test, rules: [{methods: [GET]}]}]", False),
        ("domains: [{host: a.test, inspect: true}]", False),
        ("domains: [a.test, {host: a.test, ask: true}]", False),
        ("domains: [{host: a.test, ports: [80]}]", False),
        ("deny: [b.test]", True),
        ("settings: {inspect: true}", False),
        ("settings: {inspect: false}", True),
    ],
)
def test_a_restricting_layer_can_require_inspection(layer_of: LayerOf, above: str, *, unopened: bool) -> None:
    layers = [layer_of(f"tighten: true\n{above}"), layer_of(f"domains: [{UNREAD}]")]
    assert compile_policy(layers, {}).passthrough("a.test", 443) is unopened


def test_a_restricting_layer_cannot_add_passthrough(layer_of: LayerOf) -> None:
    layers = [layer_of("domains: [a.test]"), layer_of("tighten: true\nsettings: {inspect: false}")]
    assert not compile_policy(layers, {}).passthrough("a.test", 443)


def test_inspects_a_host_without_a_rule() -> None:
    assert not passes_through([], [], port=443, inspect=False)

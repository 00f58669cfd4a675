import pytest

from agent_sandbox.detect import Offer
from agent_sandbox.policy import compile_policy
from agent_sandbox.policyfile import parse_layer, shipped_services
from agent_sandbox.project.render.formats.faithful import load_yaml
from agent_sandbox.project.render.policy import Offered, render_policy
from agent_sandbox.stack.recorded import Ide
from sample_project import AGENTS, TEMPLATES
from table_tests import each

OFFERS = (
    Offer(host="npm.example.test", files=("package-lock.json", ".npmrc"), schemes=("https",)),
    Offer(host="mirror.example.test", files=("pip.conf",), schemes=("https", "http"), ports=(80, 8443)),
)


SERVICES = shipped_services()


def render(offered: Offered | None = None, ide: Ide = Ide.NONE) -> str:
    return render_policy(TEMPLATES, AGENTS, ide, offered or Offered())


@pytest.mark.parametrize(
    ("ide", "services"),
    [(Ide.NONE, ["claude"]), (Ide.VSCODE, ["claude", "vscode"]), (Ide.JETBRAINS, ["claude", "jetbrains"])],
)
def test_the_first_policy_names_the_services_of_the_agent_and_the_editor(ide: Ide, services: list[str]) -> None:
    assert load_yaml(render(ide=ide)) == {"version": 1, "services": services, "domains": None}


def test_hosts_that_files_name_are_commented_out() -> None:
    text = render(Offered(left=OFFERS))
    assert load_yaml(text) == load_yaml(render())
    assert "  # - host: npm.example.test # package-lock.json, .npmrc\n" in text


def test_uncommented_hosts_equal_the_entries_that_detect_writes() -> None:
    text = render(Offered(left=OFFERS))
    head, _, tail = text.partition("to allow a host.\n")
    uncommented = head + "to allow a host.\n" + tail.replace("  # ", "  ").replace("  #   ", "    ")
    assert load_yaml(uncommented) == load_yaml(render(Offered(allowed=OFFERS, detect=True)))


def test_detect_allows_encoded_slashes_only_for_npm_registries() -> None:
    text = render(Offered(allowed=OFFERS, detect=True))
    policy = compile_policy([parse_layer(text, name="p", file="p", shown="p", services=SERVICES)], SERVICES)
    assert [policy.takes_encoded_slash(offer.host) for offer in OFFERS] == [True, False]


def test_detect_allows_only_reading() -> None:
    assert load_yaml(render(Offered(allowed=OFFERS, detect=True)))["domains"] == [
        {
            "host": "npm.example.test",
            "encoded_slash": True,
            "rules": [{"methods": ["GET"], "schemes": ["https"]}],
        },
        {
            "host": "mirror.example.test",
            "ports": [80, 8443],
            "rules": [{"methods": ["GET"], "schemes": ["https", "http"]}],
        },
    ]


def test_allowed_and_commented_out_hosts_have_separate_comments() -> None:
    text = render(Offered(allowed=OFFERS[:1], left=OFFERS[1:], detect=True))
    assert (
        text.partition("prefix: /v1/}}\n")[2]
        == """
  # Named by this project's files and this machine's configuration; read-only.
  - host: npm.example.test # package-lock.json, .npmrc
    encoded_slash: true # scoped packages are requested as /@scope%2fname
    rules:
      - {methods: [GET], schemes: [https]}

  # Named only by this project's files, which anyone may have written. Remove the `#` to allow a host.
  # - host: mirror.example.test # pip.conf
  #   ports: [80, 8443]
  #   rules:
  #     - {methods: [GET], schemes: [https, http]}
"""
    )


@each("name", ["x\n- evil.test", "a # b", "{{ x }}", "\u2028- evil.test", "x\r- evil.test"])
def test_file_names_cannot_break_out_of_a_hosts_comment(name: str) -> None:
    offer = Offer(host="npm.example.test", files=(name,), schemes=("https",))
    assert load_yaml(render(Offered(left=(offer,)))) == load_yaml(render())


def test_all_explanations_are_comments() -> None:
    lines = [line.strip() for line in render().splitlines() if line.strip()]
    assert [line for line in lines if not line.startswith("#")] == [
        "version: 1",
        "services: # named sets of rules; `agent-sandbox policy show` lists their rules",
        "- claude # what Claude Code connects to",
        "domains:",
    ]


def test_services_that_files_indicate_are_active_with_a_comment_that_names_the_files() -> None:
    shown = {"node": ("package.json",), "python": ("pyproject.toml", "requirements.txt"), "claude": ("x",)}
    text = render(Offered(services=shown))
    assert load_yaml(text)["services"] == ["claude", "node", "python"]
    assert "  - node # for package.json\n  - python # for pyproject.toml, requirements.txt\n" in text


def test_file_names_cannot_break_out_of_a_services_comment() -> None:
    text = render(Offered(services={"python": ("requirements\u2028- evil.txt",)}))
    assert load_yaml(text)["services"] == ["claude", "python"]

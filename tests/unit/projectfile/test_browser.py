import json

from agent_sandbox.agents.mcp import McpServer
from agent_sandbox.images import Additions
from agent_sandbox.projectfile.additions import additions
from agent_sandbox.projectfile.browser import CONTROLLERS, PACKAGES
from agent_sandbox.projectfile.parsing import parse_project_file
from agent_sandbox.resources import data_root
from table_tests import each

DEVTOOLS, PLAYWRIGHT = CONTROLLERS[True], CONTROLLERS["playwright"]


def servers(text: str) -> dict[str, McpServer]:
    return {one.name: one for one in parse_project_file(text, file="f").servers}


@each(
    ("text", "expected"),
    [
        ("browser: false", Additions()),
        ("browser: true", Additions(browser=PACKAGES, npm=(f"chrome-devtools-mcp@{DEVTOOLS.version}",))),
        ("browser: playwright", Additions(browser=PACKAGES, npm=(f"@playwright/mcp@{PLAYWRIGHT.version}",))),
        (
            "browser: true\npackages: [tree, chromium]\ntools: {npm: [chrome-devtools-mcp@1.0.0]}",
            Additions(packages=("tree", "chromium"), browser=PACKAGES[1:], npm=("chrome-devtools-mcp@1.0.0",)),
        ),
        (
            "browser: playwright\ntools: {npm: ['@playwright/mcp']}",
            Additions(browser=PACKAGES, npm=("@playwright/mcp",)),
        ),
    ],
)
def test_browser_adds_chromium_and_a_pinned_mcp_server(text: str, expected: Additions) -> None:
    assert additions(parse_project_file(text, file="f"), {}, file="f") == expected


def test_browser_adds_its_mcp_server_unless_the_project_defines_a_server_named_browser() -> None:
    own = McpServer(name="browser", command=("mine",))
    assert servers("mcp: {a: {command: x}}") == {"a": McpServer(name="a", command=("x",))}
    assert servers("browser: true\nmcp: {a: {command: x}}") == {
        "browser": DEVTOOLS.server,
        "a": McpServer(name="a", command=("x",)),
    }
    assert servers("browser: playwright") == {"browser": PLAYWRIGHT.server}
    assert servers("browser: true\nmcp: {browser: {command: mine}}") == {"browser": own}


def test_chromium_policies_turn_off_dns_over_https_and_quic() -> None:
    policies = json.loads((data_root() / "images" / "agent" / "etc" / "chromium.json").read_text())
    assert (policies["DnsOverHttpsMode"], policies["QuicAllowed"]) == ("off", False)

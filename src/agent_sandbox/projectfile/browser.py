"""What `browser: true` in a project file adds: Chromium, and an MCP server that controls it for the agents."""

from collections.abc import Sequence

from agent_sandbox.agents.mcp import McpServer

# Besides Chromium: a font, without which it draws no text, and certutil, with which it learns of the proxy's CA.
PACKAGES = ("chromium", "fonts-liberation", "libnss3-tools")
NPM_NAME, NPM_VERSION = "chrome-devtools-mcp", "1.11.0"
# A separate profile for each agent, files only where the agent works, and no requests to Google.
SERVER = McpServer(
    name="browser",
    command=(
        NPM_NAME,
        *("--headless", "--isolated", "--viewport=1280x800", "--executablePath=/usr/bin/chromium"),
        *("--workspace=/workspace", "--workspace=/tmp"),
        *("--no-usage-statistics", "--no-performance-crux"),
    ),
    env={"CHROME_DEVTOOLS_MCP_NO_UPDATE_CHECKS": "1"},
)


def packages_with(packages: Sequence[str]) -> tuple[str, ...]:
    """Return the Debian packages of the project, with those of the browser.

    >>> packages_with(["tree", "chromium"])
    ('tree', 'chromium', 'fonts-liberation', 'libnss3-tools')
    """
    return tuple(dict.fromkeys((*packages, *PACKAGES)))


def npm_with(packages: Sequence[str]) -> tuple[str, ...]:
    """Return the npm packages of the project, with the MCP server unless the project names a version of it.

    >>> npm_with(["pnpm@10"])
    ('pnpm@10', 'chrome-devtools-mcp@1.11.0')
    """
    named = any(one.partition("@")[0] == NPM_NAME for one in packages)
    return tuple(packages) if named else (*packages, f"{NPM_NAME}@{NPM_VERSION}")

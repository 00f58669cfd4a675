"""What `browser` in a project file adds: Chromium, and an MCP server that controls it for the agents."""

from collections.abc import Sequence

from msgspec import Struct

from agent_sandbox.agents.mcp import McpServer

# Besides Chromium: a font, without which it draws no text, and certutil, with which it learns of the proxy's CA.
PACKAGES = ("chromium", "fonts-liberation", "libnss3-tools")
NAME = "browser"
EXECUTABLE = "/usr/bin/chromium"


class Controller(Struct, frozen=True, kw_only=True):
    """An MCP server that controls the browser, and the npm package that it comes from."""

    package: str
    version: str
    server: McpServer


# By their value in the file. Each agent has a separate profile, files only where it works, and no requests to Google.
CONTROLLERS = {
    True: Controller(
        package="chrome-devtools-mcp",
        version="1.11.0",
        server=McpServer(
            name=NAME,
            command=(
                "chrome-devtools-mcp",
                *("--headless", "--isolated", "--viewport=1280x800", f"--executablePath={EXECUTABLE}"),
                *("--workspace=/workspace", "--workspace=/tmp"),
                *("--no-usage-statistics", "--no-performance-crux"),
            ),
            env={"CHROME_DEVTOOLS_MCP_NO_UPDATE_CHECKS": "1"},
        ),
    ),
    # Its devtools record traces. A file that gets no name is written to the output directory.
    "playwright": Controller(
        package="@playwright/mcp",
        version="0.0.83",
        server=McpServer(
            name=NAME,
            command=(
                "playwright-mcp",
                *("--headless", "--isolated", "--viewport-size=1280x800", f"--executable-path={EXECUTABLE}"),
                *("--no-sandbox", "--caps=devtools", "--output-dir=/workspace/.playwright-mcp"),
            ),
        ),
    ),
}


def npm_with(packages: Sequence[str], controller: Controller) -> tuple[str, ...]:
    """Return the npm packages of the project, with the controller's unless the project names a version of it.

    >>> npm_with(["pnpm@10"], CONTROLLERS["playwright"])
    ('pnpm@10', '@playwright/mcp@0.0.83')
    """
    named = any(one.startswith(f"{controller.package}@") or one == controller.package for one in packages)
    return tuple(packages) if named else (*packages, f"{controller.package}@{controller.version}")

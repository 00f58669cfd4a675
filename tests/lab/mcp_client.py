"""A scripted MCP client, run inside: it starts a server as an agent's settings say, and calls its tools one by one.

Arguments: the settings file, the server's name, and each call as JSON: the tool and its arguments. Prints the answers.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def main(file: str, name: str, *calls: str) -> None:
    """Print one line of JSON for each call: the texts of the answer."""
    said = json.loads(Path(file).read_text("utf-8"))["mcpServers"][name]
    command = ("env", *(f"{key}={value}" for key, value in said.get("env", {}).items()), said["command"], *said["args"])
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as server:
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        ask(server, 0, "initialize", client)
        send(server, {"method": "notifications/initialized"})
        for number, call in enumerate(calls, start=1):
            tool, arguments = json.loads(call)
            found = ask(server, number, "tools/call", {"name": tool, "arguments": arguments})
            print(json.dumps([one.get("text", "") for one in found["content"]]), flush=True)
        server.terminate()


def ask(server: "subprocess.Popen[str]", number: int, method: str, params: dict[str, Any]) -> Any:
    """Send a request and return its result."""
    send(server, {"id": number, "method": method, "params": params})
    for line in server.stdout or ():
        said = json.loads(line)
        if said.get("id") == number and "method" not in said:
            return said["result"]
    raise SystemExit("the server has ended")


def send(server: "subprocess.Popen[str]", message: dict[str, Any]) -> None:
    """Send one message."""
    print(json.dumps({"jsonrpc": "2.0", **message}), file=server.stdin, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

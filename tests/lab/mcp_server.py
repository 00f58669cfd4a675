"""An MCP server without a tool, run inside by an agent that connects to it."""

import json
import sys

ANSWERS = {
    "initialize": {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "test", "version": "1"}},
}

for line in sys.stdin:
    said = json.loads(line)
    if "id" in said:
        answer = {"jsonrpc": "2.0", "id": said["id"], "result": ANSWERS.get(said["method"], {})}
        print(json.dumps(answer), flush=True)

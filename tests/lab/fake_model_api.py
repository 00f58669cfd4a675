"""The responses of model providers, as far as their command-line clients need them.

A conversation without a model: a prompt that holds `run>>COMMAND<<` is answered with a call of the client's shell tool,
and the tool's result comes back as the final text, so a test reads what the command printed inside the sandbox.
Anthropic's API also calls other tools, one after the other: `call>>TOOL {"its": "arguments"}<<`.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

COMMAND = re.compile(r"run>>(.*?)<<", re.DOTALL)
CALL = re.compile(r"call>>(\S+) (.*?)<<", re.DOTALL)
# Aider's models have no tools. They write files, and Aider shows them the output of its test command when that fails.
EDITS, OUTPUT = "SEARCH/REPLACE", "And got this output:"
EDIT = """\
run.sh
```sh
<<<<<<< SEARCH
=======
{}
>>>>>>> REPLACE
```
"""
GREETING = "Hello from the stand-in."


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """The model answers with a text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The model asks for a command to be run."""

    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The model calls a tool by its name."""

    tool: str
    arguments: Any
    number: int


@dataclass(frozen=True, slots=True)
class Json:
    """One whole document."""

    value: Any
    status: int = 200


@dataclass(frozen=True, slots=True)
class Events:
    """Server-sent events: (name, data) each."""

    events: Sequence[tuple[str, Any]]
    pause: float = 0.0


def next_turn(prompts: str, results: str) -> Say | Run:
    """Decide the model's next step from the user's messages and the results of tools."""
    wanted = COMMAND.search(prompts)
    if wanted and not results:
        return Run(command=wanted[1])
    return Say(text=f"RESULT: {results}" if results else GREETING)


def next_edit(prompts: str) -> Say:
    """Decide the next step of a model without tools: it writes the command into a file."""
    _, has_run, output = prompts.partition(OUTPUT)
    wanted = COMMAND.search(prompts)
    if wanted and not has_run:
        return Say(text=EDIT.format(wanted[1]))
    return Say(text=f"RESULT: {output}" if has_run else GREETING)


def shell_tool(tools: Sequence[Any]) -> tuple[str, Any]:
    """Return the name and the parameters' schema of the tool that runs a command, or an empty name."""
    for tool in tools:
        said = tool.get("function", tool)
        schema: Any = next((said[key] for key in SCHEMAS if said.get(key)), {})
        if {"command", "cmd"} & schema.get("properties", {}).keys():
            return said["name"], schema
    return "", {}


SCHEMAS = ("input_schema", "parameters", "parametersJsonSchema")
# How long Codex waits for a command before it goes on without it: a person may be asked meanwhile.
PATIENCE = {"yield_time_ms": 30_000}
FILLERS = {"string": "asked for by the test", "boolean": False, "integer": 10000, "number": 10000, "array": []}


def arguments(schema: Any, command: str) -> dict[str, Any]:
    """Return a call's arguments: the command, time for it, and something for whatever else is required."""
    said: dict[str, Any] = {}
    for name, kind in schema["properties"].items():
        if name in ("command", "cmd"):
            said[name] = ["bash", "-c", command] if kind.get("type") == "array" else command
        elif name in PATIENCE:
            said[name] = PATIENCE[name]
        elif name in schema.get("required", ()):
            said[name] = kind["enum"][0] if kind.get("enum") else FILLERS[str(kind.get("type")).lower()]
    return said


def texts(content: Any) -> str:
    """Return the plain text of a message's content, a string or a list of typed parts."""
    if isinstance(content, list):
        return "\n".join(texts(part.get("text") or part.get("content") or "") for part in content)
    return str(content)


# Anthropic: the Messages API


def anthropic(body: Any) -> Json | Events:
    """Answer POST /v1/messages."""
    parts = [part for message in body["messages"] for part in as_parts(message["content"])]
    results = "\n".join(texts(part.get("content", "")) for part in parts if part["type"] == "tool_result")
    prompts = "\n".join(part["text"] for part in parts if part["type"] == "text")
    shell, schema = shell_tool(body.get("tools", []))
    answered = sum(part["type"] == "tool_result" for part in parts)
    turn = next_call(prompts if shell else "", answered) or next_turn(prompts if shell else "", results)
    block, delta, stop = anthropic_block(turn, shell, schema)
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "usage": usage}
    if not body.get("stream"):
        return Json({**message, "content": [{"type": "text", "text": GREETING}], "stop_reason": "end_turn"})
    return Events([
        ("message_start", {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}),
        ("content_block_start", {"type": "content_block_start", "index": 0, "content_block": block}),
        ("content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}),
        ("content_block_stop", {"type": "content_block_stop", "index": 0}),
        ("message_delta", {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 1}}),
        ("message_stop", {"type": "message_stop"}),
    ])  # fmt: skip


def next_call(prompts: str, answered: int) -> Call | None:
    """Return the call that follows those that were answered, or None."""
    found = CALL.findall(prompts)[answered:]
    return Call(tool=found[0][0], arguments=json.loads(found[0][1]), number=answered) if found else None


def anthropic_block(turn: Say | Run | Call, shell: str, schema: Any) -> tuple[Any, Any, str]:
    """Return a turn as (content block, its one delta, stop reason)."""
    if isinstance(turn, Say):
        return {"type": "text", "text": ""}, {"type": "text_delta", "text": turn.text}, "end_turn"
    if isinstance(turn, Run):
        turn = Call(tool=shell, arguments=arguments(schema, turn.command), number=1)
    block = {"type": "tool_use", "id": f"toolu_{turn.number}", "name": turn.tool, "input": {}}
    return block, {"type": "input_json_delta", "partial_json": json.dumps(turn.arguments)}, "tool_use"


def as_parts(content: Any) -> list[Any]:
    """Return a message's content as its parts."""
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


# OpenAI's shape: Chat Completions, as GitHub Copilot speaks it


def completions(body: Any) -> Json | Events:
    """Answer POST /chat/completions."""
    messages = body["messages"]
    results = "\n".join(texts(message["content"]) for message in messages if message["role"] == "tool")
    prompts = "\n".join(texts(message["content"]) for message in messages if message["role"] == "user")
    shell, schema = shell_tool(body.get("tools", []))
    has_edits = not shell and EDITS in str(messages)
    turn = next_edit(prompts) if has_edits else next_turn(prompts if shell else "", results)
    delta, stop = completions_delta(turn, shell, schema)
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    head = {"id": "chat_1", "created": 1, "model": body["model"]}
    if not body.get("stream"):
        message = {"role": "assistant", "content": GREETING}
        return Json({**head, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage})
    return Events([
        ("", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}),
        ("", {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": stop}], "usage": usage}),
        ("", "[DONE]"),
    ])  # fmt: skip


def completions_delta(turn: Say | Run, shell: str, schema: Any) -> tuple[Any, str]:
    """Return a turn as (delta of the one choice, finish reason)."""
    if isinstance(turn, Say):
        return {"role": "assistant", "content": turn.text}, "stop"
    function = {"name": shell, "arguments": json.dumps(arguments(schema, turn.command))}
    tool_call = {"index": 0, "id": "call_1", "type": "function", "function": function}
    return {"role": "assistant", "tool_calls": [tool_call]}, "tool_calls"


# OpenAI's Responses API, as Codex speaks it


def responses(body: Any) -> Json | Events:
    """Answer POST /v1/responses."""
    items = [item for item in as_parts(body["input"]) if isinstance(item, dict)]
    results = "\n".join(texts(item["output"]) for item in items if item.get("type") == "function_call_output")
    prompts = "\n".join(texts(item.get("content", "")) for item in items if item.get("role") == "user")
    shell, schema = shell_tool(body.get("tools", []))
    item = responses_item(next_turn(prompts if shell else "", results), shell, schema)
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    done = {"id": "resp_1", "object": "response", "model": body["model"], "status": "completed", "output": [item]}
    done |= {"created_at": 1, "usage": usage}
    if not body.get("stream"):
        return Json(done)
    text = item.get("content", [{}])[0].get("text", "")
    delta = {"type": "response.output_text.delta", "item_id": item["id"], "output_index": 0, "content_index": 0}
    events = [
        {"type": "response.created", "response": {**done, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        *([{**delta, "delta": text}] if text else []),
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": done},
    ]
    numbered = enumerate(events)
    return Events([(str(event["type"]), {**event, "sequence_number": number}) for number, event in numbered])


def responses_item(turn: Say | Run, shell: str, schema: Any) -> Any:
    """Return a turn as an output item."""
    if isinstance(turn, Say):
        part = {"type": "output_text", "text": turn.text, "annotations": []}
        return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    call = json.dumps(arguments(schema, turn.command))
    return {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": shell, "arguments": call}


# Google's Gemini API


def gemini(body: Any) -> Any:
    """Answer POST :generateContent, or give the one event of :streamGenerateContent."""
    parts = [part for content in body["contents"] for part in content["parts"]]
    said = [part for content in body["contents"] if content["role"] == "user" for part in content["parts"]]
    results = "\n".join(
        json.dumps(part["functionResponse"]["response"]) for part in parts if "functionResponse" in part
    )
    prompts = "\n".join(part["text"] for part in said if "text" in part)
    tools = [one for tool in body.get("tools", []) for one in tool.get("functionDeclarations", [])]
    shell, schema = shell_tool(tools)
    turn = next_turn(prompts if shell else "", results)
    if isinstance(turn, Say):
        part: dict[str, Any] = {"text": turn.text}
    else:
        part = {"functionCall": {"name": shell, "args": arguments(schema, turn.command)}}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": usage}


COPILOT_API = "api.individual.githubcopilot.com"
COPILOT_USER = {
    "login": "dev", "id": 1, "copilot_plan": "individual", "chat_enabled": True,
    "endpoints": {"api": f"https://{COPILOT_API}", "telemetry": "https://telemetry.individual.githubcopilot.com"},
}  # fmt: skip
COPILOT_MODEL = {
    "id": "gpt-5-mini", "name": "A stand-in", "object": "model", "vendor": "OpenAI", "version": "1",
    "model_picker_enabled": True, "preview": False, "policy": {"state": "enabled", "terms": ""},
    "supported_endpoints": ["/chat/completions"],
    "capabilities": {
        "family": "gpt-5-mini", "object": "model_capabilities", "type": "chat", "tokenizer": "o200k_base",
        "limits": {"max_context_window_tokens": 128000, "max_output_tokens": 16000, "max_prompt_tokens": 128000},
        "supports": {"streaming": True, "tool_calls": True, "parallel_tool_calls": True},
    },
}  # fmt: skip


CHATGPT_ACCOUNT = "account-1"


# What each host answers


def anthropic_host(method: str, path: str, body: Any) -> Json | Events | None:
    """Play api.anthropic.com."""
    if method == "POST" and path.partition("?")[0] == "/v1/messages":
        return anthropic(body)
    if path == "/slow":
        return Events([("", {"event": number}) for number in range(5)], pause=0.4)
    return None


def github_host(_: str, path: str, __: Any) -> Json | Events | None:
    """Play api.github.com, as far as Copilot asks it who the user is."""
    if path == "/copilot_internal/user":
        return Json(COPILOT_USER)
    return Json([]) if path.startswith("/repos/") else None


def copilot_host(method: str, path: str, body: Any) -> Json | Events | None:
    """Play Copilot's own API."""
    if path == "/models":
        return Json({"object": "list", "data": [COPILOT_MODEL]})
    if method == "POST" and path == "/chat/completions":
        return completions(body)
    return None


def openai_host(method: str, path: str, body: Any) -> Json | Events | None:
    """Play api.openai.com; 426 sends a client that tries a WebSocket to server-sent events."""
    if path.partition("?")[0] == "/v1/responses":
        return responses(body) if method == "POST" else Json({}, status=426)
    if method == "POST" and path == "/v1/chat/completions":
        return completions(body)
    return None


def chatgpt_host(method: str, path: str, body: Any) -> Json | Events | None:
    """Play chatgpt.com, as far as Codex asks it with a ChatGPT account."""
    at = path.partition("?")[0]
    if at == "/backend-api/wham/accounts/check":
        account = {"id": CHATGPT_ACCOUNT, "workspace_backend_origin": "https://chatgpt.com"}
        account["account_routing_override"] = "us"
        return Json({"accounts": [account], "account_ordering": [CHATGPT_ACCOUNT]})
    if at == "/backend-api/codex/responses":
        return responses(body) if method == "POST" else Json({}, status=426)
    return None


def factory_host(method: str, path: str, body: Any) -> Json | Events | None:
    """Play api.factory.ai: who the account is, and models of several providers."""
    if path == "/api/cli/whoami":
        return Json({"userId": "user-1", "orgId": "org-1"})
    models = {"a/v1/messages": anthropic, "o/v1/responses": responses, "o/v1/chat/completions": completions}
    model = models.get(path.partition("?")[0].removeprefix("/api/llm/"))
    return model(body) if method == "POST" and model else None


def openrouter_host(method: str, path: str, body: Any) -> Json | Events | None:
    """Play openrouter.ai."""
    return completions(body) if method == "POST" and path == "/api/v1/chat/completions" else None


def gemini_host(method: str, path: str, body: Any) -> Json | Events | None:
    """Play generativelanguage.googleapis.com."""
    if method != "POST" or ":" not in path:
        return None
    return Events([("", gemini(body))]) if ":streamGenerateContent" in path else Json(gemini(body))


def code_assist_host(method: str, path: str, body: Any) -> Json | Events | None:
    """Play cloudcode-pa.googleapis.com, which Gemini asks with a Google account."""
    if method != "POST" or ":" not in path:
        return None
    if ":streamGenerateContent" in path:
        return Events([("", {"response": gemini(body["request"])})])
    if path.endswith(":generateContent"):
        return Json({"response": gemini(body["request"])})
    tier = {"id": "free-tier", "name": "Free", "isDefault": True}
    return Json({"currentTier": tier, "allowedTiers": [tier], "cloudaicompanionProject": "project-1"})


def google_login_host(_: str, path: str, __: Any) -> Json | None:
    """Play oauth2.googleapis.com, as far as a valid token is concerned."""
    return Json({"aud": "client", "expires_in": 3600, "scope": "openid"}) if path == "/tokeninfo" else None


HOSTS: dict[str, Callable[[str, str, Any], Json | Events | None]] = {
    "api.anthropic.com": anthropic_host,
    "api.github.com": github_host,
    "api.openai.com": openai_host,
    "chatgpt.com": chatgpt_host,
    "openrouter.ai": openrouter_host,
    "api.factory.ai": factory_host,
    "generativelanguage.googleapis.com": gemini_host,
    "cloudcode-pa.googleapis.com": code_assist_host,
    "oauth2.googleapis.com": google_login_host,
    COPILOT_API: copilot_host,
}


def answer(host: str, method: str, path: str, body: bytes) -> Json | Events | None:
    """Return the scripted response of this host, None if it has none."""
    script = HOSTS.get(host)
    if script is None:
        return None
    return script(method, path, json.loads(body) if body.startswith(b"{") else None)

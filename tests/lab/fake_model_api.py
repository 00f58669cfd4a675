"""What the model providers answer, as far as their command-line clients need it.

A conversation without a model: a prompt that holds `run>>COMMAND<<` is answered with a call of the client's shell tool,
and the tool's result comes back as the final text, so a test reads what the command printed inside the sandbox.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COMMAND = re.compile(r"run>>(.*?)<<", re.DOTALL)
GREETING = "Hello from the stand-in."


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """The model says something and is done."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The model asks for a command to be run."""

    command: str


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
    """Decide what the model does, from all that the user said and all that tools returned."""
    wanted = COMMAND.search(prompts)
    if wanted and not results:
        return Run(command=wanted[1])
    return Say(text=f"RESULT: {results}" if results else GREETING)


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
    has_shell = any(tool["name"] == "Bash" for tool in body.get("tools", []))
    block, delta, stop = anthropic_block(next_turn(prompts if has_shell else "", results))
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


def anthropic_block(turn: Say | Run) -> tuple[Any, Any, str]:
    """Return a turn as (content block, its one delta, stop reason)."""
    if isinstance(turn, Say):
        return {"type": "text", "text": ""}, {"type": "text_delta", "text": turn.text}, "end_turn"
    call = {"command": turn.command, "description": "asked for by the test"}
    block = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}
    return block, {"type": "input_json_delta", "partial_json": json.dumps(call)}, "tool_use"


def as_parts(content: Any) -> list[Any]:
    """Return a message's content as its parts."""
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


# OpenAI's shape: Chat Completions, as GitHub Copilot speaks it


def completions(body: Any) -> Json | Events:
    """Answer POST /chat/completions."""
    messages = body["messages"]
    results = "\n".join(texts(message["content"]) for message in messages if message["role"] == "tool")
    prompts = "\n".join(texts(message["content"]) for message in messages if message["role"] == "user")
    has_shell = any(tool["function"]["name"] == "bash" for tool in body.get("tools", []))
    delta, stop = completions_delta(next_turn(prompts if has_shell else "", results))
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


def completions_delta(turn: Say | Run) -> tuple[Any, str]:
    """Return a turn as (delta of the one choice, finish reason)."""
    if isinstance(turn, Say):
        return {"role": "assistant", "content": turn.text}, "stop"
    call = {"command": turn.command, "description": "asked for by the test"}
    function = {"name": "bash", "arguments": json.dumps(call)}
    tool_call = {"index": 0, "id": "call_1", "type": "function", "function": function}
    return {"role": "assistant", "tool_calls": [tool_call]}, "tool_calls"


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


HOSTS: dict[str, Callable[[str, str, Any], Json | Events | None]] = {
    "api.anthropic.com": anthropic_host,
    "api.github.com": github_host,
    COPILOT_API: copilot_host,
}


def answer(host: str, method: str, path: str, body: bytes) -> Json | Events | None:
    """Return what this host's script says, or None when it has none for this."""
    script = HOSTS.get(host)
    if script is None:
        return None
    return script(method, path, json.loads(body) if body.startswith(b"{") else None)

"""Render YAML for people: short values on one line, long ones below their key, with comments."""

from collections.abc import Iterator, Mapping
from typing import Any

from agent_sandbox.render.formats.scalar import to_comment, to_yaml

# Longer values go below their key; a list of words may be longer, because a command reads best on one line.
WIDTH = 100
WORDS_WIDTH = 180


def to_block(document: Mapping[str, Any], indent: int, comments: Mapping[str, str]) -> str:
    """Return the lines of a mapping, indented; `comments` are by key, and for a mount by `volumes` and its target.

    >>> print(to_block({"image": "a", "init": True}, 2, {"image": "built here"}))
      image: a # built here
      init: true
    """
    return "\n".join(_mapping(document, indent, comments, ""))


def _mapping(document: Mapping[str, Any], indent: int, comments: Mapping[str, str], path: str) -> Iterator[str]:
    margin = " " * indent
    for key, value in document.items():
        place = f"{path}{key}"
        line = f"{margin}{to_yaml(key)}: {to_yaml(value)}"
        comment = f" # {to_comment(comments[place])}" if place in comments else ""
        if _is_single(value) or (_fits(line, value) and not any(other.startswith(f"{place}.") for other in comments)):
            yield f"{line}{comment}"
        else:
            yield f"{margin}{to_yaml(key)}:{comment}"
            yield from _below(value, indent + 2, comments, f"{place}.")


def _is_single(value: Any) -> bool:  # noqa: ANN401 - any part of a document
    return not value or not isinstance(value, list | dict)


def _fits(line: str, value: Any) -> bool:  # noqa: ANN401 - a list or a mapping
    words = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return len(line) <= (WORDS_WIDTH if words else WIDTH)


def _below(value: Any, indent: int, comments: Mapping[str, str], path: str) -> Iterator[str]:  # noqa: ANN401 - a list or a mapping
    if isinstance(value, dict):
        yield from _mapping(value, indent, comments, path)
        return
    for item in value:
        target = item.get("target", "") if isinstance(item, dict) else ""
        if comment := comments.get(f"{path}{target}"):
            yield f"{' ' * indent}# {to_comment(comment)}"
        yield f"{' ' * indent}- {to_yaml(item)}"

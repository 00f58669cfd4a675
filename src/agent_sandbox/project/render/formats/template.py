"""Render templates strictly: undefined names and unfiltered values are errors. YAML is for people to read."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_sandbox.project.render.formats.scalar import to_comment, to_json, to_yaml

if TYPE_CHECKING:
    import jinja2

# Longer values go below their key; a list of words may be longer, because a command reads best on one line.
WIDTH = 100
WORDS_WIDTH = 180


class Templates:
    """The `.j2` files below one folder."""

    def __init__(self, root: Path) -> None:
        self._environment = _environment(root)

    def render(self, template: str, /, **values: object) -> str:
        """Return the text of one template."""
        return self._environment.get_template(template).render(**values)


@cache  # jinja2 caches compiled templates in the environment
def _environment(root: Path) -> "jinja2.Environment":
    import jinja2  # noqa: PLC0415 - half of the commands know how to render, and rarely do

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(root),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        optimized=False,  # each template is rendered once, so optimising it costs more than it saves
        autoescape=False,  # noqa: S701 - no HTML: values pass `yaml`, `json` or `comment`, and are parsed back
    )
    environment.filters |= {"yaml": to_yaml, "json": to_json, "comment": to_comment, "block": to_block}
    return environment


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

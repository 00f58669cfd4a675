"""Render templates strictly: undefined names and unfiltered values are errors."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from agent_sandbox.render.formats.block import to_block
from agent_sandbox.render.formats.scalar import to_comment, to_json, to_yaml

if TYPE_CHECKING:
    import jinja2


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

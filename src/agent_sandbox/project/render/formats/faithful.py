"""Parse rendered text back and require that it has exactly the intended values."""

from collections.abc import Iterator
from typing import Any

import yaml

# The safe loader, in C if available.
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class UnfaithfulTemplateError(Exception):
    """A template lost or added something, or a value broke out of its place: a bug."""


def require_same(file: str, *, expected: Any, actual: Any) -> None:  # noqa: ANN401 - any document
    """Raise UnfaithfulTemplateError with every difference."""
    differences = list(_differences(expected, actual, "$"))
    if differences:
        raise UnfaithfulTemplateError(f"{file}: " + "; ".join(differences))


def _differences(expected: Any, actual: Any, where: str) -> Iterator[str]:  # noqa: ANN401 - any document
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in {**expected, **actual}:
            if key not in actual:
                yield f"{where}.{key} is missing"
            elif key not in expected:
                yield f"{where}.{key} is too much"
            else:
                yield from _differences(expected[key], actual[key], f"{where}.{key}")
    elif type(expected) is not type(actual) or expected != actual:
        yield f"{where} is {actual!r}, not {expected!r}"


def load_yaml(text: str) -> Any:  # noqa: ANN401 - any document
    """Return the parsed YAML."""
    return yaml.load(text, LOADER)  # noqa: S506 - see LOADER

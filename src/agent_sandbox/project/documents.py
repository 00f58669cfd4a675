"""Parts of YAML files that an agent or a repository could have written, with every scalar as text."""

from collections.abc import Mapping
from typing import Any


def mapping(value: Any) -> Mapping[str, Any]:  # noqa: ANN401 - a part of such a document
    """Return the mapping, or an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}

"""YAML that somebody else may have written, read so that no text of theirs can crash or hang who reads it."""

from typing import Any

import yaml

from agent_sandbox.problems import Problem, UserError

# Every value is text and a merge key is a word: what a reader would make of them can't grow beyond the file.
LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
MAX_DEPTH = 32
HINT = "agent-sandbox init AGENT shows what it should be"


def load_foreign(text: str, *, file: str) -> Any:  # noqa: ANN401 - whatever stands in a user's file
    """Return the document, each scalar as text; raise UserError with the place where it is none.

    >>> load_foreign("a: [1, yes]", file="x.yml")
    {'a': ['1', 'yes']}
    """
    try:
        _require_shallow(text, file)
        return yaml.load(text, LOADER)  # noqa: S506 - it makes text, lists and mappings alone
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else file
        what = f"this is no YAML: {getattr(error, 'problem', None) or error}"
        raise UserError([Problem(where=where, what=what, hint=HINT)]) from error


def _require_shallow(text: str, file: str) -> None:
    """Go through the events first: building what is nested 100,000 deep overruns the C library's stack."""
    depth = 0
    for event in yaml.parse(text, LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            mark: Any = event.start_mark
            where = f"{file}:{mark.line + 1}:{mark.column + 1}"
            raise UserError([Problem(where=where, what=f"this is more than {MAX_DEPTH} levels deep", hint=HINT)])

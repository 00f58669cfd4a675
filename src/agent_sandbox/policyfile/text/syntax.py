"""Turn errors of the YAML parser into problems with a hint."""

import yaml

from agent_sandbox.problems import Problem

# Characters with a special meaning in YAML at the start of a word.
SIGNS = tuple("*&!@%`")


def syntax_problem(error: yaml.YAMLError, text: str, file: str) -> Problem:
    """Return the syntax error as a problem with line and column."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        return Problem(where=file, what=f"invalid YAML: {error}")
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    where = f"{file}:{mark.line + 1}:{mark.column + 1}"
    if "\t" in line[: mark.column + 1]:
        return Problem(where=where, what="a tab where YAML needs spaces", hint="indent with spaces")
    return Problem(where=where, what=f"invalid YAML: {getattr(error, 'problem', error)}", hint=_hint(line))


def _hint(line: str) -> str:
    """Return how to write `- *.example.com`, the most common error; empty for others."""
    word = line.split("#", maxsplit=1)[0].strip().removeprefix("- ").split(": ")[-1].strip()
    return f'quote a word that begins with `{word[0]}`: "{word}"' if word.startswith(SIGNS) and len(word) <= 80 else ""

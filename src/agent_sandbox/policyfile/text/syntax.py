"""What a YAML parser says, in the words of someone who writes a policy."""

import yaml

from agent_sandbox.problems import Problem

# Signs with a meaning of their own in YAML, at the start of a word.
SIGNS = tuple("*&!@%`")


def syntax_problem(error: yaml.YAMLError, text: str, file: str) -> Problem:
    """Return the one problem that keeps the text from being YAML, with its line and column."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        return Problem(where=file, what=f"is no YAML: {error}")
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    where = f"{file}:{mark.line + 1}:{mark.column + 1}"
    if "\t" in line[: mark.column + 1]:
        return Problem(where=where, what="a tab where YAML wants spaces", hint="indent with spaces")
    return Problem(where=where, what=f"is no YAML here: {getattr(error, 'problem', error)}", hint=_hint(line))


def _hint(line: str) -> str:
    """Tell how to write `- *.example.com`, which is what people meet first."""
    word = line.split("#", maxsplit=1)[0].strip().removeprefix("- ").split(": ")[-1].strip()
    return (
        f'a word that begins with `{word[0]}` stands in quotes: "{word}"'
        if word.startswith(SIGNS) and len(word) <= 80
        else ""
    )

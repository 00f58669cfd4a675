"""Types of the values that several parts of an agent manifest have."""

import re
from typing import Annotated

from agent_sandbox.policyfile.parse.checking import matching

SLUG = re.compile(r"[a-z][a-z0-9-]{0,31}")
VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
# No line breaks: values are used in build arguments, stack files and environments.
LINE = re.compile(r"[^\x00-\x1f\x7f]{1,500}")
BELOW = re.compile(r"\.?[A-Za-z0-9_][A-Za-z0-9_.-]*(/\.?[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
WITHOUT_DOTS = "write it without `..`, from the home directory"

Slug = Annotated[str, matching(SLUG, "a name", "use up to 32 of `a-z`, `0-9` and `-`, and begin with a letter")]
Variable = Annotated[str, matching(VARIABLE, "the name of a variable", "use `A-Z`, `0-9` and `_`")]
Line = Annotated[str, matching(LINE, "one line of text", "use up to 500 characters, without line breaks")]
Below = Annotated[str, matching(BELOW, "a path below the home directory", WITHOUT_DOTS)]
Key = Annotated[str, matching(KEY, "a key of the agent's settings", "use letters, digits, `_` and `-`")]

# A problem of values that are valid on their own: the location of one of them, and what is wrong.
type Fault = tuple[tuple[str | int, ...], str]

"""Routes as web frameworks write them, such as `/users/{id}`, which a path pattern takes literally."""

import re

# `{id}`, `${id}`, `<int:id>`; and as a whole segment `:id`, `[id]`
PART = re.compile(r"\$?\{[^{}/]+\}|<[^<>/]+>|^:[A-Za-z_]\w*$|^\[\w+\]$")
# The rest of a path: `{proxy+}`, `{*rest}`, `{rest:path}`, `<path:rest>`, `[...rest]`, `(.*)`, `.*`
REST = re.compile(r"\{\w+\+\}|\{\*\w+\}|\{\w+:path\}|<path:\w+>|\[\[?\.{3}\w+\]?\]|\(?\.[*+]\)?")


def as_pattern(text: str) -> str:
    """Return a path or a URL with stars for the variables of a route; without one, the same text.

    >>> as_pattern("GET https://a.test/users/{id}/files/{path+}"), as_pattern("/v1/models/x:predict")
    ('GET https://a.test/users/*/files/**', '/v1/models/x:predict')
    """
    path, mark, query = text.partition("?")
    segments = ("**" if REST.fullmatch(one) else PART.sub("*", one) for one in path.split("/"))
    return f"{'/'.join(segments)}{mark}{query}"

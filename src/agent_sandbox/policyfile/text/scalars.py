"""Unquoted scalars: the few that are not text, and those on which YAML parsers differ."""

import re

import yaml

from agent_sandbox.policy.text import MAX_SHOWN

CONSTANTS: dict[str, bool | None] = {"": None, "~": None, "null": None, "true": True, "false": False}
# All parsers read it as the same number.
DECIMAL = re.compile(r"(?:0|[1-9][0-9]{0,8})\.[0-9]{1,9}", re.ASCII)
WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,17}", re.ASCII)
# Booleans of YAML 1.1 that PyYAML does not know, and the octal of YAML 1.2.
ALSO_DOUBTFUL = re.compile(r"[yYnN]|0o[0-7]+")


MEANT = {
    **dict.fromkeys(("y", "yes", "on", "true"), "true"),
    **dict.fromkeys(("n", "no", "off", "false"), "false"),
}


class Doubtful(Exception):  # noqa: N818 - like Ambiguous
    """An unquoted word that only some YAML parsers read as text; `hint` says how to write it."""

    def __init__(self, word: str) -> None:
        super().__init__(word)
        meant = MEANT.get(word.lower())
        quoted = f'quote it: "{word}"' if len(word) <= MAX_SHOWN else "quote it"
        self.hint = quoted + (f", or write `{meant}`" if meant else "")


def plain_value(text: str) -> bool | int | str | None:
    """Return the value of an unquoted word, or raise Doubtful.

    >>> plain_value("443"), plain_value("true"), plain_value("10.0.0.1")
    (443, True, '10.0.0.1')
    """
    if text in CONSTANTS:
        return CONSTANTS[text]
    if WHOLE_NUMBER.fullmatch(text):
        return int(text)
    resolvers = yaml.SafeLoader.yaml_implicit_resolvers.get(text[0], ())
    if ALSO_DOUBTFUL.fullmatch(text) or any(pattern.match(text) for _, pattern in resolvers):
        raise Doubtful(text)
    return text


def plain_or_decimal(text: str) -> bool | int | str | None:
    """Return the value of an unquoted word, a decimal number as text, or raise Doubtful.

    >>> plain_or_decimal("1.5"), plain_or_decimal("4")
    ('1.5', 4)
    """
    return text if DECIMAL.fullmatch(text) else plain_value(text)

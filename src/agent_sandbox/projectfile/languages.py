"""The Debian packages of each language, for `--with` of `init` and `run`."""

from collections.abc import Iterable, Mapping

from agent_sandbox.problems import Problem, UserError

LANGUAGES: Mapping[str, tuple[str, ...]] = {
    "c": ("build-essential",),
    "go": ("golang",),
    "java": ("default-jdk-headless", "maven"),
    "node": ("npm",),
    "php": ("php-cli", "composer"),
    "python": ("python3-pip", "python3-venv"),
    "ruby": ("ruby", "bundler"),
    "rust": ("cargo",),
}


def packages_of(words: str) -> tuple[str, ...]:
    """Return the packages of the languages in a comma-separated list, or raise UserError.

    >>> packages_of("node, go")
    ('npm', 'golang')
    """
    names = [word.strip() for word in words.split(",")]
    unknown = [name for name in names if name not in LANGUAGES]
    if unknown:
        hint = f"known: {', '.join(LANGUAGES)}"
        raise UserError([Problem(where="--with", what=f"unknown language `{name}`", hint=hint) for name in unknown])
    return packages_for(names)


def packages_for(names: Iterable[str]) -> tuple[str, ...]:
    """Return the packages of these languages."""
    return tuple(dict.fromkeys(package for name in names for package in LANGUAGES[name]))

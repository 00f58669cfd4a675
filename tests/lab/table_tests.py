"""Many rows through one test: a table is one item to pytest, and each row that fails is reported.

A row costs 8 us here, 100 us as one of pytest's subtests and 300 us as a parametrised item: with our tables, subtests
would make the unit tests a quarter slower. Use `parametrize` for rows that need their own `tmp_path`, `monkeypatch` or
`capsys`.
"""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps

import pytest

type Test = Callable[..., None]


def each(names: str | tuple[str, ...], rows: Iterable[object]) -> Callable[[Test], Test]:
    """Call the test with every row, written as for `parametrize`; then report all rows that failed."""
    keys = tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else names
    table = [dict(zip(keys, row if len(keys) > 1 else (row,), strict=True)) for row in rows]  # type: ignore[call-overload] # a row of several values is a tuple
    if not table:
        raise ValueError(f"a table without rows proves nothing: {names}")

    def of(test: Test) -> Test:
        @wraps(test)
        def all_rows(**fixtures: object) -> None:
            failures = []
            for number, row in enumerate(table):
                try:
                    test(**fixtures, **row)
                except (Exception, pytest.fail.Exception) as failure:  # noqa: BLE001 - reported below, with the others
                    failure.add_note(f"row {number} of {len(table)}: {row}")
                    failures.append(failure)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(table)} rows", failures)

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        all_rows.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined] # what pytest reads
        return all_rows

    return of

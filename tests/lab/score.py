"""The score and the report of the attacks in tests/attack/rows.yaml, row by row."""

import html
import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
ROWS: Mapping[str, Mapping[str, list[str] | dict[str, str]]] = yaml.load(
    (ROOT / "tests" / "attack" / "rows.yaml").read_bytes(),
    Loader=yaml.CSafeLoader,  # every run of pytest waits for it
)
REPORT = ROOT / "build"

# Whether a try passed, by `file::test[parameters]`.
type Tries = Mapping[str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One attack: its verdict, and the number of tries."""

    group: str
    attack: str
    verdict: str  # held, broken, open
    tries: int
    why: str = ""


def named() -> list[str]:
    """Return every test, or file of tests, that some row names."""
    return [test for attacks in ROWS.values() for said in attacks.values() if isinstance(said, list) for test in said]


def is_of(test: str, name: str) -> bool:
    """Tell whether a try is one of this test, or of this file of tests."""
    return name.startswith(f"{test}::") if test.endswith(".py") else name.partition("[")[0] == test


def is_of_any(tests: AbstractSet[str], name: str) -> bool:
    """Tell the same of many tests and files at once."""
    return name.partition("::")[0] in tests or name.partition("[")[0] in tests


def judge(tried: Tries) -> list[Row]:
    """Return each row with its verdict: it holds when every try of every test of it passed, and there was one."""
    rows = []
    for group, attacks in ROWS.items():
        for attack, said in attacks.items():
            if isinstance(said, dict):
                rows.append(Row(group=group, attack=attack, verdict="open", tries=0, why=said["open"]))
                continue
            tries = {test: [name for name in tried if is_of(test, name)] for test in said}
            names = [name for names in tries.values() for name in names]
            broken = [test for test, names in tries.items() if not (names and all(tried[name] for name in names))]
            verdict = "broken" if broken else "held"
            rows.append(Row(group=group, attack=attack, verdict=verdict, tries=len(names), why=", ".join(broken)))
    return rows


def write_report(rows: Sequence[Row]) -> Path:
    """Write the rows as JSON and as a page; return the path of the page."""
    REPORT.mkdir(exist_ok=True)
    (REPORT / "attack.json").write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    (REPORT / "attack.html").write_text(page(rows))
    return REPORT / "attack.html"


def score(rows: Sequence[Row]) -> list[str]:
    """Return the score by group, and every row that does not hold."""
    lines = [f"{'group':<12} {'held':>10} {'tries':>6}"]
    for group in (*dict.fromkeys(row.group for row in rows), "all"):
        mine = [row for row in rows if group in {row.group, "all"}]
        held = f"{sum(row.verdict == 'held' for row in mine)} of {len(mine)}"
        lines.append(f"{group:<12} {held:>10} {sum(row.tries for row in mine):>6}")
    return [*lines, *(f"{row.verdict}: {row.attack}: {row.why}" for row in rows if row.verdict != "held")]


PAGE = """\
<!doctype html>
<meta charset=utf-8>
<title>agent-sandbox: what it withstands</title>
<style>
body {{ font: 16px sans-serif; margin: 2em }}
td, th {{ padding: .2em .8em; text-align: left }}
.broken {{ background: #fbb }}
.open {{ color: #777 }}
</style>
<h1>What it withstands</h1>
<table><tr><th>group<th>attack<th>verdict<th>tries<th>{rows}</table>
"""


def page(rows: Sequence[Row]) -> str:
    """Return the report for people."""
    return PAGE.format(rows="".join(map(_line, rows)))


def _line(row: Row) -> str:
    cells = (row.group, row.attack, row.verdict, str(row.tries), row.why)
    return f"\n<tr class={row.verdict}><td>{'<td>'.join(map(html.escape, cells))}"

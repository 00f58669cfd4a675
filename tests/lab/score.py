"""Attack the sandbox, row by row, and print the score: `make attack`. The rows are in tests/attack/rows.yaml.

Writes build/attack.json, and build/attack.html for people. Ends with 1 when a row did not hold.
"""

from __future__ import annotations

import html
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import yaml

ROOT = Path(__file__).resolve().parents[1]
ROWS = ROOT / "tests" / "attack" / "rows.yaml"
REPORT = ROOT / "build"

type Verdicts = Mapping[str, str]
PASSED, FAILED = "passed", "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One attack: how it went, in how many tries."""

    group: str
    attack: str
    verdict: str  # held, broken, open
    tries: int
    why: str = ""


def main() -> int:
    """Run, judge, print, write."""
    groups = yaml.safe_load(ROWS.read_text())
    tests = sorted(
        {test for rows in groups.values() for said in rows.values() if isinstance(said, list) for test in said}
    )
    rows = judge(groups, run(tests))
    for line in score(rows):
        print(line)
    REPORT.mkdir(exist_ok=True)
    (REPORT / "attack.json").write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    (REPORT / "attack.html").write_text(page(rows))
    print(f"\nreport: {REPORT.relative_to(ROOT)}/attack.html, {REPORT.relative_to(ROOT)}/attack.json")
    return int(any(row.verdict == "broken" for row in rows))


def run(tests: Sequence[str]) -> Verdicts:
    """Run the tests once; return how each try ended, by `file::test[parameters]`."""
    report = REPORT / "attack.xml"
    command = [sys.executable, "-m", "pytest", "--quiet", f"--junitxml={report}", *(f"tests/{test}" for test in tests)]
    subprocess.run(command, cwd=ROOT, check=False)  # noqa: S603 - our own tests
    verdicts = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - pytest's own report
        where = "/".join(case.get("classname", "").split(".")[1:])
        verdicts[f"{where}.py::{case.get('name')}"] = PASSED if len(case) == 0 else FAILED
    return verdicts


def judge(groups: Mapping[str, Mapping[str, object]], verdicts: Verdicts) -> list[Row]:
    """Return each row with its verdict: it holds when every try of every test of it passed, and there was one."""
    rows = []
    for group, attacks in groups.items():
        for attack, said in attacks.items():
            if isinstance(said, dict):
                rows.append(Row(group=group, attack=attack, verdict="open", tries=0, why=said["open"]))
                continue
            tries = {test: tries_of(test, verdicts) for test in said} if isinstance(said, list) else {}
            broken = [test for test, ends in tries.items() if not ends or set(ends) != {PASSED}]
            count = sum(map(len, tries.values()))
            verdict = "broken" if broken or not tries else "held"
            rows.append(Row(group=group, attack=attack, verdict=verdict, tries=count, why=", ".join(broken)))
    return rows


def tries_of(test: str, verdicts: Verdicts) -> list[str]:
    """Return how each try of a test ended, or of all tests of a file."""
    whole = test.endswith(".py")
    return [
        verdict
        for name, verdict in verdicts.items()
        if (name.startswith(f"{test}::") if whole else name.partition("[")[0] == test)
    ]


def score(rows: Sequence[Row]) -> list[str]:
    """Return the score by group, and every row that does not hold."""
    lines = ["", f"{'group':<12} {'held':>9} {'tries':>6}"]
    for group in dict.fromkeys(row.group for row in rows):
        mine = [row for row in rows if row.group == group]
        held = sum(row.verdict == "held" for row in mine)
        lines.append(f"{group:<12} {f'{held} of {len(mine)}':>9} {sum(row.tries for row in mine):>6}")
    held = sum(row.verdict == "held" for row in rows)
    lines.append(f"{'all':<12} {f'{held} of {len(rows)}':>9} {sum(row.tries for row in rows):>6}")
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


if __name__ == "__main__":
    sys.exit(main())

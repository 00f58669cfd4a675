"""Parse BuildKit's plain output: progress, and the part that explains a failure."""

import re
from collections.abc import Sequence

from msgspec import Struct

from agent_sandbox.engines.events import FINISHING

STEP = re.compile(r"#(?P<number>\d+) (?P<step>\[(?P<stage>[^\]]*?)(?P<at>\d+)/\d+\]) (?P<text>.*)")
ENDED = re.compile(r"#(?P<number>\d+) (?:DONE|CACHED)\b")
STAGE = re.compile(r"FROM\s+(?P<source>\S+)(?:\s+AS\s+(?P<name>\S+))?", re.IGNORECASE)
COPY_FROM = re.compile(r"COPY\s+.*--from=(?P<source>\S+)", re.IGNORECASE)
COUNTED = re.compile(r"(RUN|COPY|ADD|WORKDIR)\s", re.IGNORECASE)
RULER = re.compile(r"-{6}$")
# What the steps of our own build files do, in words.
WORDS = (
    (re.compile(r"/build/install packages /build/browser"), "installing the browser"),
    (
        re.compile(r"/build/install packages|/packages |apt-get update\s+&& DEBIAN_FRONTEND"),
        "installing Debian packages",
    ),
    (re.compile(r"/build/install tools\.(?P<what>\w+)"), "installing tools with {what}"),
    (re.compile(r"/build/install-agent (?P<what>\S+)"), "installing {what}"),
    (re.compile(r"/build/try-registries"), "asking npm and PyPI for a package"),
)
RETRY = re.compile(
    r"#\d+ [0-9.]+ npm http fetch \S+ \w+://(?:[^/@\s]*@)?(?P<host>[^/\s]+)\S* "
    r"attempt (?P<count>\d+) failed with (?P<why>\w+)"
)
FAILED_STEP = re.compile(r"#(?P<number>\d+) ERROR: ")
# How package managers, compilers and shells begin the line that says what is wrong.
ERROR = re.compile(r"(?:E: |npm (?:ERR!|error) |(?:.*[ :])?(?:error|fatal)(?:\[\w+\])?: )", re.IGNORECASE)


class BuildLog(Struct):
    """The progress of a running build."""

    # The text of each step, unless a later step of its stage was reported first. BuildKit looks into its
    # cache for all of them at once, and answers in any order.
    running: dict[str, str] = {}
    reached: dict[str, int] = {}
    done: int = 0
    doing: str = ""

    def feed(self, line: str) -> bool:
        """Read one line; return whether it changed `done` or `doing`."""
        if match := STEP.match(line):
            stage, at = match["stage"], int(match["at"])
            self.running[match["number"]] = (
                "" if at < self.reached.get(stage, 0) else f"{match['step']} {_in_words(match['text'])}"
            )
            self.reached[stage] = max(at, self.reached.get(stage, 0))
        elif (match := ENDED.match(line)) and match["number"] in self.running:
            self.running.pop(match["number"])
            self.done += 1
        elif match := RETRY.match(line):
            self.doing = f"npm tries {match['host']} again: attempt {match['count']} failed with {match['why']}"
            return True
        else:
            return False
        self.doing = next(filter(None, reversed(self.running.values())), FINISHING)
        return True


def _in_words(step: str) -> str:
    """Describe a step of our own build files in words; return any other step unchanged."""
    found = ((pattern.search(step), words) for pattern, words in WORDS)
    return next((words.format(**match.groupdict()) for match, words in found if match), step)


def expected_steps(dockerfile: str, target: str) -> int:
    r"""Return how many steps a build of `target` has: those of its stages, plus one per base image.

    >>> expected_steps("FROM x AS a\nRUN 1\nFROM y AS b\nRUN 2\nFROM a\nCOPY --from=b f .\n", "")
    6
    """
    stages = _stages(dockerfile)
    wanted, queue = set[str](), [target or next(reversed(stages), "")]
    while queue:
        stage = queue.pop()
        if stage in stages and stage not in wanted:
            wanted.add(stage)
            queue += stages[stage].sources
    return sum(stages[stage].steps + (stages[stage].sources[0] not in stages) for stage in wanted)


class _Stage(Struct):
    sources: list[str]
    steps: int = 0


def _stages(dockerfile: str) -> dict[str, _Stage]:
    stages: dict[str, _Stage] = {}
    current = _Stage(sources=[""])
    for line in dockerfile.splitlines():
        if match := STAGE.match(line):
            current = stages[match["name"] or str(len(stages))] = _Stage(sources=[match["source"]])
        elif COUNTED.match(line):
            current.steps += 1
            if copied := COPY_FROM.match(line):
                current.sources.append(copied["source"])
    return stages


def failure(said: str) -> str:
    """Return the failed step with its first error and its last lines, or the last lines of the whole output."""
    lines = said.rstrip().splitlines()
    rulers = [number for number, line in enumerate(lines) if RULER.fullmatch(line)]
    if len(rulers) < 2:
        return "\n".join(lines[-10:])
    step, *last = lines[rulers[0] + 1 : rulers[1]] or [""]
    first = _first_error(lines)
    before = [first, "..."] if first and not any(line.endswith(first) for line in last) else []
    return "\n".join((step, *before, *last)).strip()


def _first_error(lines: Sequence[str]) -> str:
    """Return the first line of the failed step that says what is wrong; what follows from it is often long."""
    step = next((found["number"] for line in lines if (found := FAILED_STEP.match(line))), "")
    said = re.compile(rf"#{step} [0-9.]+ (?P<text>.*)")
    texts = (found["text"] for line in lines if (found := said.match(line)))
    return next((text for text in texts if ERROR.match(text)), "")

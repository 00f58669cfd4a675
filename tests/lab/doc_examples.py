"""A document whose examples are real: its commands, run again, in a project made of its files."""

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

# Runs `agent-sandbox` with these words: the exit code, and what a terminal shows.
type Run = Callable[..., tuple[int, str]]

# The pages whose commands are run again, in this order and in one directory: later ones need what earlier ones made.
NAMES = ("tools", "explain", "review", "edit", "service-tools", "import", "learn")
DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = (*(DOCS / "policy" / f"{name}.md" for name in NAMES), DOCS / "traffic.md")

# A file that the examples stand on, or what was typed and what it printed.
BLOCK = re.compile(r"<!-- file: (\S+) -->\n```\w*\n(.*?)```|```console\n(.*?)```", re.DOTALL)
WHO = ("-c", "user.name=you", "-c", "user.email=you@example.com", "-c", "init.defaultBranch=main")


def again(document: str, run: Run) -> str:
    """Return the document with the current output of its commands, which run in order in the current directory."""
    codes = [0]

    def answered(line: str) -> str:
        program, *argv = shlex.split(line, comments=True)
        match program:
            case "agent-sandbox":
                code, text = run(*argv)
                codes.append(code)
                return text
            case "git":
                return subprocess.run(["git", *WHO, *argv], check=True, capture_output=True, text=True).stdout
            case "cat":
                return "".join(Path(name).read_text("utf-8") for name in argv)
            case _:
                return f"{codes[-1]}\n"  # echo $?

    def block(found: re.Match[str]) -> str:
        name, text, typed = found.groups()
        if name:
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(text, "utf-8")
            return found[0]
        lines = [line for line in typed.splitlines() if line.startswith("$ ")]
        printed = "\n".join(f"{line}\n{answered(line[2:])}" for line in lines)
        return f"```console\n{printed}```"

    return BLOCK.sub(block, document)

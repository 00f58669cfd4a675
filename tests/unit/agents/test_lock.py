from agent_sandbox.agents.lock import faults_of_lock
from table_tests import each

HASH = f"    --hash=sha256:{'0' * 64}"
PIN = f"example==1.2.3 \\\n{HASH}\n"


@each(
    "text",
    [
        PIN,
        f"# made by make lock\n{PIN}",
        f"{PIN}other[extra]==2.0.post1 ; sys_platform == 'linux' \\\n{HASH} \\\n{HASH}\n",
    ],
)
def test_a_lock_holds_pins_with_hashes(text: str) -> None:
    assert [*faults_of_lock(text, "example", "1.2.3")] == []


@each(
    "line",
    [
        "other",
        "other==1.0",
        "other>=1.0 \\",
        "--index-url https://example.com/simple",
        "--extra-index-url=https://example.com/simple",
        "-r other.txt",
        "-e .",
        "other @ https://example.com/other.whl \\",
        "./other.whl",
        "    --hash=md5:0",
        "--trusted-host example.com",
    ],
)
def test_a_lock_names_no_other_source(line: str) -> None:
    fault = "requirements.txt:3 is neither a pinned version nor a sha256 hash"
    assert [*faults_of_lock(f"{PIN}{line}\n", "example", "1.2.3")] == [fault]


@each("text", ["", PIN.replace("1.2.3", "1.2.4"), PIN.replace("example", "example2")])
def test_a_lock_pins_the_package_itself(text: str) -> None:
    fault = "requirements.txt, beside it, does not pin example==1.2.3"
    assert [*faults_of_lock(text, "example", "1.2.3")] == [fault]

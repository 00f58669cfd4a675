from msgspec.structs import replace

from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.decision import Origin
from agent_sandbox.policy.file.spec import PolicySpec

LAYER = Layer(name="project", file="policy.yaml", spec=PolicySpec(), lines={("domains", 0): 3, ("domains",): 2})


def test_a_part_has_its_line_and_what_was_written_in_short_has_the_line_of_the_whole() -> None:
    origins = [LAYER.origin("domains", 0, *rest) for rest in ((), ("rules", 0))]
    assert origins == [Origin(file="policy.yaml", line=3, layer="project")] * 2


def test_a_layer_only_narrows_where_it_says_so_or_is_told_to() -> None:
    said = replace(LAYER, spec=PolicySpec(tighten=True))
    told = replace(LAYER, tighten=True)
    assert [layer.restricts for layer in (LAYER, said, told)] == [False, True, True]


def test_what_stands_nowhere_is_of_the_first_line() -> None:
    assert LAYER.origin("deny", 7) == Origin(file="policy.yaml", line=1, layer="project")

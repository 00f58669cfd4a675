from msgspec.structs import replace

from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.decision import Origin
from agent_sandbox.policy.file.spec import PolicySpec

LAYER = Layer(name="project", file="policy.yaml", spec=PolicySpec(), lines={("domains", 0): 3, ("domains",): 2})


def test_a_part_without_a_line_has_the_line_of_its_parent() -> None:
    origins = [LAYER.origin("domains", 0, *rest) for rest in ((), ("rules", 0))]
    assert origins == [Origin(file="policy.yaml", line=3, layer="project")] * 2


def test_a_layer_restricts_if_its_file_or_its_loader_sets_tighten() -> None:
    said = replace(LAYER, spec=PolicySpec(tighten=True))
    told = replace(LAYER, tighten=True)
    assert [layer.restricts for layer in (LAYER, said, told)] == [False, True, True]


def test_a_part_with_no_known_line_has_line_one() -> None:
    assert LAYER.origin("deny", 7) == Origin(file="policy.yaml", line=1, layer="project")

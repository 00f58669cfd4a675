"""Parse the text of a policy file or of a service into a layer."""

from collections.abc import Collection, Iterator
from functools import lru_cache

from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.file.spec import ServiceFileSpec
from agent_sandbox.policyfile.parse.checking import bounded, check_document
from agent_sandbox.policyfile.parse.repeats import repeated
from agent_sandbox.policyfile.text.document import Document, parse_document
from agent_sandbox.problems import Problem, UserError


def parse_layer(  # noqa: PLR0913 - the parts of a layer
    text: str, *, name: str, file: str, shown: str, services: Collection[str], tighten: bool = False
) -> Layer:
    """Return the layer, or raise UserError with every problem in the text."""
    document = parse_document(text, file=file)
    spec = check_document(document, file=file, services=services)
    layer = Layer(name=name, file=shown, spec=spec, lines=document.lines, tighten=tighten)
    problems = [*repeated(document, spec, file=file), *(_replacing(document, file) if layer.restricts else ())]
    if problems:
        raise bounded(UserError(problems))
    return layer


@lru_cache(maxsize=128)  # a reload needs the same few services again
def parse_service(text: str, *, name: str, file: str, shown: str) -> Layer:
    """Return the layer of the service, or raise UserError with every problem in the text."""
    document = parse_document(text, file=file)
    spec = check_document(document, file=file, services=(), model=ServiceFileSpec)
    return Layer(name=f"service {name}", file=shown, spec=spec, lines=document.lines)


def _replacing(document: Document, file: str) -> Iterator[Problem]:
    what, hint = "a restricting layer cannot replace anything", "remove `merge_mode`"
    for location, place in document.keys.items():
        if location[-1] == "merge_mode":
            yield Problem(where=f"{file}:{place.line}:{place.column}", what=what, hint=hint)

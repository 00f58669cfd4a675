"""The services beside the sandbox that a project file declares, in a strict subset of the keys of a stack file."""

import re
from collections import Counter
from collections.abc import Mapping
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, Self

from msgspec.structs import replace
from pydantic import AfterValidator, ConfigDict, Field, PlainValidator, WithJsonSchema, model_validator

from agent_sandbox.images import beside_image
from agent_sandbox.policy.file.fields import Listed, Strict, Written
from agent_sandbox.policy.text import safe_repr
from agent_sandbox.policyfile.parse.checking import TEXT, invalid, matching, require_text
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.projectfile.checks import BaseImage, FileName, place_in
from agent_sandbox.projectfile.ports import HIGHEST
from agent_sandbox.stack.engine import BUILD_KEY
from agent_sandbox.stack.limits import LIMITS, MIB, MOST_CPUS, MOST_MEMORY, MOST_PIDS, Limits
from agent_sandbox.stack.model import Healthcheck
from agent_sandbox.stack.workspace import Beside

MOST_SERVICES, MOST_ITEMS = 10, 50
LONGEST_VALUE = 4000
MOST_SECONDS = 3600
DEFAULT = Limits(memory=2048 * MIB, cpus=2, pids=1024, files=16_384)
LEAST: Mapping[str, float] = {"memory": 16 * MIB, "cpus": 0.1, "pids": 16}
MOST: Mapping[str, float] = {"memory": MOST_MEMORY, "cpus": MOST_CPUS, "pids": MOST_PIDS}
# The name is a host name inside, so it must not hide another one.
NAME = re.compile(r"[a-z][a-z0-9-]{0,29}(?<!-)", re.ASCII)
TAKEN = frozenset({"proxy", "firewall", "agent", "localhost", "ip6-localhost", "ip6-loopback", "ip6-localnet"})
USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}(:[a-z_][a-z0-9_-]{0,31})?|[0-9]{1,9}(:[0-9]{1,9})?", re.ASCII)
ROOT = re.compile(r"(root|0+)(:.*)?")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,99}", re.ASCII)
VOLUME = re.compile(
    r"(?!.*/\.\.?(?:/|\Z))([a-z0-9][a-z0-9_-]{0,49}):(/[A-Za-z0-9_.@+-]+(?:/[A-Za-z0-9_.@+-]+)*)", re.ASCII
)
DURATION = re.compile(
    r"(?:([0-9]{1,4})h)?(?:([0-9]{1,5})m)?(?:([0-9]{1,6}(?:\.[0-9]{1,3})?)s)?(?:([0-9]{1,7})ms)?", re.ASCII
)
PORT = re.compile(r"([0-9]{1,9})(?:/([a-z]+))?", re.ASCII)
SHELL = ("/bin/sh", "-c")
NO_FILES = "write `NAME:/PATH`, a volume: a service sees no files of this machine"
# Other keys of a stack file, with what to write instead.
NOT_HERE = {
    "ports": "write `expose: [PORT]`: the agent reaches it, and nothing is published on this machine",
    "depends_on": "write `links: [SERVICE]`, which opens that service's ports to this one and waits for it",
    "networks": "remove it: all services are on one internal network",
    "network_mode": "remove it: all services are on one internal network",
    "env_file": "write the variables under `environment`",
    "restart": "remove it: `agent-sandbox up` starts a service that has exited",
    "cap_add": "remove it: a service has no capabilities",
    "privileged": "remove it: a service has no capabilities",
    "deploy": "write `mem_limit`, `cpus` and `pids_limit`",
}


def _name(value: object) -> str:
    name = require_text(value)
    if not NAME.fullmatch(name):
        raise invalid(f"not a service's name: {safe_repr(name)}", "use up to 30 of `a-z`, `0-9` and `-`")
    if name in TAKEN:
        raise invalid(f"`{name}` is a name that the sandbox uses", "use another name")
    return name


def _user(value: object) -> str:
    user = str(value) if isinstance(value, int) and not isinstance(value, bool) else require_text(value)
    if not USER.fullmatch(user):
        raise invalid(f"not a user: {safe_repr(user)}", "write `NAME` or `UID:GID`")
    if ROOT.fullmatch(user):
        raise invalid("a service cannot run as root", "name the image's user, such as `postgres`")
    return user


def _port(value: object) -> int:
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    match = PORT.fullmatch(text)
    if match and match[2] not in (None, "tcp"):
        raise invalid(f"{safe_repr(text)}: services are reached by TCP only", f"write {match[1]}, or remove it")
    if not match or not 0 < int(match[1]) <= HIGHEST:
        raise invalid(f"not a port: {safe_repr(text)}", f"write one number from 1 to {HIGHEST}")
    return int(match[1])


def _command(value: object) -> tuple[str, ...]:
    words = value if isinstance(value, list) else []
    if not words or len(words) > MOST_ITEMS or not all(isinstance(word, str) and _is_line(word) for word in words):
        raise invalid("not a command: a list of words expected", 'write ["PROGRAM", "ARGUMENT"]')
    return tuple(words)


def _test(value: object) -> tuple[str, ...]:
    if isinstance(value, str) and _is_line(value):
        return (*SHELL, value)
    match value:
        case ["CMD-SHELL", str() as line] if _is_line(line):
            return (*SHELL, line)
        case ["CMD", *words] if words and len(words) <= MOST_ITEMS:
            return _command(words)
    raise invalid("not a health check", 'write a line for the shell, or ["CMD", "PROGRAM", "ARGUMENT"]')


def _is_line(text: str) -> bool:
    return bool(text.strip()) and text.isprintable() and len(text) <= LONGEST_VALUE


def _seconds(value: object) -> float:
    match = DURATION.fullmatch(value) if isinstance(value, str) and value else None
    parts = match.groups(default="0") if match else ()
    seconds = sum(float(part) * unit for part, unit in zip(parts, (3600, 60, 1, 0.001), strict=False))
    if not 0 < seconds <= MOST_SECONDS:
        raise invalid(f"not a duration: {safe_repr(str(value))}", "write `10s`, `1m30s` or `500ms`, up to `1h`")
    return seconds


def _environment(values: dict[str, object]) -> dict[str, str]:
    for name, value in values.items():
        if not VARIABLE.fullmatch(name):
            raise invalid(f"not the name of a variable: {safe_repr(name)}", "use letters, digits and `_`", at=(name,))
        if not isinstance(value, str | int) or not str(value).isprintable() or len(str(value)) > LONGEST_VALUE:
            hint = "write it in quotes; a service gets no variables of your shell"
            raise invalid(f"the value of `{name}` is not one line of text", hint, at=(name,))
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in values.items()}


def _once[T](values: tuple[T, ...]) -> tuple[T, ...]:
    if twice := [value for value, count in Counter(values).items() if count > 1]:
        raise invalid(f"{', '.join(map(str, twice))} is listed twice", "keep one of them")
    if len(values) > MOST_ITEMS:
        raise invalid(f"more than {MOST_ITEMS}", "keep what the project needs")
    return values


def _volumes(values: tuple[str, ...]) -> tuple[str, ...]:
    places = Counter(place.split(":")[1] for place in values)
    if twice := [place for place, count in places.items() if count > 1]:
        raise invalid(f"two volumes at {', '.join(twice)}", "keep one of them")
    return _once(values)


def _limit(name: str) -> PlainValidator:
    def checked(value: object) -> str:
        text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
        limit = LIMITS[name]
        number = limit.read(text)
        if number is None:
            raise invalid(f"{safe_repr(text)} is not a {limit.form}")
        if not LEAST[name] <= number <= MOST[name]:
            raise invalid(f"{safe_repr(text)} is too {'little' if number < LEAST[name] else 'much'}")
        return text

    return PlainValidator(checked)


def _shared_memory(value: object) -> str:
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if not (LIMITS["memory"].read(text) or 0) >= MIB:
        raise invalid(f"{safe_repr(text)} is not a {LIMITS['memory'].form}, at least `1m`")
    return text


NUMBER_OR_TEXT = WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string"}]})
WORDS = WithJsonSchema({"type": "array", "items": {"type": "string"}})
ServiceName = Annotated[str, PlainValidator(_name), TEXT]
User = Annotated[str, PlainValidator(_user), NUMBER_OR_TEXT]
Port = Annotated[int, PlainValidator(_port), NUMBER_OR_TEXT]
Command = Annotated[tuple[str, ...], PlainValidator(_command), WORDS]
Seconds = Annotated[float, PlainValidator(_seconds), TEXT]
Volume = Annotated[str, matching(VOLUME, "a volume", NO_FILES), TEXT]
Ports = Annotated[Listed[Port], AfterValidator(_once)]
Environment = Annotated[dict[str, Any], AfterValidator(_environment)]


class BuildSpec(Strict):
    """How to build a service's image: with a build file beside sandbox.yaml, and without any files of the project."""

    model_config = ConfigDict(alias_generator=lambda _: BUILD_KEY)

    file: FileName


class HealthcheckSpec(Strict):
    """The command that succeeds in the container once the service works."""

    test: Annotated[
        tuple[str, ...],
        PlainValidator(_test),
        WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
    ]
    interval: Seconds = 10.0
    timeout: Seconds = 5.0
    start_period: Seconds = 30.0
    retries: Annotated[int, Field(ge=1, le=100)] = 3

    @property
    def value(self) -> Healthcheck:
        """The health check of the container."""
        return Healthcheck(
            test=self.test,
            interval=self.interval,
            timeout=self.timeout,
            retries=self.retries,
            start_period=self.start_period,
            start_interval=0.5,
        )


class BesideSpec(Strict):
    """A service beside the sandbox, which the agent reaches by its name on the ports under `expose`."""

    image: Written[BaseImage] = None
    build: Written[BuildSpec] = None
    user: Written[User] = None
    entrypoint: Written[Command] = None
    command: Written[Command] = None
    environment: Environment = Field(default_factory=dict)
    volumes: Annotated[Listed[Volume], AfterValidator(_volumes)] = ()
    expose: Ports = ()
    links: Annotated[Listed[ServiceName], AfterValidator(_once)] = ()
    healthcheck: Written[HealthcheckSpec] = None
    mem_limit: Written[Annotated[str, _limit("memory"), NUMBER_OR_TEXT]] = None
    cpus: Written[Annotated[str, _limit("cpus"), NUMBER_OR_TEXT]] = None
    pids_limit: Written[Annotated[str, _limit("pids"), NUMBER_OR_TEXT]] = None
    shm_size: Written[Annotated[str, PlainValidator(_shared_memory), NUMBER_OR_TEXT]] = None

    @model_validator(mode="after")
    def _has_one_image(self) -> Self:
        if (self.image is None) == (self.build is None):
            what = "`image` or `build` is missing" if self.image is None else "`image` and `build` exclude each other"
            raise invalid(what, f"write `image: NAME:TAG`, or `build: {{{BUILD_KEY}: NAME}}`")
        return self

    @model_validator(mode="after")
    def _shares_what_it_has(self) -> Self:
        if self.shared_memory > self.limits.memory:
            more = LIMITS["memory"].shown(self.limits.memory)
            raise invalid(
                f"`shm_size` is more than the memory of the service, {more}", "raise `mem_limit`, or lower `shm_size`"
            )
        return self

    @property
    def shared_memory(self) -> int:
        """The size of /dev/shm in bytes, 0 if the file does not set it."""
        size: int = LIMITS["memory"].read(self.shm_size) if self.shm_size is not None else 0
        return size

    @property
    def limits(self) -> Limits:
        """The limits of the container."""
        said = {"memory": self.mem_limit, "cpus": self.cpus, "pids": self.pids_limit}
        return replace(DEFAULT, **{name: LIMITS[name].read(text) for name, text in said.items() if text is not None})


def _fit_together(services: dict[str, BesideSpec]) -> dict[str, BesideSpec]:
    if len(services) > MOST_SERVICES:
        raise invalid(f"more than {MOST_SERVICES} services", "keep what the project needs")
    for name, service in services.items():
        for other in service.links:
            if other not in services:
                raise invalid(f"`links` names a service that does not exist: {other}", at=(name, "links"))
            if not services[other].expose:
                what, hint = f"`links` names a service without `expose`: {other}", "list its ports under its `expose`"
                raise invalid(what, hint, at=(name, "links"))
    try:
        TopologicalSorter({name: service.links for name, service in services.items()}).prepare()
    except CycleError as error:
        circle = error.args[1]
        what, hint = f"`links` form a cycle: {' -> '.join(circle)}", "each service waits for those that it links to"
        raise invalid(what, hint, at=(circle[0], "links")) from error
    return services


Besides = Annotated[dict[ServiceName, BesideSpec], AfterValidator(_fit_together)]


def build_texts(services: Mapping[str, BesideSpec], texts: Mapping[str, str], *, file: str) -> dict[str, str]:
    """Return the text of each service's build file; `texts` has them by name. Raise UserError if one is not there."""
    names = {name: one.build.file for name, one in services.items() if one.build}
    folder, _, own = file.rpartition("/")
    at, what = partial(place_in, texts.get(own, ""), file), "`beside: {}` names a file that does not exist: {}"
    problems = [
        Problem(where=at("beside", name, "build"), what=what.format(name, f"{folder}/{build_file}"))
        for name, build_file in names.items()
        if build_file not in texts
    ]
    if problems:
        raise UserError(problems)
    return {name: texts[build_file] for name, build_file in names.items()}


def beside_services(services: Mapping[str, BesideSpec], texts: Mapping[str, str], *, file: str) -> tuple[Beside, ...]:
    """Return the services, each with its image; raise UserError if a build file is not there."""
    built = {name: beside_image(text).name for name, text in build_texts(services, texts, file=file).items()}
    return tuple(
        Beside(
            name=name,
            image=built.get(name) or one.image or "",
            user=one.user or "",
            entrypoint=one.entrypoint or (),
            command=one.command or (),
            environment=one.environment,
            volumes=tuple((volume.split(":")[0], volume.split(":")[1]) for volume in one.volumes),
            ports=one.expose,
            links=one.links,
            healthcheck=one.healthcheck.value if one.healthcheck else None,
            limits=one.limits,
            shared_memory=one.shared_memory,
        )
        for name, one in services.items()
    )

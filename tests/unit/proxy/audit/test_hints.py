import hashlib
import secrets
from base64 import b64encode, urlsafe_b64encode

from msgspec.structs import replace

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Effect
from agent_sandbox.proxy.audit.hints import (
    DOMAINS,
    HOSTS,
    LARGE_UPLOAD,
    MANY_NAMES,
    NAMES_SECONDS,
    SECRET_SECONDS,
    Hints,
    domain_of,
    encoded_size,
)
from agent_sandbox.proxy.audit.record import AuditRecord, SecretUse
from table_tests import each

MIB = 1 << 20
KEY = (SecretUse(secret="claude.key", kind="raw", source="stored", age=1.0),)


def allowed(host: str = "a.test", *, sent: int = 0, **more: object) -> AuditRecord:
    line = AuditRecord(event=Event.REQUEST, decision=Effect.ALLOW, host=host, path="/", bytes_out=sent)
    return replace(line, **more)


def drawn(length: int) -> bytes:
    return hashlib.shake_256(b"x").digest(length)


SHA256, SHA512 = (getattr(hashlib, name)(b"x").hexdigest() for name in ("sha256", "sha512"))
BLOB = urlsafe_b64encode(drawn(300)).decode()
TOKEN = urlsafe_b64encode(drawn(1_000)).decode()


@each(
    ("path", "query"),
    [
        ("/lodash/-/lodash-4.17.21.tgz", ""),
        (f"/packages/{SHA256[:2]}/{SHA256[2:4]}/{SHA256[4:]}/numpy-2.1.0-cp312-cp312-manylinux_2_17_x86_64.whl", ""),
        (f"/v2/library/debian/blobs/sha256:{SHA256}", ""),
        (f"/-/npm/v1/attestations/{SHA512}", ""),
        ("/api/3f2504e0-4f89-11d3-9a0c-0305e82c3301/7c9e6679-7425-40de-944b-e07fc1f90ae7/items", ""),
        ("/o/r.git/git-upload-pack", "service=git-upload-pack"),
        ("/o/r/compare/" + "...".join([SHA256[:40]] * 2), ""),
        ("/blog/" + "how-to-write-a-test-that-fails-when-the-code-is-wrong-and-not-otherwise-" * 3, ""),
        ("/wiki/" + "%E6%97%A5%E6%9C%AC%E8%AA%9E" * 12, ""),
        ("/" + "a1" * 200, ""),
        ("/file", f"X-Amz-Security-Token={TOKEN}&X-Amz-Signature={SHA256}"),
        ("/asset", f"sp=r&sig={SHA256}&jwt={TOKEN[:900]}"),
        ("/search", "q=" + "what+is+the+meaning+of+this+" * 80),
    ],
)
def test_urls_of_registries_forges_and_signed_downloads_are_not_encoded_data(path: str, query: str) -> None:
    assert encoded_size(path, query) == 0


@each(
    ("path", "query", "size"),
    [
        (f"/c/{BLOB}", "", len(BLOB)),
        (f"/c/{drawn(100).hex()}/x", "", 200),
        (f"/c/{b64encode(drawn(150)).decode().replace('/', '%2F')}", "", None),
        ("/c", f"d={TOKEN}{TOKEN}", 2 + 2 * len(TOKEN)),
    ],
)
def test_a_long_part_of_a_url_that_looks_random_is_encoded_data(path: str, query: str, size: int | None) -> None:
    found = encoded_size(path, query)
    assert found == size if size else found >= 200


PUSH = allowed(sent=500 * MIB, path="/o/r.git/git-receive-pack", method="POST")
LARGE = allowed(sent=LARGE_UPLOAD, method="PUT")
UNUSUAL = "upload: sent 8 MiB at once; the most before to this host was {} KiB"
USED = allowed("api.test", secrets=KEY, sent=100_000)
FIRST = "after a secret: the first request to this host, 5 seconds after the secret claude.key was used for api.test"


@each(
    ("lines", "hint"),
    [
        ([LARGE], UNUSUAL.format(0)),
        ([allowed(sent=1_000), LARGE], UNUSUAL.format(1)),
        ([allowed(sent=MIB), LARGE], ""),  # its uploads grew gradually
        ([allowed(sent=LARGE_UPLOAD - 1)], ""),
        ([PUSH], ""),
        ([replace(LARGE, decision=Effect.DENY)], ""),
        ([allowed("b.test", sent=LARGE_UPLOAD - 1), LARGE], UNUSUAL.format(0)),  # other hosts do not count
        ([allowed(encoded=400)], "encoded data: 400 characters of the URL look like encoded data"),
        ([replace(allowed(encoded=400), decision=Effect.DENY)], ""),
        ([USED, allowed(sent=5_000)], FIRST),
        ([USED, allowed(sent=100)], ""),  # as little as a download sends
        ([USED, USED], ""),
        ([allowed(), USED, allowed(sent=5_000)], ""),
        ([allowed(sent=5_000)], ""),
        ([USED, LARGE], f"{UNUSUAL.format(0)}; {FIRST}"),
    ],
)
def test_gives_a_hint_when_a_request_differs_from_earlier_requests(lines: list[AuditRecord], hint: str) -> None:
    hints = Hints()
    said = [hints.about(line, 5.0 * number) for number, line in enumerate(lines)]
    assert said == [""] * (len(lines) - 1) + [hint]


def test_gives_no_hint_for_a_secret_that_was_used_long_ago() -> None:
    hints = Hints()
    assert hints.about(USED, 0.0) == ""
    assert hints.about(allowed(sent=5_000), SECRET_SECONDS + 1) == ""


@each("decision", [Effect.ALLOW, Effect.DENY])
@each("event", [Event.DNS, Event.REQUEST])
def test_gives_the_hint_about_many_names_once_per_period(decision: Effect, event: Event) -> None:
    hints = Hints()

    def said(start: float) -> list[int]:
        found = []
        for number in range(2 * MANY_NAMES):
            line = AuditRecord(event=event, decision=decision, host=f"{number}x.data.evil.test")
            hint = hints.about(line, start)
            assert hint in {"", f"many names: {MANY_NAMES} below evil.test within 10 minutes"}
            found += [number] if hint else []
        return found

    assert said(0.0) == [MANY_NAMES - 1]
    assert said(1.0) == []
    assert said(NAMES_SECONDS) == [MANY_NAMES - 1]


def test_gives_no_hint_for_few_names_requested_often() -> None:
    hints = Hints()
    names = [f"{number}.cdn.test" for number in range(MANY_NAMES - 1)] * 20
    assert {hints.about(allowed(name), 0.0) for name in names} == {""}


def test_domain_of_a_name_below_co_uk_has_three_labels() -> None:
    assert [domain_of(name) for name in ("a.b.co.uk", "x.a.b.co.uk", "test", "a.test")] == [
        "b.co.uk",
        "b.co.uk",
        "test",
        "a.test",
    ]


def test_bounds_the_remembered_hosts_and_names() -> None:
    hints = Hints()
    for number in range(HOSTS + 500):
        hints.about(allowed(f"{secrets.token_hex(200)}.{number}.test", secrets=KEY), float(number))
    history = hints._history
    assert (len(history.uploads), len(history.names)) == (HOSTS, DOMAINS)
    for number in range(10_000):
        hints.about(allowed(f"{number}.evil.test"), 0.0)
    assert len(history.names["evil.test"][1]) == MANY_NAMES

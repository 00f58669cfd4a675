import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from agent_sandbox.policy import Policy
from agent_sandbox.policy.match.upstream import CREDENTIALS
from agent_sandbox.policyfile import layer_beside, load_policy
from agent_sandbox.problems import UserError
from agent_sandbox.proxy.upstream.proxy_selector import UpstreamProxySelector, read_credentials
from certificates import make_authority

UPSTREAM = "settings: {upstream: {proxy: 'https://proxy.corp.example:3129', no_proxy: [near.example]}}\n"


def policy(folder: Path, *, user: str = "", project: str = "") -> Policy:
    """Return the policy of two layers, with credentials beside each."""
    for name, text in (("user", user), ("project", project)):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "policy.yaml").write_text(text)
        (folder / name / CREDENTIALS).write_text(f"{name}:secret\n")
    return load_policy(folder / "project" / "policy.yaml", layers=[layer_beside("user", folder / "user/policy.yaml")])


def test_selects_the_upstream_proxy_of_the_policy_in_force(tmp_path: Path) -> None:
    force = [policy(tmp_path)]
    hops = UpstreamProxySelector(lambda: force[-1], {})
    assert hops.of("a.test") is None
    force.append(policy(tmp_path, user=UPSTREAM))
    hop = hops.of("a.test")
    assert hop
    assert (str(hop.proxy), hops.of("near.example")) == ("https://proxy.corp.example:3129", None)


def test_uses_credentials_only_for_the_proxy_of_the_layer_beside_them(tmp_path: Path) -> None:
    folders = {"user": tmp_path / "user"}
    own = UpstreamProxySelector(lambda: policy(tmp_path, user=UPSTREAM), folders).of("a.test")
    foreign = UpstreamProxySelector(lambda: policy(tmp_path, user=UPSTREAM, project=UPSTREAM), folders).of("a.test")
    assert own
    assert foreign
    assert (own.credentials(), foreign.credentials()) == ("user:secret", "")


def test_tls_with_the_upstream_proxy_trusts_the_cas_of_the_policy_in_force(tmp_path: Path) -> None:
    authority = make_authority(tmp_path, ["proxy.corp.example"])
    first = policy(tmp_path, user=UPSTREAM)
    force = [first]
    hops = UpstreamProxySelector(lambda: force[-1], {}, [authority])

    def trusted() -> ssl.SSLContext:
        hop = hops.of("a.test")
        assert hop
        return hop.trust()

    def count(context: ssl.SSLContext) -> int:
        return context.cert_store_stats()["x509_ca"]

    plain = trusted()
    assert trusted() is plain
    assert (plain.verify_mode, plain.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert not plain.verify_flags & ssl.VERIFY_X509_STRICT
    (tmp_path / "other").mkdir()
    other = make_authority(tmp_path / "other", ["a.test"])
    (tmp_path / "user" / "corp.pem").write_bytes(other.read_bytes())
    force.append(policy(tmp_path, user=UPSTREAM.replace("{proxy", "{ca: corp.pem, proxy")))
    more = trusted()
    assert count(more) == count(plain) + 1
    force.append(replace(first))
    assert count(trusted()) == count(plain)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (b"me:pw", "me:pw"),
        (b"me:pw:with colon\n", "me:pw:with colon"),
        ("me:grüße\r\n".encode(), "me:grüße"),
        (b"me:\n", "me:"),
    ],
)
def test_credentials_are_one_line(tmp_path: Path, written: bytes, said: str) -> None:
    (tmp_path / CREDENTIALS).write_bytes(written)
    assert read_credentials(tmp_path / CREDENTIALS) == said


@pytest.mark.parametrize("written", [b"", b"mepw", b"me:pw\nX: y", b"me:p\0w", b"me:\xff", b"me:" + b"x" * 1024])
def test_reports_invalid_credentials_without_quoting_them(tmp_path: Path, written: bytes) -> None:
    (tmp_path / CREDENTIALS).write_bytes(written)
    with pytest.raises(UserError) as caught:
        read_credentials(tmp_path / CREDENTIALS)
    assert str(caught.value) == "upstream-auth: contains no credentials; write one line: `user:password`"


def test_a_missing_file_means_no_credentials_and_an_unreadable_file_is_a_problem(tmp_path: Path) -> None:
    assert read_credentials(tmp_path / CREDENTIALS) == ""
    (tmp_path / CREDENTIALS).mkdir()
    with pytest.raises(UserError, match=r"^upstream-auth: not a regular file$"):
        read_credentials(tmp_path / CREDENTIALS)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"^upstream-auth: cannot be read: Not a directory$"):
        read_credentials(tmp_path / "file" / CREDENTIALS)

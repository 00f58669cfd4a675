"""A mirror's URL with credentials: the tools inside get it without them, and only the proxy sends them."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from shutil import which
from urllib.parse import quote

import pytest

from agent_sandbox.features.stack.init.build_registries import mirrors_of
from agent_sandbox.proxy.secrets.store import put_secret
from capture_server import Capture, ok
from certificates import make_authority
from fake_packages import npm, python
from init_project import AGENT
from proxy_stand import ProxyProcess
from run_cli import Ask, ask, empty_project

__all__ = ["ask", "empty_project"]

SECRET = "correcthorse8battery"
HOST = "mirror.test"
POLICY = """\
version: 1
domains:
  - host: mirror.test
    encoded_slash: true
    transform:
      request: {headers: {Authorization: {secret: mirror, transform: {type: basic, username: ann}}}}
    rules: [{methods: [GET]}]
"""
URLS = [
    f"https://ann:{SECRET}@{HOST}/pypi/simple",
    f"https://{SECRET}@{HOST}/pypi/simple",
    f"https://ann:x@{SECRET}@{HOST}/pypi/simple",
    f"https://ann:x%40{SECRET}@{HOST}/pypi/simple",
    f"https://ann:{SECRET}\\@{HOST}/pypi/simple",
    f"https://{HOST}\\ann:{SECRET}@{HOST}/pypi/simple",
    f"https://{HOST}/ann:{SECRET}@{HOST}/pypi/simple",
    f"https://{HOST}/ann%3A{SECRET}%40{HOST}/pypi/simple",
    f"https://{HOST}/{SECRET}/pypi/simple",
    f"https://{HOST}/pypi/simple?token={SECRET}",
    f"https://{HOST}/pypi/simple#{SECRET}",
    f"https://{HOST}/pypi/simple;{SECRET}",
    f"https://{HOST}/pypi https://ann:{SECRET}@{HOST}/pypi/simple",
    f"HTTPS://ANN:{SECRET}@{HOST}/pypi/simple",
    f"https:\\\\ann:{SECRET}@{HOST}/pypi/simple",
    f"https:ann:{SECRET}@{HOST}/pypi/simple",
    f"https:///ann:{SECRET}@{HOST}/pypi/simple",
    f"//ann:{SECRET}@{HOST}/pypi/simple",
    f"https://ann:{SECRET}\uff20{HOST}/pypi/simple",
    f"https://ann:{SECRET}@{HOST}:x/pypi/simple",
    f"https://[::1]ann:{SECRET}@{HOST}/pypi/simple",
    f"https://{HOST}:{SECRET}/pypi/simple",
    f"corp=https://ann:{SECRET}@{HOST}/pypi/simple",
    f"https://ann:{SECRET}@{HOST}/pypi/simple\n",
    f"\thttps://ann:{SECRET}@{HOST}/pypi/simple",
]
VARIABLES = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "npm_config_registry", "YARN_NPM_REGISTRY_SERVER")


def files(url: str) -> dict[str, str]:
    """Return a user's files that name a registry."""
    return {
        ".config/pip/pip.conf": f"[global]\nindex-url = {url}\n",
        ".config/uv/uv.toml": f"index-url = '''{url}'''\n",
        ".npmrc": f"//{HOST}/:_authToken={SECRET}\nregistry={url}\n",
        ".yarnrc.yml": f'npmRegistryServer: "{url}"\n',
    }


@pytest.mark.parametrize("by", ["variables", "files"])
@pytest.mark.parametrize("url", URLS, ids=range(len(URLS)))
def test_no_credential_of_a_mirrors_url_is_in_the_stack_or_in_what_init_prints(
    empty_project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch, url: str, by: str
) -> None:
    home = Path(os.environ["HOME"])
    for path, text in files(url).items() if by == "files" else ():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        if by == "variables":
            monkeypatch.setenv(name, url)
    answer = ask("init", AGENT)
    assert answer.code == 0, answer.err
    written = [path.read_text() for path in empty_project.rglob("*") if path.is_file()]
    assert [text for text in (*written, answer.out, answer.err) if SECRET.lower() in text.lower()] == []
    # The stack file and the record of the stack.
    assert url is not URLS[0] or sum(f"https://{HOST}/pypi/simple" in text for text in written) == 2


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ProxyProcess, Capture]]:
    """A proxy with the credentials of a mirror, and that mirror."""
    folder = tmp_path_factory.mktemp("mirror")
    authority = make_authority(folder, [HOST])
    with ExitStack() as stack:
        server = stack.enter_context(Capture(certificate=folder / "leaf.pem"))
        for path, data in {**python(""), **npm(f"https://{HOST}")}.items():
            kind = b"Content-Type: " + (b"text/html" if path.endswith("/") else b"application/octet-stream")
            server.answers[path] = ok(data, kind)
        (folder / "state" / "secrets").mkdir(parents=True)
        put_secret(folder / "state" / "secrets", "mirror", [HOST], SECRET.encode())
        proxy = ProxyProcess(folder, POLICY, {(HOST, 443): server.port}, upstream_ca=authority)
        yield stack.enter_context(proxy), server


CLIENTS: Mapping[str, tuple[str, ...]] = {
    "pip": (sys.executable, "-I", "-m", "pip", "install", "--no-cache-dir", "--target", "there", "hello"),
    "uv": ("uv", "pip", "install", "--no-cache", "--target", "there", "hello"),
    "npm": ("npm", "install", "--cache", "cache", "--no-audit", "hello"),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_real_clients_install_from_a_mirror_whose_credentials_only_the_proxy_has(
    mirror: tuple[ProxyProcess, Capture], tmp_path: Path, client: str
) -> None:
    proxy, server = mirror
    server.forget()
    outside = {
        "HOME": str(tmp_path / "user"),
        "PIP_INDEX_URL": f"https://ann:{quote(SECRET)}@{HOST}/pypi/simple",
        "npm_config_registry": f"https://ann:{SECRET}@{HOST}/npm/",
    }
    (tmp_path / "inside").mkdir()
    tools = [str(Path(found).parent) for one in ("uv", "npm", "node") if (found := which(one))]
    ca = f"{proxy.folder}/state/ca/ca.crt"
    inside = {
        "PATH": ":".join((str(Path(sys.executable).parent), *tools, "/usr/bin", "/bin")),
        "HOME": str(tmp_path / "inside"),
        "npm_config_globalconfig": str(tmp_path / "none"),
        **dict.fromkeys(("HTTPS_PROXY", "https_proxy"), f"http://{proxy.ready['listening']}"),
        **dict.fromkeys(("PIP_CERT", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"), ca),
        **mirrors_of(tmp_path / "inside", outside),
    }
    assert SECRET not in str(inside)
    done = subprocess.run(CLIENTS[client], cwd=tmp_path / "inside", env=inside, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert [*(tmp_path / "inside").rglob("hello*")] != []
    assert len(server.requests) >= 2
    assert {*map(str, (request.field("Authorization") for request in server.requests))} == {
        "['Basic YW5uOmNvcnJlY3Rob3JzZThiYXR0ZXJ5']"
    }
    assert SECRET.encode() not in done.stdout + done.stderr

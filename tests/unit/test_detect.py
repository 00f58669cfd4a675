import time

from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.detect import MANIFESTS, PATTERNS, Offer, is_looked_at, offers, places, services_of
from agent_sandbox.policyfile.parse.aliases import service_meant
from table_tests import each

R = "https://registry.example.test"

# Maps a file name to example content and the hosts that it names.
SAYS: dict[str, tuple[str, list[str]]] = {
    "package-lock.json": (
        f'"resolved": "{R}/a/-/a-1.tgz",\n"funding": {{"url": "https://funding.example.test/x"}}',
        ["registry.example.test"],
    ),
    "npm-shrinkwrap.json": (f'"resolved": "{R}/a.tgz"', ["registry.example.test"]),
    "pnpm-lock.yaml": (f"  resolution: {{integrity: x, tarball: {R}/a.tgz}}", ["registry.example.test"]),
    "yarn.lock": (
        f'a@1:\n  resolved "{R}/a.tgz#abc"\n  resolution: "b@npm:1::__archiveUrl=https%3A%2F%2Fb.example.test%2Fb.tgz"',
        ["registry.example.test", "b.example.test"],
    ),
    ".npmrc": (
        f"# https://no.example.test\nregistry={R}/npm/\n@me:registry = https://me.example.test\n//x.example.test/:_authToken=1",
        ["registry.example.test", "me.example.test"],
    ),
    ".yarnrc": (f'registry "{R}"', ["registry.example.test"]),
    ".yarnrc.yml": (f'npmRegistryServer: "{R}"', ["registry.example.test"]),
    "uv.lock": (
        f'source = {{ registry = "{R}/simple" }}\nsdist = {{ url = "https://files.example.test/a.tar.gz" }}',
        ["registry.example.test", "files.example.test"],
    ),
    "poetry.lock": (f'[package.source]\ntype = "legacy"\nurl = "{R}/simple"', ["registry.example.test"]),
    "requirements-dev.txt": (
        f"# see https://no.example.test\n--extra-index-url {R}/simple\n-i https://i.example.test\nb @ https://b.example.test/b.whl\nc==1",
        ["registry.example.test", "i.example.test", "b.example.test"],
    ),
    "pip.conf": (
        f"[global]\n# https://no.example.test\nindex-url = {R}/simple\nextra-index-url =\n    https://b.example.test/x",
        ["registry.example.test", "b.example.test"],
    ),
    "pyproject.toml": (
        f"""
[project.urls]
url = "https://no.example.test"
[[tool.uv.index]]
name = "a"

url = "{R}/simple"
[[tool.poetry.source]]
name = "b"
url = "https://b.example.test/simple"
[tool.x]
url = "https://no.example.test"
""",
        ["registry.example.test", "b.example.test"],
    ),
    "uv.toml": (
        f'default-index = "{R}/simple"\n[[index]]\nurl = "https://b.example.test/x"\nhome = "https://no.example.test"',
        ["registry.example.test", "b.example.test"],
    ),
    "Cargo.lock": (
        f'source = "registry+{R}/index"\nsource = "sparse+https://s.example.test/"\nsource = "git+https://no.example.test"',
        ["registry.example.test", "s.example.test"],
    ),
    "go.sum": (
        "example.test/a/b v1.0.0 h1:x=\nexample.test/a/b v1.0.0/go.mod h1:x=\ngopkg.example.test/yaml.v3 v3.0.1 h1:x=",
        ["example.test", "gopkg.example.test"],
    ),
    "Gemfile.lock": (
        f"GIT\n  remote: https://no.example.test/x.git\n\nGEM\n  remote: {R}/\n  specs:\n",
        ["registry.example.test"],
    ),
    "composer.lock": (
        f'"source": {{"type": "git", "url": "https://no.example.test"}},\n"dist": {{"type": "zip", "url": "{R}/x"}}',
        ["registry.example.test"],
    ),
    "pom.xml": (
        f"<url>https://no.example.test</url><repository><id>a</id><url>{R}/m2</url></repository>",
        ["registry.example.test"],
    ),
    "build.gradle": (f"maven {{ url '{R}/m2' }}", ["registry.example.test"]),
    "build.gradle.kts": (
        f'maven("{R}/m2")\nurl = uri("https://b.example.test")',
        ["registry.example.test", "b.example.test"],
    ),
    "settings.gradle": (f'url = "{R}"', ["registry.example.test"]),
    "settings.gradle.kts": (f'maven {{ url = uri("{R}") }}', ["registry.example.test"]),
    "gradle-wrapper.properties": ("distributionUrl=https\\://registry.example.test/g.zip", ["registry.example.test"]),
}


@each("name", SAYS)
def test_finds_only_the_download_hosts_in_each_kind_of_file(name: str) -> None:
    text, hosts = SAYS[name]
    assert list(dict.fromkeys(host for _, host, _ in places(name, text))) == hosts


def test_every_kind_of_file_has_an_example() -> None:
    assert {name.replace("-dev", "*") for name in SAYS} == set(PATTERNS)


@each(
    "url",
    [
        "https://localhost/x",
        "https://registry/x",
        "https://10.0.0.1/x",
        "https://[::1]/x",
        "https://127.1/x",
        "https://0x7f.1/x",
        "https://nexus.internal/x",
        "https://nexus.corp/x",
        "https://printer.local/x",
        "https://x.home.arpa/x",
        "https://a..b.test/x",
        "https://a_b.test:99999/x",
        "https://$(id).test/x",
        "https://-.test/x",
        "https:///x",
        "https://{{x}}.test/x",
    ],
)
def test_does_not_offer_private_names_addresses_and_invalid_names(url: str) -> None:
    assert list(places(".npmrc", f"registry={url}\n")) == []


def test_does_not_offer_the_password_of_a_url() -> None:
    assert offers({".npmrc": "registry=https://user:pass@npm.example.test/\n"}) == (
        Offer(host="npm.example.test", files=(".npmrc",), schemes=("https",)),
    )


def test_offers_each_host_once_with_all_files_schemes_and_ports() -> None:
    texts = {
        "package-lock.json": '"resolved": "https://NPM.example.test/a"',
        ".npmrc": "registry=http://npm.example.test:8443/",
    }
    assert offers(texts) == (
        Offer(
            host="npm.example.test",
            files=("package-lock.json", ".npmrc"),
            schemes=("https", "http"),
            ports=(443, 8443),
        ),
    )


def test_offers_an_international_name_in_punycode() -> None:
    assert [offer.host for offer in offers({".npmrc": "registry=https://bücher.example.test/\n"})] == [
        "xn--bcher-kva.example.test"
    ]


def test_offers_at_most_40_hosts() -> None:
    text = "".join(f"registry=https://h{number}.example.test/\n" for number in range(500))
    assert len(offers({".npmrc": text})) == 40


def test_only_the_file_name_matters_and_not_the_folder() -> None:
    assert is_looked_at("requirements.txt")
    assert is_looked_at("requirements-dev.txt")
    assert not is_looked_at("README.md")
    (offer,) = offers({"gradle/wrapper/gradle-wrapper.properties": "distributionUrl=https\\://g.example.test/x"})
    assert offer.files == ("gradle/wrapper/gradle-wrapper.properties",)


@given(st.sampled_from(sorted(PATTERNS)), st.text())
def test_reads_any_text(name: str, text: str) -> None:
    list(places(name.replace("*", ""), text))


@each("name", sorted(PATTERNS))
@each(
    "unit",
    [
        '"dist": {',
        "GEM\n ",
        "<repository>",
        '"resolved": "https://',
        "registry = ",
        "url ( ",
        "--index-url ",
        "a.",
        "[a,",
        "\n",
        "a@ ",
    ],
)
def test_reads_any_file_within_two_seconds(name: str, unit: str) -> None:
    started = time.process_time()
    list(places(name.replace("*", ""), unit * (60_000 // len(unit))))
    assert time.process_time() - started < 2


def test_every_service_that_a_file_indicates_is_known() -> None:
    assert {service for service in MANIFESTS if service_meant(service) != service} == set()


@each(
    ("names", "services"),
    [
        ((), {}),
        (("README.md", "package.json.bak", "my-go.mod", "requirements.in", "PACKAGE.JSON"), {}),
        (("go.mod", "package.json"), {"go": ("go.mod",), "node": ("package.json",)}),
        (("requirements-dev.txt", "pyproject.toml"), {"python": ("pyproject.toml", "requirements-dev.txt")}),
        (("Cargo.toml", "Gemfile", "pom.xml"), {"java": ("pom.xml",), "ruby": ("Gemfile",), "rust": ("Cargo.toml",)}),
    ],
)
def test_file_names_indicate_services(names: tuple[str, ...], services: dict[str, tuple[str, ...]]) -> None:
    assert services_of(names) == services

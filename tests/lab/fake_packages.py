"""One package for each registry, made here: the content by path."""

import base64
import gzip
import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

type Shelf = dict[str, bytes]


def tarred(files: Mapping[str, str | bytes], *, compressed: bool = True) -> bytes:
    """Return a .tar.gz, or a .tar."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz" if compressed else "w") as archive:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def zipped(files: Mapping[str, str]) -> bytes:
    """Return a .zip."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def npm(url: str) -> Shelf:
    """Serve `hello` as npm's registries do."""
    manifest = {"name": "hello", "version": "1.0.0", "main": "hello.js"}
    files = {"package/package.json": json.dumps(manifest), "package/hello.js": "module.exports = 'hello from npm'\n"}
    package, place = tarred(files), "/npm/hello/-/hello-1.0.0.tgz"
    integrity = f"sha512-{base64.b64encode(hashlib.sha512(package).digest()).decode()}"
    version = {**manifest, "dist": {"tarball": f"{url}{place}", "integrity": integrity}}
    about = {"name": "hello", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    return {"/npm/hello": json.dumps(about).encode(), place: package}


def python(_: str) -> Shelf:
    """Serve `hello` as Python's indexes do."""
    about, wheel = "hello-1.0.dist-info", "hello-1.0-py3-none-any.whl"
    files = {
        "hello.py": "print('hello from a wheel')\n",
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{about}/RECORD"))
    package = zipped({**files, f"{about}/RECORD": record})
    page = f'<!DOCTYPE html><a href="/pypi/{wheel}#sha256={hashlib.sha256(package).hexdigest()}">{wheel}</a>'
    return {"/pypi/simple/hello/": page.encode(), f"/pypi/{wheel}": package}


def debian(_: str) -> Shelf:
    """Serve `hello` as Debian's mirrors do, without a signature."""
    control = (
        "Package: hello-there\nVersion: 1.0\nArchitecture: all\nMaintainer: A <a@example.org>\nDescription: hello\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "hello")
        (place / "DEBIAN").mkdir(parents=True)
        (place / "DEBIAN" / "control").write_text(control)
        (place / "opt").mkdir()
        (place / "opt" / "hello-there").write_text("hello from Debian\n")
        subprocess.run(("dpkg-deb", "--build", "--root-owner-group", place), check=True, stdout=subprocess.DEVNULL)
        package = place.with_suffix(".deb").read_bytes()
    where = f"Filename: hello.deb\nSize: {len(package)}\nSHA256: {hashlib.sha256(package).hexdigest()}\n"
    return {"/debian/hello.deb": package, "/debian/Packages": f"{control}{where}\n".encode()}


def go(_: str) -> Shelf:
    """Serve `example.test/hello` as Go's module proxies do."""
    place, module = "/go/example.test/hello/@v/", "module example.test/hello\n"
    inside = "example.test/hello@v1.0.0/"
    files = {f"{inside}go.mod": module, f"{inside}hello.go": 'package hello\n\nconst Hello = "hello from Go"\n'}
    return {
        f"{place}list": b"v1.0.0\n",
        f"{place}v1.0.0.info": json.dumps({"Version": "v1.0.0", "Time": "2024-01-01T00:00:00Z"}).encode(),
        f"{place}v1.0.0.mod": module.encode(),
        f"{place}v1.0.0.zip": zipped(files),
    }


def cargo(url: str) -> Shelf:
    """Serve `hello` as Cargo's sparse registries do."""
    manifest = '[package]\nname = "hello"\nversion = "1.0.0"\n'
    crate = tarred({"hello-1.0.0/Cargo.toml": manifest, "hello-1.0.0/src/lib.rs": "// hello from a crate\n"})
    about = {"name": "hello", "vers": "1.0.0", "deps": [], "features": {}, "yanked": False}
    line = json.dumps({**about, "cksum": hashlib.sha256(crate).hexdigest()})
    return {
        "/cargo/config.json": json.dumps({"dl": f"{url}/cargo/crates"}).encode(),
        "/cargo/he/ll/hello": f"{line}\n".encode(),
        "/cargo/crates/hello/1.0.0/download": crate,
    }


def maven(_: str) -> Shelf:
    """Serve a parent of projects as Maven's repositories do."""
    about = (
        "<modelVersion>4.0.0</modelVersion><groupId>test</groupId><artifactId>hello</artifactId><version>1.0</version>"
    )
    parent = f"<project>{about}<packaging>pom</packaging><description>hello from Maven</description></project>"
    return {"/maven/test/hello/1.0/hello-1.0.pom": parent.encode()}


def composer(url: str) -> Shelf:
    """Serve `test/hello` as Composer's repositories do."""
    package = tarred({"hello/composer.json": '{"name": "test/hello"}', "hello/hello.php": "hello from PHP\n"})
    dist = {"type": "tar", "url": f"{url}/composer/hello.tar.gz"}
    packages = {"test/hello": {"1.0.0": {"name": "test/hello", "version": "1.0.0", "dist": dist}}}
    return {"/composer/packages.json": json.dumps({"packages": packages}).encode(), "/composer/hello.tar.gz": package}


def bundler(_: str) -> Shelf:
    """Serve `hello` as RubyGems' servers do."""
    about = (
        "--- !ruby/object:Gem::Specification\nname: hello\nversion: !ruby/object:Gem::Version\n  version: 1.0.0\n"
        "platform: ruby\nsummary: hello\nauthors: [a]\nfiles: [lib/hello.rb]\nrequire_paths: [lib]\n"
        "specification_version: 4\n"
    )
    files = {
        "metadata.gz": gzip.compress(about.encode()),
        "data.tar.gz": tarred({"lib/hello.rb": "puts 'hello from a gem'\n"}),
    }
    package = tarred(files, compressed=False)
    info = f"---\n1.0.0 |checksum:{hashlib.sha256(package).hexdigest()}\n".encode()
    versions = f"created_at: 2024-01-01T00:00:00Z\n---\nhello 1.0.0 {hashlib.md5(info).hexdigest()}\n"  # noqa: S324 - theirs
    return {"/ruby/versions": versions.encode(), "/ruby/info/hello": info, "/ruby/gems/hello-1.0.0.gem": package}


def shelves(url: str) -> Shelf:
    """Return all of it, for a host that is reached at `url`."""
    said = {
        "/files/hello": b"hello from the outside\n",
        "/page": b"<!DOCTYPE html><title>t</title><p id=p><script>p.textContent = 'hello from ' + 'a page'</script>",
        "/api/v3/meta": b'{"hello": "hello from the API"}',
    }
    for cache_dir in (npm, python, debian, go, cargo, maven, composer, bundler):
        said |= cache_dir(url)
    return said

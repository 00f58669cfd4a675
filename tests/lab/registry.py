"""A registry on loopback that serves one image, made of bytes: its only program waits for a signal."""

import gzip
import hashlib
import io
import json
import platform
import tarfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Self, override

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
# pause(); exit(0), as Linux has it on each processor.
CODE = {
    "x86_64": (62, bytes.fromhex("b8220000000f0531ffb83c0000000f05")),
    "aarch64": (183, bytes.fromhex("000080d2010080d2020080d2030080d2e40300aaa80980d2010000d4a80b80d2000080d2010000d4")),
}


def waiting_program() -> bytes:
    """Return an executable for this machine that waits until it is ended."""
    machine, code = CODE[platform.machine()]
    base, start = 0x400000, 0x78
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += (2).to_bytes(2, "little") + machine.to_bytes(2, "little") + (1).to_bytes(4, "little")
    header += (base + start).to_bytes(8, "little") + (64).to_bytes(8, "little") + bytes(12)
    header += b"".join(number.to_bytes(2, "little") for number in (64, 56, 1, 0, 0, 0))
    size = (start + len(code)).to_bytes(8, "little")
    segment = (1).to_bytes(4, "little") + (5).to_bytes(4, "little") + bytes(8) + base.to_bytes(8, "little") * 2
    return header + segment + size * 2 + (0x1000).to_bytes(8, "little") + code


class Registry:
    """A registry with one tag, `NAME:1`, whose content a test can replace."""

    def __init__(self, name: str) -> None:
        self.blobs: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.tag = ""
        self.publish("first")
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                place = self.path.rpartition("/")[2]
                digest = registry.tag if place == "1" else place
                data = b"{}" if self.path == "/v2/" else registry.blobs.get(digest)
                self.send_response(200 if data is not None else 404)
                self.send_header("Content-Type", MANIFEST if "/manifests/" in self.path else "application/octet-stream")
                self.send_header("Docker-Content-Digest", digest)
                self.send_header("Content-Length", str(len(data or b"")))
                self.end_headers()
                if self.command == "GET" and data:
                    self.wfile.write(data)

            def do_HEAD(self) -> None:
                self.do_GET()

            @override
            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.image = f"127.0.0.1:{self._server.server_port}/{name}:1"

    def publish(self, comment: str) -> None:
        """Let the tag be another image; the earlier ones can still be had by their digests."""
        self.layer = _layer(waiting_program())
        raw = hashlib.sha256(gzip.decompress(self.layer)).hexdigest()
        machine = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
        config = json.dumps(
            {
                "architecture": machine,
                "os": "linux",
                "config": {"Entrypoint": ["/wait"], "User": "1000:1000", "Labels": {"comment": comment}},
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{raw}"]},
            }
        ).encode()
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self._stored("application/vnd.oci.image.config.v1+json", config),
            "layers": [self._stored("application/vnd.oci.image.layer.v1.tar+gzip", self.layer)],
        }
        self.tag = str(self._stored(MANIFEST, json.dumps(manifest).encode())["digest"])

    def _stored(self, kind: str, data: bytes) -> dict[str, object]:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.blobs[digest] = data
        return {"mediaType": kind, "digest": digest, "size": len(data)}

    def __enter__(self) -> Self:
        """Serve."""
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End."""
        self._server.shutdown()
        self._server.server_close()


def _layer(program: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        entry = tarfile.TarInfo("wait")
        entry.size, entry.mode = len(program), 0o755
        archive.addfile(entry, io.BytesIO(program))
    return gzip.compress(out.getvalue(), mtime=0)

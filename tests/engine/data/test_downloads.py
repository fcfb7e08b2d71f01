"""What is downloaded is what was published, or it is removed."""

from __future__ import annotations

import hashlib
import http.client
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dgn_engine.data import ignore_progress
from dgn_engine.data._download import DownloadBounds, download_file
from dgn_engine.data._published_files import PUBLISHED, PublishedFile, published_file
from tests.refusals import refused

TRUE = bytes(range(256)) * 40
PUBLISHED_AS = PublishedFile(len(TRUE), hashlib.sha256(TRUE).hexdigest())


class Odd(BaseHTTPRequestHandler):
    """Serves by the path: /true, /wrong, /endless, /long, /short, /to/ADDRESS, /silent,
    /drip, /continue."""

    hold = threading.Event()  # until it is set, /silent says nothing
    sent = 0

    def do_GET(self) -> None:
        what, _, where = self.path[1:].partition("/")
        answer = {"wrong": TRUE[::-1], "long": TRUE + b"!", "short": TRUE[:99]}.get(what, TRUE)
        if what == "to":
            self.send_response(302)
            self.send_header("Location", where.replace("_", "/"))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        with suppress(OSError):
            while what == "continue":
                self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                self.hold.wait(0.01)
        self.send_response(200)
        if what not in ("endless", "silent"):
            self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        try:
            if what == "silent":
                self.wfile.write(TRUE[:50])
                self.wfile.flush()
                self.hold.wait(60.0)
            while what == "drip":
                self.wfile.write(b"x")
                self.hold.wait(0.01)
            self.wfile.write(answer)
            while what == "endless":
                self.wfile.write(answer)
                type(self).sent += len(answer)
        except OSError:  # the other side has had enough
            return

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    Odd.hold.clear()
    Odd.sent = 0
    found = ThreadingHTTPServer(("127.0.0.1", 0), Odd)
    found.daemon_threads = True
    thread = threading.Thread(target=found.serve_forever, args=(0.01,))
    thread.start()
    yield f"127.0.0.1:{found.server_port}"
    Odd.hold.set()
    found.shutdown()
    thread.join()
    found.server_close()


@pytest.mark.parametrize(
    ("what", "counted"),
    [("wrong", "sha256"), ("endless", "10,240"), ("long", "10,241"), ("short", "99")],
)
def test_other_bytes_are_refused_and_removed(
    what: str, counted: str, server: str, tmp_path: Path
) -> None:
    with refused("no-download") as refusal:
        download_file(
            [f"http://{server}/{what}"], tmp_path / "file", PUBLISHED_AS, "It", ignore_progress
        )
    assert counted in str(refusal.error)
    assert list(tmp_path.iterdir()) == []
    assert Odd.sent < 64 << 20  # what lay in the buffers between
    download_file([f"http://{server}/true"], tmp_path / "file", PUBLISHED_AS, "It", ignore_progress)
    assert (tmp_path / "file").read_bytes() == TRUE


def test_the_next_address_is_asked_after_one_that_lies(server: str, tmp_path: Path) -> None:
    urls = [f"http://{server}/{what}" for what in ("wrong", "to/http:__127.0.0.1:9_", "true")]
    download_file(urls, tmp_path / "file", PUBLISHED_AS, "It", ignore_progress)
    assert (tmp_path / "file").read_bytes() == TRUE


def test_a_redirect_of_http_is_followed(server: str, tmp_path: Path) -> None:
    url = f"http://{server}/to/http:__{server}_true"
    download_file([url], tmp_path / "file", PUBLISHED_AS, "It", ignore_progress)
    assert (tmp_path / "file").read_bytes() == TRUE


@pytest.mark.parametrize("scheme", ["http", "ftp"])
def test_a_redirect_from_https_to_what_is_not_encrypted_is_refused(
    scheme: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server speaks no TLS, so https is spoken plainly to it."""

    def plainly(
        handler: urllib.request.HTTPSHandler, request: urllib.request.Request
    ) -> http.client.HTTPResponse:
        return handler.do_open(http.client.HTTPConnection, request)  # type: ignore[arg-type] # plain

    monkeypatch.setattr(urllib.request.HTTPSHandler, "https_open", plainly)
    download_file(
        [f"https://{server}/true"], tmp_path / "file", PUBLISHED_AS, "It", ignore_progress
    )
    (tmp_path / "file").unlink()
    url = f"https://{server}/to/{scheme}:__{server}_true"
    for asked in (url, f"http://{server}/to/file:___etc_passwd"):
        with refused("no-download"):
            download_file([asked], tmp_path / "file", PUBLISHED_AS, "It", ignore_progress)
    assert list(tmp_path.iterdir()) == []


def test_a_download_from_a_silent_server_can_be_stopped(server: str, tmp_path: Path) -> None:
    def report(what: str, fraction: float | None) -> None:
        if fraction:  # something has come
            raise StopIteration

    with pytest.raises(StopIteration):
        download_file([f"http://{server}/silent"], tmp_path / "file", PUBLISHED_AS, "It", report)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["drip", "continue"])
def test_a_download_that_drips_is_ended_with_its_thread(
    what: str, server: str, tmp_path: Path
) -> None:
    bounds = DownloadBounds(patience=0.3, slowest=1 << 40)
    with refused("no-download"):
        download_file(
            [f"http://{server}/{what}"],
            tmp_path / "file",
            PUBLISHED_AS,
            "It",
            ignore_progress,
            bounds,
        )
    assert list(tmp_path.iterdir()) == []
    for thread in threading.enumerate():
        if thread.name == "dgn-download":
            thread.join(60)
            assert not thread.is_alive()


def test_what_has_no_sha256_is_not_downloaded() -> None:
    with refused("no-download"):
        published_file("MNIST", "x.gz")


def test_every_published_file_has_a_size_and_a_sha256_of_its_own() -> None:
    assert len({one.sha256 for one in PUBLISHED.values()}) == len(PUBLISHED) == 10
    for one in PUBLISHED.values():
        assert len(bytes.fromhex(one.sha256)) == 32
        assert one.bytes > 0

"""An S3 server for tests (moto, on loopback), and a proxy in front of it that loses, delays and refuses."""

import http.client
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

BUCKET = "checkpoints"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "test-access-key",
    "AWS_SECRET_ACCESS_KEY": "test-secret-key",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@contextmanager
def s3_server() -> Iterator[str]:
    """The address of a server with one empty bucket. It ends with the block, or with the process."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    assert server._server is not None
    server._server.app = _one_put_at_a_time(server._server.app)
    try:
        host, port = server.get_host_and_port()
        client = boto3.client(
            "s3",
            endpoint_url=f"http://{host}:{port}",
            region_name="us-east-1",
            aws_access_key_id="x",
            aws_secret_access_key="x",
        )
        client.create_bucket(Bucket=BUCKET)
        client.close()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def _one_put_at_a_time(app: Any) -> Any:
    """moto looks whether a name is free and then takes it, so of two PUTs at once both may win; in S3 one does."""
    lock = threading.Lock()

    def serve(environ: dict[str, Any], start_response: Any) -> Any:
        with lock if environ["REQUEST_METHOD"] == "PUT" else nullcontext():
            return app(environ, start_response)

    return serve


@dataclass
class Faults:
    """What goes wrong with the next requests: the first fault that fits a request is used up by it.

    A fault is (method, part of the path, kind). Kinds: "drop" forwards the request and closes without the reply;
    "lose" closes without forwarding; "hang" forwards and holds the reply back until `released`; "late" holds the
    request back until `released`; a number answers with that status without forwarding.
    """

    faults: list[tuple[str, str, Any]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    seen: list[tuple[str, str]] = field(default_factory=list)
    answer: Callable[[str, str, bytes], bytes] = lambda method, path, body: body
    """Changes the body of replies."""
    late: list[threading.Thread] = field(default_factory=list)

    def take(self, method: str, path: str) -> Any:
        self.seen.append((method, path))
        for fault in self.faults:
            if fault[0] == method and fault[1] in path:
                self.faults.remove(fault)
                return fault[2]
        return None


@contextmanager
def faulty_proxy(upstream: str, faults: Faults) -> Iterator[str]:
    """The address of a proxy of `upstream` that has these faults."""
    server = _Proxy(upstream.removeprefix("http://"), faults)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        faults.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, target: str, faults: Faults) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = target
        self.faults = faults


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one segment per reply, or the client's delayed acks cost 40 ms each
    server: _Proxy

    def _serve(self) -> None:
        faults = self.server.faults
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = faults.take(self.command, self.path)
        if isinstance(fault, int):
            return self._reply(fault, {}, b"<Error><Code>Injected</Code></Error>")
        if fault == "lose":
            return self._cut()
        if fault == "late":
            faults.late.append(threading.Thread(target=self._forward_late, args=(body,), daemon=True))
            faults.late[-1].start()
            return self._cut()
        status, headers, reply = self._forward(body)
        if fault == "hang":
            faults.released.wait(30)
        if fault in ("drop", "hang"):
            return self._cut()
        return self._reply(status, headers, faults.answer(self.command, self.path, reply))

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve

    def _forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.server.target, timeout=30)
        headers = {key: value for key, value in self.headers.items() if key.lower() != "connection"}
        connection.request(self.command, self.path, body, headers)
        response = connection.getresponse()
        reply = response.read()
        connection.close()
        return response.status, {key.lower(): value for key, value in response.getheaders()}, reply

    def _forward_late(self, body: bytes) -> None:
        self.server.faults.released.wait(30)
        self._forward(body)

    def _reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for key, value in headers.items():
            if key not in ("content-length", "transfer-encoding", "connection", "server", "date"):
                self.send_header(key, value)
        is_head = self.command == "HEAD"
        self.send_header("Content-Length", headers.get("content-length", "0") if is_head else str(len(body)))
        self.end_headers()
        if not is_head:
            self.wfile.write(body)

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.close()

    def log_message(self, format: str, *arguments: Any) -> None: ...

    def handle(self) -> None:
        with suppress(OSError, ValueError):  # the client is gone, or the connection was cut on purpose
            super().handle()

    def finish(self) -> None:
        with suppress(OSError, ValueError):
            super().finish()

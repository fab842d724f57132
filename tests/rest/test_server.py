"""The control server on a real socket: where it listens, slow and broken clients, TLS (security S1, S2, S11)."""

import socket
import ssl
import stat
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from penstock.control.remote_job import RemoteJob, ServerAddress
from penstock.control.tokens import ADMIN_FILE, READ_FILE, Tokens, read_token
from penstock.errors import ConfigurationError, NotReachableError
from penstock.model.configuration import Configuration
from penstock.rest.app import Limits
from penstock.rest.connection import MAX_CONNECTIONS, LimitedConnection
from penstock.rest.rest_settings import RestSettings
from penstock.rest.server import ControlServer, bind
from tests.rest.fake_job import ADMIN, JOB, TOKENS, Served
from tests.waiting import wait_until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ControlServer]:
    server = ControlServer(RestSettings())
    server.start(Served(tmp_path, limits=Limits(read_s=0.3)).app)
    yield server
    server.close()


def talk(server: ControlServer, data: bytes) -> bytes:
    """The reply to these bytes, until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(data)
        answer = b""
        while part := connection.recv(65536):
            answer += part
        return answer


def head(*lines: str) -> bytes:
    return "\r\n".join((*lines, "Host: localhost", f"Authorization: {ADMIN['Authorization']}", "", "")).encode()


def test_security_s1_it_listens_only_on_loopback(server: ControlServer) -> None:
    assert httpx.get(server.address + "/jobs", headers=ADMIN, trust_env=False).status_code == 200
    listening = [c.laddr for c in psutil.Process().net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    own = [address for address in listening if address.port == server.port]
    assert [address.ip for address in own] == ["127.0.0.1"]
    assert server.address == f"http://127.0.0.1:{server.port}"


def test_answers_are_not_held_back_for_an_acknowledgement() -> None:
    """asyncio sets TCP_NODELAY only on sockets that name their protocol."""
    listening = bind(RestSettings())
    assert listening.proto == socket.IPPROTO_TCP
    listening.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org"])
def test_security_s1_other_interfaces_need_tls_or_an_explicit_setting(host: str) -> None:
    with pytest.raises(ConfigurationError, match="insecure-bind"):
        RestSettings.of(Configuration.from_dict({"rest.bind-address": host}))
    allowed = RestSettings.of(
        Configuration.from_dict({"rest.bind-address": host, "penstock.rest.insecure-bind": "true"})
    )
    assert allowed.host == host
    tls = {"penstock.rest.ssl.certificate": "c.pem", "penstock.rest.ssl.key": "k.pem"}
    assert RestSettings.of(Configuration.from_dict({"rest.bind-address": host, **tls})).scheme == "https"
    del tls["penstock.rest.ssl.key"]
    with pytest.raises(ConfigurationError, match="belong together"):
        RestSettings.of(Configuration.from_dict(tls))


def test_the_first_free_port_of_a_range_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError):
            ControlServer(RestSettings(ports=range(port, port + 1)))
        server = ControlServer(RestSettings(ports=range(port, port + 20)))
        assert port < server.port < port + 20
        server.close()


@pytest.mark.parametrize("ports", ["x", "70000", "-1", "9-8", "1-2-3"])
def test_what_is_not_a_port_is_refused(ports: str) -> None:
    with pytest.raises(ConfigurationError):
        RestSettings.of(Configuration.from_dict({"rest.bind-port": ports}))


def test_rest_r5_a_body_that_does_not_arrive_is_408_and_the_connection_ends(server: ControlServer) -> None:
    lines = (f"POST {JOB}/savepoints HTTP/1.1", "Content-Type: application/json")
    assert talk(server, head(*lines, "Content-Length: 50") + b"{").startswith(b"HTTP/1.1 408")
    assert talk(server, head(*lines, "Transfer-Encoding: chunked") + b"1\r\n{\r\n").startswith(b"HTTP/1.1 408")
    assert talk(server, head(*lines, "Content-Length: 9999999999")).startswith(b"HTTP/1.1 413")


def test_rest_r5_a_head_that_does_not_arrive_ends_the_connection(
    server: ControlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LimitedConnection, "header_limit_s", 0.2)
    assert talk(server, b"") == b""
    assert talk(server, b"GET /jobs HTTP/1.1\r\nHost: loc") == b""


def test_rest_r5_more_connections_than_the_limit_are_closed(server: ControlServer) -> None:
    open_ones = [socket.create_connection(("127.0.0.1", server.port), timeout=20) for _ in range(MAX_CONNECTIONS)]
    try:
        assert talk(server, b"") == b""
    finally:
        for connection in open_ones:
            connection.close()
    wait_until(lambda: talk(server, head("GET /jobs HTTP/1.1", "Connection: close")).startswith(b"HTTP/1.1 200"))


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET /jobs HTTP/1.1\r\n\r\n",
        b"GET /jobs HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        b"GET /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    ],
)
def test_rest_r2_r5_an_invalid_head_is_400(server: ControlServer, data: bytes) -> None:
    answer = talk(server, data)
    assert answer.startswith(b"HTTP/1.1 400") and b'"code": "BAD_REQUEST"' in answer
    assert TOKENS.admin.encode() not in answer


def test_security_s11_a_head_that_is_too_large_is_refused(server: ControlServer) -> None:
    assert talk(server, head("GET /jobs HTTP/1.1", "X: " + "a" * 17_000)).startswith(b"HTTP/1.1 431")
    assert talk(server, b"GET /jobs HTTP/1.1\r\nX: " + b"a" * 20_000).startswith(b"HTTP/1.1 400")


def test_rest_r2_an_upgrade_to_a_web_socket_is_not_done(server: ControlServer) -> None:
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: eA==")
    answer = talk(server, head("GET /nowhere HTTP/1.1", *upgrade))
    assert answer.startswith(b"HTTP/1.1 404")


def test_an_idle_server_does_nothing(server: ControlServer) -> None:
    """Its thread is not woken up: uvicorn's own loop would be, ten times a second."""
    httpx.get(server.address + "/jobs", headers=ADMIN, trust_env=False)
    (own,) = [thread for thread in threading.enumerate() if thread.name == "rest"]
    assert own.native_id is not None
    path = Path(f"/proc/self/task/{own.native_id}/status")

    def switches() -> str:
        return next(line for line in path.read_text().splitlines() if line.startswith("voluntary_ctxt"))

    wait_until(lambda: not httpx_connections(server), timeout_s=20)
    before = switches()
    threading.Event().wait(1.0)
    assert int(switches().split()[1]) - int(before.split()[1]) <= 2


def httpx_connections(server: ControlServer) -> list[object]:
    found = psutil.Process().net_connections("tcp")
    return [c for c in found if c.laddr.port == server.port and c.status == psutil.CONN_ESTABLISHED]


def test_a_closed_server_frees_its_port_and_its_thread(tmp_path: Path) -> None:
    server = ControlServer(RestSettings())
    server.start(Served(tmp_path).app)
    httpx.get(server.address + "/jobs", headers=ADMIN, trust_env=False)
    port = server.port
    server.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "rest"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_security_s13_with_a_certificate_it_speaks_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(
        [*command, *names, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True, timeout=60
    )
    key.chmod(0o644)
    settings = RestSettings(certificate=str(certificate), key=str(key))
    with pytest.raises(ConfigurationError, match="chmod 600"):
        ControlServer(settings)
    key.chmod(0o600)
    server = ControlServer(settings)
    served = Served(tmp_path)
    server.start(served.app)
    try:
        assert server.address.startswith("https://")
        context = ssl.create_default_context(cafile=str(certificate))
        answer = httpx.get(server.address + "/jobs", headers=ADMIN, verify=context, trust_env=False)
        assert answer.status_code == 200
        remote = ServerAddress(server.address, TOKENS.admin)
        with RemoteJob("", remote) as stranger, pytest.raises(NotReachableError, match="certificate"):
            stranger.overview()
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with RemoteJob("", remote) as friend:
            assert len(friend.overview()) == 1
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://127.0.0.1:{server.port}/jobs", headers=ADMIN, trust_env=False)
    finally:
        server.close()


def test_security_s2_tokens_are_files_of_their_owner_and_new_at_each_start(tmp_path: Path) -> None:
    one, two = Tokens.new(), Tokens.new()
    one.write(tmp_path / "job")
    for name in (ADMIN_FILE, READ_FILE):
        path = tmp_path / "job" / name
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert len(path.read_text()) == 43  # 256 bits in base64
    assert stat.S_IMODE((tmp_path / "job").stat().st_mode) == 0o700
    two.write(tmp_path / "job")
    assert two.scope_of(one.admin) is None and two.scope_of(two.admin) == "admin" and two.scope_of(two.read) == "read"
    one.remove(tmp_path / "job")  # an earlier start does not remove those of a later one
    assert read_token(tmp_path / "job" / ADMIN_FILE) == two.admin
    two.remove(tmp_path / "job")
    assert not list((tmp_path / "job").iterdir())
    assert one.admin not in repr(one) and one.read not in repr(one)


@pytest.mark.parametrize("content", [b"", b"\n", b"x" * 2000, b"a\x00b"])
def test_a_file_without_a_token_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(NotReachableError, match="does not hold a token"):
        read_token(tmp_path / "token")
    with pytest.raises(NotReachableError, match="cannot read the token file"):
        read_token(tmp_path / "absent")

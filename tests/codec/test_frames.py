import socket
import threading
from collections.abc import Iterator

import pytest

from penstock.codec.socket_frames import (
    MAX_FRAME_BYTES,
    recv_frame,
    send_frame,
)
from penstock.errors import RpcError


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    left.settimeout(10)
    right.settimeout(10)
    yield left, right
    left.close()
    right.close()


@pytest.mark.parametrize("size", [0, 1, 65536, 65537, 3_000_000])
def test_a_frame_arrives_as_it_was_sent(pair, size):
    data = bytes(range(256)) * (size // 256 + 1)
    sender = threading.Thread(target=send_frame, args=(pair[0], data[:size]))
    sender.start()
    assert recv_frame(pair[1]) == data[:size]
    sender.join()


def test_frames_keep_their_order_and_borders(pair):
    for data in (b"one", b"", b"three"):
        send_frame(pair[0], memoryview(data))
    assert [recv_frame(pair[1]) for _ in range(3)] == [b"one", b"", b"three"]


@pytest.mark.parametrize("sent", [b"", b"\x00\x00", b"\x00\x00\x00\x05abc"])
def test_a_connection_that_ends_inside_a_frame_is_an_rpc_error(pair, sent):
    pair[0].sendall(sent)
    pair[0].close()
    with pytest.raises(RpcError, match="the connection ended"):
        recv_frame(pair[1])


def test_a_length_over_the_limit_is_refused_on_both_sides(pair):
    pair[0].sendall((MAX_FRAME_BYTES + 1).to_bytes(4, "big"))
    with pytest.raises(RpcError, match="longer than the limit"):
        recv_frame(pair[1])
    with pytest.raises(RpcError, match="longer than the limit"):
        send_frame(pair[0], b"12345", limit=4)


def test_a_lost_connection_and_a_timeout_are_rpc_errors(pair):
    pair[1].settimeout(0.01)
    with pytest.raises(RpcError, match="could not receive"):
        recv_frame(pair[1])
    pair[1].close()
    with pytest.raises(RpcError, match="could not send"):
        for _ in range(100):
            send_frame(pair[0], b"x" * 70_000)

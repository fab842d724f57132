import socket
import threading
from collections.abc import Iterator

import pytest

from penstock.codec.socket_frames import (
    MAX_FRAME_BYTES,
    FrameReader,
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


def reader_of(sock, buffered):
    return FrameReader(sock).recv if buffered else lambda *limit: recv_frame(sock, *limit)


@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize("size", [0, 1, 16383, 65536, 65537, 3_000_000])
def test_a_frame_arrives_as_it_was_sent(pair, size, buffered):
    data = bytes(range(256)) * (size // 256 + 1)
    sender = threading.Thread(target=send_frame, args=(pair[0], data[:size]))
    sender.start()
    assert reader_of(pair[1], buffered)() == data[:size]
    sender.join()


@pytest.mark.parametrize("buffered", [False, True])
def test_frames_keep_their_order_and_borders(pair, buffered):
    sent = [b"one", b"", b"three", b"x" * 20_000, b"five"]
    for data in sent:
        send_frame(pair[0], memoryview(data))
    read = reader_of(pair[1], buffered)
    assert [read() for _ in sent] == sent


def test_frames_that_arrive_byte_by_byte_are_read(pair):
    def send() -> None:
        for byte in b"\x00\x00\x00\x03one\x00\x00\x00\x03two":
            pair[0].sendall(bytes((byte,)))

    sender = threading.Thread(target=send)
    sender.start()
    read = FrameReader(pair[1]).recv
    assert (read(), read()) == (b"one", b"two")
    sender.join()


@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize("sent", [b"", b"\x00\x00", b"\x00\x00\x00\x05abc"])
def test_a_connection_that_ends_inside_a_frame_is_an_rpc_error(pair, sent, buffered):
    pair[0].sendall(sent)
    pair[0].close()
    with pytest.raises(RpcError, match="the connection ended"):
        reader_of(pair[1], buffered)()


def test_a_length_over_the_limit_is_refused_on_both_sides(pair):
    for buffered in (False, True):
        pair[0].sendall((MAX_FRAME_BYTES + 1).to_bytes(4, "big"))
        with pytest.raises(RpcError, match="longer than the limit"):
            reader_of(pair[1], buffered)()
    with pytest.raises(RpcError, match="longer than the limit"):
        send_frame(pair[0], b"12345", limit=4)


def test_a_lost_connection_and_a_timeout_are_rpc_errors(pair):
    pair[1].settimeout(0.01)
    for buffered in (False, True):
        with pytest.raises(RpcError, match="could not receive"):
            reader_of(pair[1], buffered)()
    pair[1].close()
    with pytest.raises(RpcError, match="could not send"):
        for _ in range(100):
            send_frame(pair[0], b"x" * 70_000)

"""Frames over a socket: a length of four bytes, then that many bytes."""

import socket
import struct

from penstock.errors import ConnectionLostError, RpcError
from penstock.model.units import KIB, MIB

MAX_FRAME_BYTES = 64 * MIB
_HEAD = struct.Struct(">I")
_JOIN_LIMIT = 64 * KIB
_SMALL_FRAME = 16 * KIB


def send_frame(sock: socket.socket, data: bytes | memoryview, limit: int = MAX_FRAME_BYTES) -> None:
    """Send one frame. Raises ConnectionLostError if the connection has ended, RpcError if the frame is too long."""
    size = len(data)
    if size > limit:
        raise RpcError(f"a message of {size} bytes is longer than the limit of {limit}; send it in parts")
    try:
        if size <= _JOIN_LIMIT:
            sock.sendall(_HEAD.pack(size) + data)
        else:
            sock.sendall(_HEAD.pack(size))
            sock.sendall(data)
    except OSError as error:
        raise ConnectionLostError(f"could not send a message of {size} bytes: {error}") from error


def recv_frame(sock: socket.socket, limit: int = MAX_FRAME_BYTES) -> bytes:
    """The next frame. Raises ConnectionLostError if the connection ends first, RpcError if it exceeds `limit`."""
    (size,) = _HEAD.unpack(_recv_exactly(sock, _HEAD.size))
    if size > limit:
        raise RpcError(f"a message of {size} bytes is longer than the limit of {limit}; is the other side Penstock?")
    return _recv_exactly(sock, size)


class FrameReader:
    """The frames of a connection, each usually with a single call. Nobody else may receive from the socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._ahead = b""
        """What was received with the last frame and is after it."""

    def recv(self, limit: int = MAX_FRAME_BYTES) -> bytes:
        """As `recv_frame`."""
        data = self._ahead or self._recv_some()
        self._ahead = b""
        if len(data) < _HEAD.size:
            data += _recv_exactly(self._sock, _HEAD.size - len(data))
        end = _HEAD.size + _HEAD.unpack_from(data)[0]
        if end > _HEAD.size + limit:
            raise RpcError(
                f"a message of {end - _HEAD.size} bytes is longer than the limit of {limit}; is it Penstock?"
            )
        if end > len(data):
            return data[_HEAD.size :] + _recv_exactly(self._sock, end - len(data))
        self._ahead = data[end:]
        return data[_HEAD.size : end]

    def _recv_some(self) -> bytes:
        try:
            data = self._sock.recv(_SMALL_FRAME)
        except OSError as error:
            raise ConnectionLostError(f"could not receive a message: {error}") from error
        if not data:
            raise ConnectionLostError("the connection ended before a message")
        return data


def shut_down(sock: socket.socket) -> None:
    """End a connection or stop listening, and wake the thread that waits on the socket."""
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


def _recv_exactly(sock: socket.socket, size: int) -> bytes:
    parts: list[bytes] = []
    missing = size
    while missing:
        try:
            part = sock.recv(min(missing, MAX_FRAME_BYTES), socket.MSG_WAITALL)
        except OSError as error:
            raise ConnectionLostError(f"could not receive {size} bytes: {error}") from error
        if not part:
            raise ConnectionLostError(f"the connection ended: {size - missing} of {size} bytes were received")
        parts.append(part)
        missing -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)

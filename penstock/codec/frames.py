"""Messages over a socket: a length of four bytes, then that many bytes. Structs travel as msgpack, never as pickles."""

import socket
import struct
from functools import lru_cache
from types import UnionType
from typing import Any, TypeVar, overload

import msgspec

from penstock.errors import RpcError

MIB = 1024 * 1024
MAX_FRAME_BYTES = 64 * MIB
_HEAD = struct.Struct(">I")
_JOIN_LIMIT = 64 * 1024
_encoder = msgspec.msgpack.Encoder()

M = TypeVar("M")


def send_frame(sock: socket.socket, data: bytes | memoryview, limit: int = MAX_FRAME_BYTES) -> None:
    """Send one frame; on return it is in the socket's buffer. RpcError if the connection is lost or it is too long."""
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
        raise RpcError(f"could not send a message of {size} bytes: {error}") from error


def recv_frame(sock: socket.socket, limit: int = MAX_FRAME_BYTES) -> bytes:
    """The next frame. RpcError if the connection ends first or the frame is longer than `limit`."""
    (size,) = _HEAD.unpack(_recv_exactly(sock, _HEAD.size))
    if size > limit:
        raise RpcError(f"a message of {size} bytes is longer than the limit of {limit}; is the other side Penstock?")
    return _recv_exactly(sock, size)


def send_message(sock: socket.socket, message: msgspec.Struct) -> None:
    """Send a struct."""
    send_frame(sock, encode_message(message))


@overload
def recv_message(sock: socket.socket, kind: type[M], limit: int = MAX_FRAME_BYTES) -> M: ...


@overload
def recv_message(sock: socket.socket, kind: UnionType, limit: int = MAX_FRAME_BYTES) -> Any: ...


def recv_message(sock: socket.socket, kind: Any, limit: int = MAX_FRAME_BYTES) -> Any:
    """The next message, which must be a `kind`: a struct, or a union of tagged structs."""
    return decode_message(recv_frame(sock, limit), kind)


def encode_message(message: msgspec.Struct) -> bytes:
    """A struct as msgpack."""
    return _encoder.encode(message)


@overload
def decode_message(data: bytes, kind: type[M]) -> M: ...


@overload
def decode_message(data: bytes, kind: UnionType) -> Any: ...


def decode_message(data: bytes, kind: Any) -> Any:
    """The struct in `data`; RpcError if it is not a `kind`."""
    try:
        return _decoder(kind).decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RpcError(f"a message is not a {getattr(kind, '__name__', kind)}: {error}") from error


@lru_cache(maxsize=256)
def _decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind)


def _recv_exactly(sock: socket.socket, size: int) -> bytes:
    parts: list[bytes] = []
    missing = size
    while missing:
        try:
            part = sock.recv(min(missing, MAX_FRAME_BYTES), socket.MSG_WAITALL)
        except OSError as error:
            raise RpcError(f"could not receive {size} bytes: {error}") from error
        if not part:
            raise RpcError(f"the connection ended: {size - missing} of {size} bytes were received")
        parts.append(part)
        missing -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)

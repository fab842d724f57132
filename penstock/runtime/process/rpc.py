"""Control connections between JobManager and TaskManagers: framed messages with a token, one thread each.

Every connection starts with `Hello`; a wrong token or an older attempt ends it. After that the client sends one
message at a time and gets one answer.
"""

import hmac
import socket
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from penstock import errors
from penstock.codec.socket_frames import MAX_FRAME_BYTES, FrameReader, recv_frame, send_frame
from penstock.errors import ConnectionLostError, PenstockError, RpcError, StaleAttemptError
from penstock.runtime.process import messages
from penstock.runtime.process.messages import Hello, Ok, Refused
from penstock.runtime.process.strangers import FIRST_MESSAGE_BYTES, Strangers

CALL_TIMEOUT_S = 60.0
CONNECT_TIMEOUT_S = 5.0

Handler = Callable[[str, Any], Any]
"""(sender, message) -> answer. Raises a PenstockError to refuse."""


class RpcServer:
    """Answers messages of clients that know the token. `close` ends the listener and every connection."""

    def __init__(self, host: str, hello: Hello, handle: Handler, disconnected: Callable[[str], None]) -> None:
        self._hello = hello
        self._handle = handle
        self._disconnected = disconnected
        self._connections: set[socket.socket] = set()
        self._strangers = Strangers()
        self._lock = threading.Lock()
        self._closed = False
        self._listener = socket.create_server((host, 0))
        self.address: tuple[str, int] = (host, self._listener.getsockname()[1])
        threading.Thread(target=self._accept, name="rpc-accept", daemon=True).start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), name="rpc", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        sender = ""
        try:
            self._strangers.add(connection)
            connection.settimeout(CALL_TIMEOUT_S)
            hello = receive(connection, FIRST_MESSAGE_BYTES)
            check_hello(hello, self._hello)
            self._strangers.remove(connection)
            sender = hello.sender
            send(connection, Ok())
            connection.settimeout(None)
            while True:
                message = receive(connection)
                send(connection, self._answer(sender, message))
        except (RpcError, OSError):
            pass
        except PenstockError as error:
            _try_send(connection, refusal(error))
        finally:
            self._strangers.remove(connection)
            with self._lock:
                self._connections.discard(connection)
            connection.close()
            if sender and not self._closed:
                self._disconnected(sender)

    def _answer(self, sender: str, message: Any) -> Any:
        try:
            return self._handle(sender, message) or Ok()
        except PenstockError as error:
            return refusal(error)

    def close(self) -> None:
        """End the listener and every connection."""
        self._closed = True
        self._listener.close()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            _shut(connection)


class RpcClient:
    """One control connection. Several threads may call it; the calls are made one after the other."""

    def __init__(self, address: tuple[str, int] | str, hello: Hello) -> None:
        self._lock = threading.Lock()
        self._socket = connect(address)
        self._socket.settimeout(CALL_TIMEOUT_S)
        send(self._socket, hello)
        raise_refusal(receive(self._socket))

    def call(self, message: Any, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        """The answer to `message`; a refusal is raised as the error it names."""
        with self._lock:
            try:
                self._socket.settimeout(timeout_s)
            except OSError as error:  # another thread has closed it
                raise ConnectionLostError(f"the connection is closed: {error}") from error
            send(self._socket, message)
            answer = receive(self._socket)
        raise_refusal(answer)
        return answer

    def close(self) -> None:
        """End the connection."""
        _shut(self._socket)


def connect(address: tuple[str, int] | str) -> socket.socket:
    """A connection to a Unix socket path or a (host, port)."""
    if isinstance(address, str):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(CONNECT_TIMEOUT_S)
        try:
            connection.connect(address)
        except OSError as error:
            connection.close()
            raise RpcError(f"no TaskManager answers at {address!r}: {error}") from error
        return connection
    try:
        return socket.create_connection(address, CONNECT_TIMEOUT_S)
    except OSError as error:
        raise RpcError(f"nobody answers at {address[0]}:{address[1]}: {error}") from error


def send(connection: socket.socket, message: Any) -> None:
    """Send one message."""
    send_frame(connection, messages.encode(message))


def receive(connection: socket.socket, limit: int = MAX_FRAME_BYTES) -> Any:
    """The next message. Raises RpcError if the connection has ended or the message is unreadable or too long."""
    return _decode(recv_frame(connection, limit))


class MessageReader:
    """Receives messages as `receive` does, with fewer calls. Nobody else may receive from the connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._frames = FrameReader(connection)

    def receive(self) -> Any:
        """The next message."""
        return _decode(self._frames.recv())


def _decode(data: bytes) -> Any:
    try:
        return messages.decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RpcError(f"unreadable message: {error}") from error


def check_hello(hello: Any, expected: Hello) -> None:
    """Raise StaleAttemptError unless the peer knows the token and belongs to the same attempt."""
    if not isinstance(hello, Hello) or not hmac.compare_digest(hello.token, expected.token):
        raise StaleAttemptError("the peer does not know this attempt's token")
    if hello.attempt != expected.attempt:
        raise StaleAttemptError(f"the peer is of attempt {hello.attempt}, this is attempt {expected.attempt}")


def refusal(error: PenstockError) -> Refused:
    """`error` as a message."""
    return Refused(type(error).__name__, [str(argument) for argument in error.args])


def raise_refusal(answer: Any) -> None:
    """Raise the error that `answer` carries, if it carries one."""
    if isinstance(answer, Refused):
        raise error_of(answer.error, answer.args)


def error_of(name: str, arguments: list[str]) -> PenstockError:
    """The error with that class name; RpcError if there is none."""
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, PenstockError):
        return kind(*arguments)
    return RpcError(f"{name}: {' '.join(arguments)}")


def _try_send(connection: socket.socket, message: Any) -> None:
    try:
        send(connection, message)
    except (RpcError, OSError):
        return


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    connection.close()

"""Connections whose peer has not shown the token yet. Whoever can reach the port can open them.

They are limited in number, so that they take neither the threads nor the file descriptors of a process. Peers that know
the token show it at once: if there are too many strangers, the one that has waited longest is the least likely to.
"""

import socket
import threading

from penstock.codec.socket_frames import shut_down
from penstock.model.units import MIB

MOST_STRANGERS = 256
FIRST_MESSAGE_BYTES = MIB
"""Of the message with the token."""


class Strangers:
    """The strangers of one process. Thread safe."""

    def __init__(self, most: int = MOST_STRANGERS) -> None:
        self._most = most
        self._waiting: dict[socket.socket, None] = {}
        """Those that have waited longest come first."""
        self._lock = threading.Lock()

    def add(self, connection: socket.socket) -> None:
        """A new one. If there are too many, the oldest is ended."""
        with self._lock:
            self._waiting[connection] = None
            oldest = next(iter(self._waiting)) if len(self._waiting) > self._most else None
            if oldest is not None:
                del self._waiting[oldest]
        if oldest is not None:
            shut_down(oldest)

    def remove(self, connection: socket.socket) -> None:
        """It has shown the token, or is closed."""
        with self._lock:
            self._waiting.pop(connection, None)

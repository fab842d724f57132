"""The sockets on which a TaskManager listens: a Unix socket for tasks on the same machine, TCP for all others."""

import os
import socket
import threading
from collections.abc import Callable

from penstock.clock import Clock
from penstock.codec.socket_frames import shut_down
from penstock.runtime.process.watchdog import exit_now

START_LIMIT_S = 10.0
"""How long a new thread may take to start before the process is taken for broken."""


class TaskListener:
    """Serves every connection in a thread of its own, from `start` until `close`.

    If that is no longer possible, the process ends: Spark would wait forever for one that only stopped listening.
    """

    def __init__(self, folder: str, host: str, serve: Callable[[socket.socket], None], clock: Clock) -> None:
        self._serve_connection = serve
        self._clock = clock
        self._closed = threading.Event()
        self._starting: dict[int, float] = {}
        """Accepting thread -> since when it waits for the thread of a connection to start."""
        self.unix_path = os.path.join(folder, "tm.sock")
        unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        unix.bind(self.unix_path)
        unix.listen(64)
        tcp = socket.create_server((host, 0))
        self.tcp_port: int = tcp.getsockname()[1]
        self._sockets = (unix, tcp)

    def start(self) -> None:
        """Accept connections from now on."""
        for listening in self._sockets:
            self._start_thread(self._accept, listening)

    def close(self) -> None:
        """Accept no more connections; those that are open go on."""
        self._closed.set()
        for listening in self._sockets:
            shut_down(listening)
            listening.close()

    def require_responsive(self) -> None:
        """End the process if the thread of a connection has not started in time: Python waits for it forever."""
        limit_s = self._clock.monotonic_s() - START_LIMIT_S
        if any(since_s < limit_s for since_s in list(self._starting.values())):
            exit_now("tasks cannot be served any more: a thread did not start, perhaps for want of memory")

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
                self._hand_over(connection)
            except (OSError, RuntimeError, MemoryError) as error:  # no descriptor, no thread or no memory is left
                if self._closed.is_set():
                    return
                exit_now(f"tasks cannot be served any more: {error}")

    def _hand_over(self, connection: socket.socket) -> None:
        """Start the thread that serves a connection."""
        own = threading.get_ident()
        self._starting[own] = self._clock.monotonic_s()
        try:
            self._start_thread(self._serve_connection, connection)
        except BaseException:
            connection.close()
            raise
        del self._starting[own]

    def _start_thread(self, target: Callable[[socket.socket], None], argument: socket.socket) -> None:
        threading.Thread(target=target, args=(argument,), daemon=True).start()

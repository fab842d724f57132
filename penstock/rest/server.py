"""The control server of a job: a socket, and a thread that sleeps until a request arrives."""

import asyncio
import socket
import threading
from functools import partial
from typing import Any, cast

import uvicorn

from penstock.rest.access import MAX_HEADER_BYTES
from penstock.rest.connection import LimitedConnection
from penstock.rest.direct_queries import Answer, DirectQueries
from penstock.rest.rest_settings import RestSettings

CLOSE_LIMIT_S = 2
BACKLOG = 128


class ControlServer:
    """Binds its port when it is created (OSError if none is free); serves from `start` to `close`."""

    def __init__(self, settings: RestSettings) -> None:
        self._settings = settings
        self._tls = settings.tls()
        self._socket = bind(settings)
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        """The server's URL, with the host name that clients use if it listens on all interfaces."""
        host = self._settings.names[-1] if self._settings.names else self._settings.host
        return f"{self._settings.scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._socket.getsockname()[1])

    def start(self, app: Any, answer_query: Answer | None = None) -> None:
        """Serve an ASGI application, in a thread of its own; queries that `answer_query` can answer, in more."""
        self._thread = threading.Thread(target=self._run, args=(app, answer_query), name="rest", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Finish running requests, within two seconds, and free the port."""
        if self._loop.is_closed():
            return
        if self._thread is None:
            self._socket.close()
            self._loop.close()
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(2 * CLOSE_LIMIT_S)

    def _run(self, app: Any, answer_query: Answer | None) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve(app, answer_query))
        finally:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    async def _serve(self, app: Any, answer_query: Answer | None) -> None:
        queries = None if answer_query is None else DirectQueries(answer_query)
        config = uvicorn.Config(
            app,
            http=cast(type[asyncio.Protocol], partial(LimitedConnection, direct_queries=queries)),
            ws="none",
            lifespan="off",
            loop="asyncio",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            backlog=BACKLOG,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
            timeout_graceful_shutdown=CLOSE_LIMIT_S,
        )
        config.load()
        config.ssl = self._tls
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        # Not `serve`, which wakes up ten times a second to check whether it should stop.
        await server.startup(sockets=[self._socket])
        await self._stopping.wait()
        await server.shutdown(sockets=[self._socket])


def bind(settings: RestSettings) -> socket.socket:
    """A socket on the first free port."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    problem: OSError | None = None
    for port in settings.ports:
        # With the protocol: asyncio then sets TCP_NODELAY on connections. Otherwise head and body of an answer, which
        # are written one after the other, can be 40 ms apart.
        found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind((settings.host, port))
            found.listen(BACKLOG)  # requests that arrive before `start` wait here
        except OSError as error:
            found.close()
            problem = error
        else:
            return found
    raise problem or OSError("no port was given")

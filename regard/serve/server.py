"""Runs the application: uvicorn, with time limits on connections, and an end in good order."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import socket
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.serve.limits import Limits
from regard.serve.listener import BACKLOG, Listener, raise_descriptor_limit, refusal, too_many_connections
from regard.serve.problems import problem

log = logging.getLogger("regard.serve")

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def run(
    app: ASGIApp,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    limits: Limits | None = None,
    ready: Callable[[str], None] = print,
) -> None:
    """Serve until SIGTERM or Ctrl-C; then let the requests that are under way end.

    Args:
        port: 0 for any that is free.
        ready: called with the address, once connections are taken.
    """
    limits = limits or Limits()
    raise_descriptor_limit(2 * limits.connections)  # half of them are held only to be refused
    with listen(host, port) as listener:
        address = f"http://{_shown(host)}:{listener.getsockname()[1]}"

        def announce() -> None:
            try:
                ready(address)
            except (OSError, ValueError) as error:  # standard output is closed, or nobody reads it any more
                log.warning("serving at %s, which could not be printed: %s", address, error)

        server(app, limits, announce).run(sockets=[listener])


class _Server(uvicorn.Server):
    ready: Callable[[], None]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.ready()


def server(app: ASGIApp, limits: Limits, ready: Callable[[], None] = lambda: None) -> uvicorn.Server:
    """uvicorn with these limits; what a client sent is not logged."""
    config = uvicorn.Config(
        app,
        http=with_deadlines(limits),
        loop="asyncio",
        ws="none",
        lifespan="on",
        log_level="error",  # warnings are what anybody sent, a line or two for each request
        access_log=False,
        use_colors=False,  # else uvicorn asks standard output, which may be closed
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=math.ceil(limits.idle_seconds),
        # Longer than any request that is under way may take: each has its own timeout.
        timeout_graceful_shutdown=math.ceil(limits.body_seconds + limits.seconds) + 1,
    )
    instance = _Server(config)
    instance.ready = ready
    return instance


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections there."""
    try:
        return Listener.at(host, port)
    except OSError as error:
        raise ValueError(f"cannot listen at {_shown(host)}:{port}: {error.strerror or error}") from None


def local(host: str) -> bool:
    """Can only this machine reach it?"""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    await too_many_connections()(scope, receive, send)


def with_deadlines(limits: Limits) -> type[H11Protocol]:
    """HTTP over connections that are closed when a client keeps them without using them.

    uvicorn bounds the time between requests only: a client that sends its head byte by byte, or never takes its answer,
    would be waited for for ever.
    """

    class Protocol(H11Protocol):
        _deadlines: dict[str, asyncio.TimerHandle]

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._deadlines = {}
            if len(self.connections) > 2 * limits.connections:  # no request of theirs is waited for
                transport.write(refusal())
                transport.close()
            elif len(self.connections) > limits.connections:
                self.app = _refuse
            self._expect("head", limits.head_seconds)

        def connection_lost(self, exc: Exception | None) -> None:
            for name in list(self._deadlines):
                self._met(name)
            super().connection_lost(exc)

        def handle_events(self) -> None:
            super().handle_events()
            if self.conn.their_state is not h11.IDLE:
                self._met("head")
            elif self.conn.trailing_data[0]:  # a request has begun
                self._expect("head", limits.head_seconds)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._expect("taking", limits.body_seconds)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._met("taking")

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.transport.is_closing():  # once the answer is taken
                self._expect("taking", limits.body_seconds)

        def timeout_keep_alive_handler(self) -> None:
            self._expect("taking", limits.body_seconds)
            super().timeout_keep_alive_handler()

        def send_400_response(self, msg: str) -> None:
            if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
                return self.transport.abort()
            response = problem("malformed", "this is not HTTP/1.1 as RFC 9112 has it", headers={"connection": "close"})
            for event in (
                h11.Response(status_code=400, headers=response.raw_headers),
                h11.Data(data=bytes(response.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
            self._expect("taking", limits.body_seconds)
            self.transport.close()

        def _expect(self, name: str, seconds: float) -> None:
            if name not in self._deadlines:
                self._deadlines[name] = self.loop.call_later(seconds, self.transport.abort)

        def _met(self, name: str) -> None:
            if name in self._deadlines:
                self._deadlines.pop(name).cancel()

    return Protocol

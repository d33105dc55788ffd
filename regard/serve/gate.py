"""What stands before every request: who may come in, how much they may bring, and what leaves with the answer."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import suppress

from fastapi import Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serve.limits import Limits
from regard.serve.problems import problem

log = logging.getLogger("regard.serve")

LINGER = 128
"""Of what is too large, this many times the limit is read and thrown away."""

GUARDS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class _TooLarge(Exception):
    pass


class _Gone(Exception):
    """The client has left."""


class Gate:
    """ASGI middleware: host, token, size and time of the body; guards on every response; an answer to every fault.

    Args:
        hosts: names that the server goes by; None for any. A page elsewhere that has its own name point here (DNS
            rebinding) is stopped by this.
        on_request: called with the route, status and seconds of each request.
        open_paths: what needs no token, besides ``/healthz``.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        token: str | None = None,
        hosts: Collection[str] | None = None,
        on_request: Callable[[str, int, float], None] | None = None,
        open_paths: Collection[str] = (),
    ):
        self.app, self.limits, self.token, self.hosts = app, limits, token, hosts
        self.on_request = on_request
        self.open_paths = {"/healthz", *open_paths}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0
        if head := scope["method"] == "HEAD":  # the routes know GET alone
            scope = {**scope, "method": "GET"}

        async def guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in GUARDS.items():
                    headers.setdefault(name, value)
            elif head:
                message = {**message, "body": b""}
            await send(message)

        try:
            refusal, receive = await self._admit(scope, receive)
            await (refusal or self.app)(scope, receive, guarded)
        except _Gone:
            return
        except Exception:
            log.exception("a request failed")
            if status:
                raise
            await problem("fault", "the server's log says more")(scope, receive, guarded)
        finally:
            if self.on_request is not None and status:
                route = getattr(scope.get("route"), "path", "other")
                self.on_request(route, status, time.perf_counter() - began)

    async def _admit(self, scope: Scope, receive: Receive) -> tuple[Response | None, Receive]:
        headers = Headers(scope=scope)
        if self.hosts is not None and _host(headers.get("host", "")) not in self.hosts:
            return problem("misdirected", f"it is called {' or '.join(sorted(self.hosts))}", headers=_CLOSE), receive
        if self.token is not None and scope["path"] not in self.open_paths and not self._known(headers):
            asks = {"www-authenticate": "Bearer", **_CLOSE}
            return problem("unauthorized", "send the header Authorization: Bearer TOKEN", headers=asks), receive
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                return None, _replay(await self._read(headers, receive), receive)
        except TimeoutError:
            detail = f"all of it must come within {self.limits.body_seconds:g} seconds"
            return problem("too-slow", detail, headers=_CLOSE), receive
        except _TooLarge:
            if "expect" not in headers:  # who sends that waits for a word before the rest
                await self._discard(receive)
            return problem("too-large", f"{self.limits.body:,} bytes are the most", headers=_CLOSE), receive

    def _known(self, headers: Headers) -> bool:
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        assert self.token is not None
        same = hmac.compare_digest(credentials.strip(" \t").encode("latin-1"), self.token.encode("utf-8"))
        return scheme.lower() == "bearer" and same

    async def _read(self, headers: Headers, receive: Receive) -> bytes:
        length = headers.get("content-length", "0")
        if len(length) > 12 or not length.isdecimal() or int(length) > self.limits.body:
            raise _TooLarge
        body = bytearray()
        async for part in _parts(receive):
            body += part
            if len(body) > self.limits.body:
                raise _TooLarge
        return bytes(body)

    async def _discard(self, receive: Receive) -> None:
        """The rest of what is too large, within bounds: a client that is still sending would not read why."""
        left = LINGER * self.limits.body
        with suppress(TimeoutError):
            async with asyncio.timeout(self.limits.body_seconds):
                async for part in _parts(receive):
                    left -= len(part)
                    if left < 0:
                        return


async def _parts(receive: Receive) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        more = message.get("more_body", False)
        yield message.get("body", b"")


_CLOSE = {"connection": "close"}


def _replay(body: bytes, receive: Receive) -> Receive:
    """What was read, once; then whatever else comes."""
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return unread.pop() if unread else await receive()

    return again


def _host(header: str) -> str:
    """``localhost:8000`` → ``localhost``, ``[::1]:8000`` → ``::1``."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()

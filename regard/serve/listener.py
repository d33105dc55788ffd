"""The socket that takes connections: it refuses them before the process has no file descriptors left."""

from __future__ import annotations

import errno
import logging
import socket
import sys
import time
from contextlib import suppress
from functools import cache
from typing import Any

from starlette.responses import Response

from regard.serve.problems import problem

if sys.platform != "win32":
    import resource

log = logging.getLogger("regard.serve")

BACKLOG = 1024
"""Connections that may wait to be accepted; asyncio accepts as many in a row before the first of them is counted."""

RESERVED = 64
"""File descriptors that connections leave to models, data and logs."""


def too_many_connections() -> Response:
    """The answer to whoever comes then."""
    headers = {"connection": "close", "retry-after": "1"}
    return problem("unavailable", "too many connections are open", headers=headers)


@cache
def refusal() -> bytes:
    """The same for connections of which no request is read."""
    response = too_many_connections()
    head = b"".join(b"%s: %s\r\n" % header for header in response.raw_headers)
    return b"HTTP/1.1 503 Service Unavailable\r\n%s\r\n%s" % (head, bytes(response.body))


class Listener(socket.socket):
    """Refuses connections while few file descriptors are left, and logs only the first refusal.

    asyncio would accept until there are none, and then log a thousand errors a second.
    """

    _logged = False

    @classmethod
    def at(cls, host: str, port: int) -> Listener:
        """Listening there; an OSError if it cannot."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return cls(fileno=socket.create_server((host, port), family=family, backlog=BACKLOG).detach())

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection; where it is refused an error after which asyncio tries again."""
        try:
            connection, address = super().accept()
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            self._log_once()
            time.sleep(0.1)  # the listener stays readable: without a pause the event loop would spin
            raise BlockingIOError from None
        limit = _descriptor_limit()
        if connection.fileno() < limit - min(RESERVED, limit // 4):  # the kernel gives the lowest number that is free
            return connection, address
        self._log_once()
        _refuse(connection)
        raise ConnectionAbortedError

    def _log_once(self) -> None:
        if not self._logged:
            self._logged = True
            message = "connections are refused: nearly all of %d file descriptors are open (this is logged once)"
            log.warning(message, _descriptor_limit())


def _refuse(connection: socket.socket) -> None:
    """Say why and close, without waiting for anything."""
    with connection, suppress(OSError):
        connection.setblocking(False)
        with suppress(BlockingIOError):
            connection.recv(65536)  # closing a socket with unread data resets it, and the client would not see why
        connection.send(refusal())


def _descriptor_limit() -> int:
    """How many file descriptors this process may have open."""
    if sys.platform == "win32":
        return sys.maxsize
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit(connections: int) -> None:
    """Raise the soft limit to what N connections need, as far as the hard limit allows."""
    needed = connections + BACKLOG + RESERVED
    if sys.platform != "win32" and _descriptor_limit() < needed:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with suppress(ValueError, OSError):  # some systems allow less than they say
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))

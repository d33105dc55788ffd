"""Errors as data (RFC 9457, ``application/problem+json``): a program reads ``type``, a person ``detail``.

What a client sent is never repeated in an error, but for the names of its own fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

MEDIA_TYPE = "application/problem+json"


class _Kind(NamedTuple):
    status: int
    title: str


KINDS = {
    "malformed": _Kind(400, "The request cannot be read"),
    "unauthorized": _Kind(401, "A token is needed"),
    "not-found": _Kind(404, "There is no such thing here"),
    "not-allowed": _Kind(405, "This cannot be done here"),
    "too-slow": _Kind(408, "The request came too slowly"),
    "too-large": _Kind(413, "The request is too large"),
    "not-json": _Kind(415, "The body is not declared to be JSON"),
    "misdirected": _Kind(421, "This server goes by another name"),
    "invalid": _Kind(422, "The question does not fit its schema"),
    "unanswerable": _Kind(422, "The question has no answer"),
    "busy": _Kind(429, "Too many questions are waiting"),
    "fault": _Kind(500, "A fault of the server's own"),
    "unavailable": _Kind(503, "The server takes no questions now"),
    "timeout": _Kind(504, "The answer took too long"),
}
_BY_STATUS = {kind.status: name for name, kind in reversed(KINDS.items())}


class FieldError(BaseModel):
    """What is wrong with one field of a question."""

    where: str
    detail: str


class ProblemDetails(BaseModel):
    """What went wrong."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldError] = []


def problem(
    kind: str, detail: str, *, errors: Sequence[FieldError] = (), headers: Mapping[str, str] | None = None
) -> Response:
    """The response that says so."""
    status, title = KINDS[kind]
    details = ProblemDetails(type=f"urn:regard:{kind}", title=title, status=status, detail=detail, errors=list(errors))
    # ASCII: half a surrogate pair, which the name of a field may hold, cannot be written as UTF-8.
    return Response(json.dumps(details.model_dump()), status, headers, media_type=MEDIA_TYPE)


def documented(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """For the ``responses`` of a route: the OpenAPI of these problems."""
    titles: dict[int, list[str]] = {}
    for kind in kinds:
        titles.setdefault(KINDS[kind].status, []).append(KINDS[kind].title)
    schema = {"$ref": "#/components/schemas/ProblemDetails"}
    content = {MEDIA_TYPE: {"schema": schema}}
    return {status: {"description": " / ".join(of_status), "content": content} for status, of_status in titles.items()}


async def refused(request: Request, error: Exception) -> Response:
    """What Starlette refused: a wrong method, a body that is not JSON."""
    assert isinstance(error, HTTPException)
    kind, headers = _BY_STATUS.get(error.status_code, "malformed"), Headers(error.headers or {})
    details = {
        "not-allowed": f"only {headers.get('allow', 'other methods')} can be",
        "malformed": "the body must be JSON as RFC 8259 has it, not nested too deep",
    }
    return problem(kind, details.get(kind, KINDS[kind].title), headers=headers)


async def invalid(request: Request, error: Exception) -> Response:
    """What does not fit the schema of a question."""
    assert isinstance(error, RequestValidationError)
    if isinstance(error.body, bytes):  # FastAPI parses only what is declared to be JSON
        fault = "says that the body is something else" if "content-type" in request.headers else "is missing"
        return problem("not-json", f"the header Content-Type {fault}; send Content-Type: application/json")
    faults = error.errors()
    if any(entry["type"] == "json_invalid" for entry in faults):
        return problem("malformed", "the body must be JSON as RFC 8259 has it")
    errors = [FieldError(where=_place(entry["loc"]), detail=entry["msg"][:200]) for entry in faults[:20]]
    return problem("invalid", "; ".join(f"{entry.where}: {entry.detail}" for entry in errors[:3]), errors=errors)


def _place(parts: Sequence[Any]) -> str:
    """``("body", "story", 3)`` → ``story.3``."""
    return ".".join(str(part)[:50] for part in parts[1:][:10]) or "the body"

"""The API as an ASGI application.

    app = create(["translate-en-es", "runs/translate"])          # uvicorn.run(app), or regard.serve.server.run(app)

Every model has a route of its own, so that ``/openapi.json`` tells what its questions and answers are. What a kind of
model takes and gives is its card's business (``cards/``); here are the routes and the pages, in ``gate`` who may come
in, in ``batching`` who answers, in ``problems`` what an error looks like.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Request, Response
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import Route

from regard import __version__, registry
from regard.serve import principle
from regard.serve.batching import Batcher, Closed, Fault, Full
from regard.serve.cards import About, Card, Problem, deal
from regard.serve.gate import Gate
from regard.serve.limits import Limits
from regard.serve.problems import ProblemDetails, documented, invalid, problem, refused
from regard.trained import Trained
from regard.views.page import VIEWER

ANSWERING = ("malformed", "too-slow", "too-large", "invalid", "unanswerable", "busy", "fault", "unavailable", "timeout")


class Health(BaseModel):
    """Is the server able to answer?"""

    status: Literal["ok", "failing"]
    models: int


def create(
    models: Sequence[Card | Trained | str | Path],
    *,
    limits: Limits | None = None,
    token: str | None = None,
    hosts: Collection[str] | None = None,
    explorer: bool = False,
) -> FastAPI:
    """The application.

    Args:
        models: shipped models by name, folders of runs, or systems that are already open.
        limits: how much clients may ask for.
        token: what they must send as ``Authorization: Bearer TOKEN``; nothing if None. Pages need none.
        hosts: the names that the server goes by, if only these are to be answered to.
        explorer: serve the pages too.
    """
    limits = limits or Limits()
    if token is not None and not token.strip():
        raise ValueError("the token is empty")
    cards = _named([open_card(each) for each in models])
    meter = Meter()
    batchers: dict[str, Batcher] = {}

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        warming = asyncio.create_task(_warm(cards, batchers))
        if not explorer:  # a person who explores would rather see the page at once
            await warming
        yield
        warming.cancel()
        for batcher in batchers.values():
            await asyncio.to_thread(batcher.close, limits.seconds)

    app = FastAPI(
        title="regard",
        version=__version__,
        summary="Trained attention models: ask, and see where they looked.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        dependencies=[] if token is None else [Depends(HTTPBearer(auto_error=False))],
        responses=documented(*([] if token is None else ["unauthorized"]), *([] if hosts is None else ["misdirected"])),
        exception_handlers={HTTPException: refused, RequestValidationError: invalid},
    )
    pages = _pages() if explorer else {}
    app.add_middleware(Gate, limits=limits, token=token, hosts=hosts, seen=meter.request, open_paths=tuple(pages))

    def add(path: str, name: str, about: str, who: Any, answer: Callable[[Sequence[Any]], Sequence[Any]]) -> None:
        """A route that asks ``answer``, with the questions of all its clients together."""
        batcher = Batcher(answer, most=limits.batch, waiting=limits.queue, name=path, seen=meter.batches(path))
        batchers[path] = batcher
        meter.watch(path, batcher)

        async def ask(question: Any) -> Response:
            return await _answered(batcher, question, limits.seconds)

        ask.__annotations__["question"] = who.Question
        app.add_api_route(
            path,
            ask,
            methods=["POST"],
            response_model=who.Answer,
            responses=documented(*ANSWERING),
            operation_id=name,
            summary=about,
        )

    abouts = {card.name: card.about() for card in cards}

    @app.get("/api/models", summary="All models", operation_id="models")
    async def models_() -> list[About]:
        return list(abouts.values())

    @app.get(
        "/api/models/{name}",
        summary="One model",
        operation_id="model",
        responses=documented("not-found", "invalid"),
    )
    async def model(name: Annotated[str, InPath(max_length=200)]) -> About:
        if name not in abouts:
            raise HTTPException(404)
        return abouts[name]

    for card in cards:
        add(_path(card), f"answer-{card.name}", abouts[card.name].title, card, card.answer)
    add("/api/weigh", "weigh", "Weights of a query's keys by every score", principle, principle.weigh)

    @app.get("/api/principle", summary="What each system takes for query, key and value", operation_id="principle")
    def table() -> principle.Principle:
        return principle.table()

    @app.get("/healthz", operation_id="health", responses={503: {"model": Health}})
    async def health(response: Response) -> Health:
        alive = all(batcher.alive for batcher in batchers.values())
        response.status_code = 200 if alive else 503
        return Health(status="ok" if alive else "failing", models=len(cards))

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(generate_latest(meter.registry), media_type=CONTENT_TYPE_LATEST)

    for path, page in pages.items():
        app.router.routes.append(Route(path, page, methods=["GET"]))
    _describe_problems(app)
    return app


def at_hand(runs: Path = Path("runs")) -> tuple[list[Card], dict[str, str]]:
    """The cards of all shipped models and of the runs in a folder; and why others have none."""
    cards, others = [], {}
    folders = [str(path.parent) for path in sorted(runs.glob("*/run.json"))]
    for where in [*registry.shipped(), *folders]:
        try:
            cards.append(open_card(where))
        except (ValueError, OSError, ModuleNotFoundError) as error:
            others[where] = str(error)
    return cards, others


async def _answered(batcher: Batcher, question: Any, seconds: float) -> Response:
    try:
        answer = await batcher.ask(question, seconds)
    except Full as full:
        told = "come back in a while; the header Retry-After says when"
        return problem("busy", told, headers={"retry-after": str(max(1, math.ceil(full.seconds)))})
    except Closed:
        return problem("unavailable", "the server is shutting down", headers={"retry-after": "10"})
    except TimeoutError:
        return problem("timeout", f"there was no answer within {seconds:g} seconds")
    except Fault:
        return problem("fault", "the server's log says more")
    if isinstance(answer, Problem):
        return problem("unanswerable", answer.detail)
    return Response(answer.model_dump_json(), media_type="application/json")


async def _warm(cards: Sequence[Card], batchers: Mapping[str, Batcher]) -> None:
    """Ask everyone something: first answers take long, since kernels are compiled for them."""
    for card in cards:
        for example in card.examples()[:1]:
            with suppress(Full, Closed, Fault):
                await batchers[_path(card)].ask(example)


def _path(card: Card) -> str:
    return f"/api/models/{card.name}/answer"


def open_card(model: Card | Trained | str | Path) -> Card:
    """The card of a shipped model, of a run, or of what is already open."""
    if isinstance(model, Card):
        return model
    return deal(model if isinstance(model, Trained) else Trained.open(model))


def _named(cards: Sequence[Card]) -> Sequence[Card]:
    """Each with a name of its own: a second ``translate`` is called ``translate-2``."""
    taken: set[str] = set()
    for card in cards:
        name, number = card.name, 2
        while card.name in taken:
            card.name, number = f"{name}-{number}", number + 1
        taken.add(card.name)
    return cards


def _describe_problems(app: FastAPI) -> None:
    """The schema that :func:`documented` points to."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        schema = plain()
        made = ProblemDetails.model_json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
        inner = made.pop("$defs", {})
        schema.setdefault("components", {}).setdefault("schemas", {}).update({**inner, "ProblemDetails": made})
        return schema

    app.openapi = openapi  # type: ignore[method-assign]


# ---------------------------------------------------------------------------------------------------------------------
# Pages

PAGE = Path(__file__).with_name("page")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}


def _pages() -> dict[str, Callable[[Request], Response]]:
    """Path → the file, read now: what a client sends never becomes the name of a file."""
    found = {"/": _page(PAGE / "index.html")}
    for prefix, folder in (("/page", PAGE), ("/viewer", VIEWER)):
        for file in sorted(folder.rglob("*")):
            if file.suffix in TYPES and file.suffix != ".html":
                found[f"{prefix}/{file.relative_to(folder).as_posix()}"] = _page(file)
    return found


def _page(file: Path) -> Callable[[Request], Response]:
    data, media_type = file.read_bytes(), TYPES[file.suffix]
    tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    headers = {"etag": tag, "cache-control": "no-cache", "content-security-policy": POLICY}

    def page(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(data, headers=headers, media_type=media_type)

    return page


# ---------------------------------------------------------------------------------------------------------------------
# Metrics


class Meter:
    """What Prometheus sees."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        ours: dict[str, Any] = {"namespace": "regard", "registry": self.registry}
        seconds = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
        self._requests = Counter(
            "requests", "Requests, by what was asked and how it ended.", ("path", "status"), **ours
        )
        self._latency = Histogram("request_seconds", "From request to answer.", ("path",), buckets=seconds, **ours)
        sizes = (1, 2, 4, 8, 16, 32, 64, 128)
        self._sizes = Histogram("batch_questions", "Questions answered together.", ("path",), buckets=sizes, **ours)
        self._paces = Histogram("batch_seconds", "Time of a batch.", ("path",), buckets=seconds, **ours)
        self._waiting = Gauge("waiting_questions", "Questions that wait now.", ("path",), **ours)

    def request(self, path: str, status: int, seconds: float) -> None:
        """One more request."""
        self._requests.labels(path, str(status)).inc()
        self._latency.labels(path).observe(seconds)

    def batches(self, path: str) -> Callable[[int, float], None]:
        """For ``Batcher(seen=…)``."""
        sizes, paces = self._sizes.labels(path), self._paces.labels(path)

        def seen(size: int, seconds: float) -> None:
            sizes.observe(size)
            paces.observe(seconds)

        return seen

    def watch(self, path: str, batcher: Batcher) -> None:
        """Read the length of its queue whenever metrics are."""
        self._waiting.labels(path).set_function(batcher.__len__)

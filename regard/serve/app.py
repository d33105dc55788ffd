"""The API as an ASGI application.

    app = create(["translate-en-es", "runs/translate"])          # uvicorn.run(app), or regard.serve.server.run(app)

Every model has a route of its own, so that ``/openapi.json`` tells what its questions and answers are. What a model
takes and gives is in ``card``; here are the routes and the pages, in ``gate`` who may come
in, in ``batching`` who answers, in ``problems`` what an error looks like.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
import shlex
import textwrap
from collections import Counter as Counting
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from difflib import SequenceMatcher
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
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from regard import __version__, registry
from regard.predictors.predictor import Predictor
from regard.serve import lecture, lessons, playground, principle, sources
from regard.serve.batching import Batcher, Closed, Fault, Full
from regard.serve.card import About, Card, Problem
from regard.serve.gate import Gate
from regard.serve.lessons.lesson import LessonCard
from regard.serve.limits import Limits
from regard.serve.problems import ProblemDetails, documented, invalid, problem, refused
from regard.tasks.task import FAMILIES
from regard.views.page import VIEWER

ANSWERING = (
    *("malformed", "too-slow", "too-large", "not-json", "invalid", "unanswerable"),
    *("busy", "fault", "unavailable", "timeout"),
)

LISTED = 20
"""Names of models in an error."""

CLIENT_LEFT = 499
"""Nobody reads this status but the metrics; nginx uses the same."""


class Health(BaseModel):
    """Is the server able to answer?"""

    status: Literal["ok", "failing"]
    models: int


def create(
    models: Sequence[Card | Predictor | str | Path],
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
        token: what they must send as ``Authorization: Bearer TOKEN``, printable ASCII without spaces; nothing if None.
            Pages need none.
        hosts: the names that the server goes by, if only these are to be answered to.
        explorer: serve the pages too.
    """
    limits = limits or Limits()
    if token is not None and not re.fullmatch(r"[!-~]+", token):
        fault = "the token is empty" if not token else "the token has spaces or characters that are not ASCII"
        raise ValueError(f"{fault}; openssl rand -hex 16 prints a good one")
    cards = _named([open_card(source) for source in models])
    meter = Meter()
    batchers: dict[str, Batcher] = {}

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        warming = asyncio.create_task(_warm(cards, batchers))
        if not explorer:  # a person who explores would rather see the page at once
            await warming
        yield
        warming.cancel()
        await asyncio.gather(*(asyncio.to_thread(running.close, limits.seconds) for running in batchers.values()))

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
        exception_handlers={
            404: _not_found([card.name for card in cards]),
            HTTPException: refused,
            RequestValidationError: invalid,
        },
    )
    pages = _pages() if explorer else {}
    app.add_middleware(Gate, limits=limits, token=token, hosts=hosts, on_request=meter.request, open_paths=tuple(pages))

    def add(path: str, name: str, summary: str, wire: Any, answer: Callable[[Sequence[Any]], Sequence[Any]]) -> None:
        """A route whose questions (``wire.Question``) are answered together, those of all its clients."""
        batcher = Batcher(
            answer, max_batch=limits.batch, max_waiting=limits.queue, name=path, on_batch=meter.batches(path)
        )
        batchers[path] = batcher
        meter.watch(path, batcher)

        async def ask(question: Any, request: Request) -> Response:
            return await _unless_left(request, _answered(batcher, question, limits.seconds))

        ask.__annotations__["question"] = wire.Question
        app.add_api_route(
            path,
            ask,
            methods=["POST"],
            response_model=wire.Answer,
            responses=documented(*ANSWERING),
            operation_id=name,
            summary=summary,
        )

    abouts = {card.name: about for card, about in zip(cards, _told_apart([card.about() for card in cards]))}

    @app.get("/api/models", summary="All models", operation_id="models")
    async def models_() -> list[About]:
        return sorted(abouts.values(), key=lambda about: (*FAMILIES, about.family).index(about.family))

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
        add(card.path, f"answer-{card.name}", abouts[card.name].title, card, card.answer)
    add("/api/weigh", "weigh", "Weights of a query's keys by every score", playground, playground.weigh)

    @app.get("/api/principle", summary="What each system takes for query, key and value", operation_id="principle")
    def table() -> principle.Principle:
        return principle.table()

    if explorer:
        taught = [LessonCard(lesson) for lesson in lessons.every()]
        for card in taught:
            add(card.path, f"lesson-{card.name}", card.predictor.title, card, card.answer)

        @app.get("/api/lessons", summary="Pages that need no trained model", operation_id="lessons")
        async def lessons_() -> list[About]:
            return [card.about() for card in taught]

        @app.get("/api/lecture", summary="All pages in the order of the lectures", operation_id="lecture")
        async def lecture_() -> list[lecture.Slide]:
            return lecture.slides(list(abouts.values()), [card.predictor for card in taught])

    @app.get("/healthz", operation_id="health", responses={503: {"model": Health}})
    async def health(response: Response) -> Health:
        alive = all(batcher.alive for batcher in batchers.values())
        response.status_code = 200 if alive else 503
        return Health(status="ok" if alive else "failing", models=len(cards))

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(generate_latest(meter.registry), media_type=CONTENT_TYPE_LATEST)

    directory = _directory(list(abouts.values()), token is not None)
    for path in ("/docs",) if explorer else ("/", "/docs"):
        app.router.routes.append(Route(path, lambda request: PlainTextResponse(directory), methods=["GET"]))
    for path, page in pages.items():
        app.router.routes.append(Route(path, page, methods=["GET"]))
    _describe_problems(app)
    return app


def at_hand(runs: Path = Path("runs"), *, trust: bool = False) -> tuple[list[Card], dict[str, str]]:
    """The cards of all shipped models and of the runs in a folder; and why others have none."""
    cards, failures = [], {}
    folders = [str(path.parent) for path in sorted(runs.glob("*/run.json"))]
    for where in [*registry.shipped(), *folders]:
        try:
            card = open_card(where, trust=trust)
            card.about()  # needs the data of some
            cards.append(card)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a folder may hold anything, and a Rust panic of tokenizers is no Exception
            failures[where] = _reason(error)
    return cards, failures


def _reason(error: BaseException) -> str:
    """In one line; an error that was not written for people to read is named."""
    text = " ".join(str(error).split())
    readable = text and isinstance(error, ValueError | OSError | ModuleNotFoundError)
    return textwrap.shorten(text if readable else f"{type(error).__name__}: {text}", 400, placeholder=" …")


async def _unless_left(request: Request, answer: Coroutine[Any, Any, Response]) -> Response:
    """The answer, or its computation cancelled as soon as the client closes the connection."""
    answering, leaving = asyncio.create_task(answer), asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
        return answering.result() if answering.done() else Response(status_code=CLIENT_LEFT)
    finally:
        answering.cancel()
        leaving.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _answered(batcher: Batcher, question: Any, seconds: float) -> Response:
    try:
        answer = await batcher.ask(question, seconds)
    except Full as full:
        detail = "come back in a while; the header Retry-After says when"
        return problem("busy", detail, headers={"retry-after": str(max(1, math.ceil(full.seconds)))})
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
                await batchers[card.path].ask(example)


def open_card(model: Card | Predictor | str | Path, *, trust: bool = False) -> Card:
    """The card of a shipped model, of a run, or of what is already open."""
    if isinstance(model, Card):
        return model
    return Card(model if isinstance(model, Predictor) else Predictor.open(model, trust=trust))


def _named(cards: Sequence[Card]) -> Sequence[Card]:
    """Each with a name of its own: a second ``translate`` is called ``translate-2``."""
    used: set[str] = set()
    for card in cards:
        name, number = card.name, 2
        while card.name in used:
            card.name, number = f"{name}-{number}", number + 1
        used.add(card.name)
    return cards


def _told_apart(abouts: Sequence[About]) -> list[About]:
    """Titles that several have are followed by the system or, where that is the same too, by the name."""
    titles = Counting(about.title for about in abouts)
    pairs = Counting((about.title, about.system) for about in abouts)
    distinct = []
    for about in abouts:
        if titles[about.title] > 1:
            alone = pairs[about.title, about.system] == 1
            suffix = principle.title_of(about.sentence, about.paper) if alone else about.name
            about = about.model_copy(update={"title": f"{about.title}: {suffix}"})
        distinct.append(about)
    return distinct


def _not_found(models: Sequence[str]) -> Callable[[Request, Exception], Coroutine[Any, Any, Response]]:
    """A handler that tells whoever asked for an unknown model which there are, the nearest names first."""

    async def handler(request: Request, error: Exception) -> Response:
        model = re.match(r"/api/models/([^/]{1,200})(/answer)?$", request.scope["path"])
        if model is None:
            return problem("not-found", "see / and /openapi.json for what there is")
        nearest = sorted(models, key=lambda name: -SequenceMatcher(None, model[1].lower(), name.lower()).ratio())
        more = "" if len(models) <= LISTED else f" and {len(models) - LISTED} more, see /api/models"
        return problem("not-found", f"no model has this name; there are {', '.join(nearest[:LISTED]) or 'none'}{more}")

    return handler


def _directory(abouts: Sequence[About], token: bool) -> str:
    """Where things are, for people who open the server's address in a browser."""
    width = max((len(about.name) for about in abouts), default=0)
    examples = {about.name: json.dumps(example) for about in abouts for example in about.examples[:1]}
    name = min(examples, key=lambda name: len(examples[name]), default="NAME")
    send = ["Content-Type: application/json", *(["Authorization: Bearer TOKEN"] if token else [])]
    command = [f"curl -s ADDRESS/api/models/{name}/answer", *(f"-H '{header}'" for header in send)]
    return "\n".join(
        [
            f"regard {__version__}: trained attention models over HTTP",
            "",
            *(f"  {about.name:{width}}  {about.title}" for about in abouts),
            "",
            f"  {' '.join(command)} -d {shlex.quote(examples.get(name, 'QUESTION'))}",
            "",
            "GET  /api/models              all models, with questions to try",
            "POST /api/models/NAME/answer  ask one of them",
            "GET  /openapi.json            the fields of all questions and answers",
            "GET  /healthz                 is every model able to answer?",
            "GET  /metrics                 for Prometheus",
            "",
            "docs/serving.md tells more: limits, errors, tokens.",
            "",
        ]
    )


def _describe_problems(app: FastAPI) -> None:
    """The schema that :func:`documented` points to."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        schema = plain()
        details = ProblemDetails.model_json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
        inner = details.pop("$defs", {})
        schema.setdefault("components", {}).setdefault("schemas", {}).update({**inner, "ProblemDetails": details})
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
    ".py": "text/plain",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}


def _pages() -> dict[str, Callable[[Request], Response]]:
    """Path → the file, read now: what a client sends never becomes the name of a file."""
    pages = {"/": _page(PAGE / "index.html")}
    for prefix, folder in (("/page", PAGE), ("/viewer", VIEWER)):
        for file in sorted(folder.rglob("*")):
            if file.suffix in TYPES and file.suffix != ".html":
                pages[f"{prefix}/{file.relative_to(folder).as_posix()}"] = _page(file)
    return pages | {f"/{path}": _page(file) for path, file in sources.every().items()}


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
        options: dict[str, Any] = {"namespace": "regard", "registry": self.registry}
        seconds = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
        self._requests = Counter("requests", "Requests, by path and status.", ("path", "status"), **options)
        self._latency = Histogram("request_seconds", "From request to answer.", ("path",), buckets=seconds, **options)
        sizes = (1, 2, 4, 8, 16, 32, 64, 128)
        self._sizes = Histogram("batch_questions", "Questions answered together.", ("path",), buckets=sizes, **options)
        self._paces = Histogram("batch_seconds", "Time of a batch.", ("path",), buckets=seconds, **options)
        self._waiting = Gauge("waiting_questions", "Questions that wait now.", ("path",), **options)

    def request(self, path: str, status: int, seconds: float) -> None:
        """One more request."""
        self._requests.labels(path, str(status)).inc()
        self._latency.labels(path).observe(seconds)

    def batches(self, path: str) -> Callable[[int, float], None]:
        """For ``Batcher(on_batch=…)``."""
        sizes, paces = self._sizes.labels(path), self._paces.labels(path)

        def on_batch(size: int, seconds: float) -> None:
            sizes.observe(size)
            paces.observe(seconds)

        return on_batch

    def watch(self, path: str, batcher: Batcher) -> None:
        """Read the length of its queue whenever metrics are."""
        self._waiting.labels(path).set_function(batcher.__len__)

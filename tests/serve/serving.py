"""What the tests of the server share: a small translator, a server in a thread, a client that can misbehave."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass

from regard import registry, runs, training
from regard.serve import server
from regard.serve.card import Card

EOS = 2
SIZES = ["train_size=200", "valid_size=50", "test_size=50"]
CHANGES = ["embedding=8", "system.hidden=8", "attention=8", "maxout=8", "decode.size=2", "decode.ratio=0.2", *SIZES]


def toy(folder):
    """The folder of a run that was never trained: it answers, and nobody reads what."""
    recipe, task, model = runs.assemble(registry.recipe("translate-toy").change(CHANGES), seed=0)
    model.output.bias.data[EOS] = -3.0  # so that no answer is empty
    training.Run.create(folder, recipe.toml(), task.save).write_model("best", model.state_dict())
    return folder


class Stuck:
    """A card that answers when it is let go, or fails."""

    def __init__(self, trained):
        self.card, self.go, self.began, self.error = Card(trained), threading.Event(), threading.Event(), None
        self.questions = []
        self.card.answer, self.plain = self.answer, self.card.answer

    def answer(self, questions):
        self.questions += questions
        self.began.set()
        assert self.go.wait(60)
        if self.error is not None:
            raise self.error
        return self.plain(questions)


@contextmanager
def running(app, limits):
    """The application behind a real socket; yields the server, with its port."""
    with server.listen("127.0.0.1", 0) as listener:
        it = server.server(app, limits)
        it.port = listener.getsockname()[1]
        thread = threading.Thread(target=it.run, args=([listener],), daemon=True)
        thread.start()
        try:
            while not it.started and thread.is_alive():
                time.sleep(0.02)
            yield it
        finally:
            it.should_exit = True
            thread.join(30)
            assert not thread.is_alive()


@dataclass
class Reply:
    """What came back; status 0 if the connection was cut off."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self):
        return json.loads(self.body)


def request(path, body=b"", *, method="POST", headers=()):
    """The bytes of a request."""
    told = {"Host": "localhost", "Content-Type": "application/json", "Content-Length": len(body), **dict(headers)}
    head = "".join(f"{name}: {value}\r\n" for name, value in told.items() if value is not None)
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


async def send(port, data, *, pause=0.0, step=1 << 16, patience=120.0):
    """Write raw bytes, ``step`` at a time with pauses between, and read one response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def write():
        for start in range(0, len(data), step):
            writer.write(data[start : start + step])
            await writer.drain()
            if pause:
                await asyncio.sleep(pause)

    writing = asyncio.create_task(write())
    try:
        return await asyncio.wait_for(_reply(reader), patience)
    except (asyncio.IncompleteReadError, ConnectionError):
        return Reply(0, {}, b"")
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        writer.close()


async def _reply(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Reply(int(head[0].split()[1]), headers, body)


def ask(port, path, question, **options):
    """The reply to a question, asked in the proper way."""
    return send(port, request(path, json.dumps(question).encode()), **options)

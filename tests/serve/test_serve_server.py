"""The server on a real socket: clients that are slow, greedy, many or hostile, and the real command line."""

import asyncio
import errno
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time

import pytest
from serving import Stuck, ask, request, running, send, toy

from regard.predictors.predictor import Predictor
from regard.serve.app import create
from regard.serve.limits import Limits
from regard.serve.server import listen

ANSWER = "/api/models/toy/answer"
QUESTION = {"text": "the cat sleeps"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return toy(tmp_path_factory.mktemp("runs") / "toy")


@pytest.fixture(scope="module")
def impatient(hurried):
    """The port of a server with short times and few connections."""
    return hurried.port


@pytest.fixture(scope="module")
def hurried(run):
    limits = Limits(seconds=600, head_seconds=1.0, body_seconds=1.0, idle_seconds=1.0, connections=20)
    with running(create([Predictor.open(run)], limits=limits), limits) as server:
        yield server


async def healthy(port):
    """Is it answering, and with a fresh connection?"""
    for _ in range(100):
        reply = await send(port, request("/healthz", method="GET"))
        if reply.status == 200:
            return True
        await asyncio.sleep(0.1)  # others' connections may have to end first
    return False


def test_a_head_that_never_ends_is_cut_off(impatient):
    async def main():
        stalled = await asyncio.gather(
            send(impatient, b""),
            send(impatient, b"POST /api/weigh HTTP/1.1\r\nHost: x\r\n"),
            send(impatient, request(ANSWER, method="GET"), step=1, pause=0.2),
        )
        assert [reply.status for reply in stalled] == [0, 0, 0]
        assert await healthy(impatient)

    asyncio.run(main())


def test_a_body_that_never_ends_is_refused(impatient):
    async def main():
        body = json.dumps(QUESTION).encode()
        whole = request(ANSWER, body)
        half = await send(impatient, whole[:-5])
        drip = await send(impatient, request(ANSWER, body + b" " * 1000), step=50, pause=0.2)
        for reply in (half, drip):
            assert reply.status == 408 and reply.json()["type"] == "urn:regard:too-slow"
            assert reply.headers["connection"] == "close"
        assert await healthy(impatient)

    asyncio.run(main())


def test_a_client_that_takes_no_answers_is_cut_off(hurried):
    async def main():
        _, writer = await asyncio.open_connection("127.0.0.1", hurried.port, limit=1024)
        writer.write(request("/openapi.json", method="GET") * 2000)
        for _ in range(1200):
            await asyncio.sleep(0.1)
            if not hurried.server_state.connections:
                break
        else:
            pytest.fail("the server waits for ever")
        writer.transport.abort()
        assert await healthy(hurried.port)

    asyncio.run(main())


def test_questions_of_clients_who_left_are_not_answered(run):
    stuck, limits = Stuck(Predictor.open(run)), Limits(batch=1, queue=3, seconds=600)
    stuck.card.examples = list  # no question to warm up with

    def question(text):
        return request(ANSWER, json.dumps({"text": text}).encode())

    async def main(port):
        first = asyncio.create_task(send(port, question("first")))
        assert await asyncio.to_thread(stuck.began.wait, 60)
        for _ in range(3):  # more than may wait at once
            leaving = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            for _, writer in leaving:
                writer.write(question("left"))
            await waiting(port, 3)
            for _, writer in leaving:
                writer.close()
            await waiting(port, 0)
        staying = asyncio.create_task(send(port, question("stayed")))
        await waiting(port, 1)
        stuck.go.set()
        assert [reply.status for reply in await asyncio.gather(first, staying)] == [200, 200]
        assert [each.text for each in stuck.questions] == ["first", "stayed"]
        return (await send(port, request("/metrics", method="GET"))).body.decode()

    async def waiting(port, count):
        gauge = f'regard_waiting_questions{{path="{ANSWER}"}} {count}.0'.encode()
        for _ in range(600):
            if gauge in (await send(port, request("/metrics", method="GET"))).body:
                return
            await asyncio.sleep(0.02)
        pytest.fail(f"there are never {count} questions waiting")

    with running(create([stuck.card], limits=limits), limits) as server:
        metrics = asyncio.run(main(server.port))
    assert f'regard_requests_total{{path="{ANSWER}",status="499"}} 9.0' in metrics


def test_nothing_but_the_head_answers_head(impatient):
    async def main():
        reader, writer = await asyncio.open_connection("127.0.0.1", impatient)
        writer.write(request("/healthz", method="HEAD") + request("/healthz", method="GET"))
        for _ in range(2):  # the second head follows the first at once
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
        writer.close()

    asyncio.run(main())


def test_too_many_connections_are_told_so(impatient):
    async def main():
        assert await healthy(impatient)
        held = [await asyncio.open_connection("127.0.0.1", impatient) for _ in range(20)]
        reply = await send(impatient, request("/healthz", method="GET"))
        assert reply.status == 503 and reply.json()["type"] == "urn:regard:unavailable"
        held += [await asyncio.open_connection("127.0.0.1", impatient) for _ in range(20)]
        reply = await send(impatient, b"")  # above twice as many no request is waited for
        assert reply.status == 503 and reply.json()["type"] == "urn:regard:unavailable"
        for _, writer in held:
            writer.close()
        assert await healthy(impatient)

    asyncio.run(main())


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),  # TLS
        b"hello\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n\r\n",  # no host
        b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 1_000_000 + b"\r\n\r\n",
        b"POST /api/weigh HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST /api/weigh HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/weigh HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused(impatient, data):
    async def main():
        reply = await send(impatient, data)
        assert reply.status in (0, 400, 501)
        if reply.status:
            assert reply.headers["content-type"] == "application/problem+json"
        assert await healthy(impatient)

    asyncio.run(main())


# ---------------------------------------------------------------------------------------------------------------------
# The real command line


def start(*arguments):
    """`regard serve` on a free port: the process, and the port."""
    command = [sys.executable, "-m", "regard.cli", "serve", *map(str, arguments), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    if not line.startswith("serving at http://127.0.0.1:"):
        process.kill()
        raise AssertionError(f"{line}{process.communicate()[1]}")
    return process, int(line.rpartition(":")[2])


@pytest.fixture(scope="module")
def many_descriptors():
    """Clients need them too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def served(run, many_descriptors):
    """A server of its own process, under attack for a while; in the end it stops when told to."""
    process, port = start(run, "--queue", "64", "--timeout", "600")
    yield process, port
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGTERM
    assert "Traceback" not in errors and "WARNING" not in errors  # what clients send is not logged


async def megabytes(port):
    reply = await send(port, request("/metrics", method="GET"))
    return float(re.search(rb"^process_resident_memory_bytes (\S+)", reply.body, re.MULTILINE)[1]) / 1e6


def chunked(parts):
    head = request(ANSWER, headers={"Content-Length": None, "Transfer-Encoding": "chunked"})
    return head + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


CORPUS = {
    "10 MB": (request(ANSWER, b'{"text": "' + b"a" * 10_000_000 + b'"}'), {413}),
    "10 MB without a length": (chunked([b"a" * 10_000] * 1000), {413}),
    "40 MB without a length": (chunked([b"a" * 10_000] * 4000), {0, 413}),
    "20,000 small pieces": (chunked([b" "] * 20_000), {400, 408}),
    "a length of many digits": (request(ANSWER, headers={"Content-Length": "9" * 400}), {0, 400, 413}),
    "100,000 tokens": (request(ANSWER, json.dumps({"text": "cat " * 100_000}).encode()), {413}),
    "2,000 letters": (request(ANSWER, json.dumps({"text": "x" * 2000}).encode()), {200, 422}),
    "control characters": (
        request(ANSWER, json.dumps({"text": "".join(map(chr, range(32))) + "\x7f\x9b"}).encode()),
        {200},
    ),
    "marks": (
        request(ANSWER, json.dumps({"text": "<script>alert(1)</script>\u202e\u0301\ufeff{{7*7}}${7*7}"}).encode()),
        {200},
    ),
    "half a character": (request(ANSWER, b'{"text": "\\udfff"}'), {422}),
    "not UTF-8": (request(ANSWER, b'{"text": "\xff"}'), {400}),
    "deep lists": (request(ANSWER, b"[" * 100_000), {400}),
    "deep objects": (request(ANSWER, b'{"text":' * 10_000 + b"1" + b"}" * 10_000), {400}),
    "not a number": (request("/api/weigh", b'{"query": [NaN], "keys": [[1]]}'), {422}),
    "infinity": (request("/api/weigh", b'{"query": [1e999], "keys": [[1]]}'), {422}),
    "a long number": (request("/api/weigh", b'{"query": [' + b"9" * 100_000 + b'], "keys": [[1]]}'), {400, 422}),
    "wrong types": (request(ANSWER, b'{"text": {"$gt": ""}, "nbest": "1; DROP TABLE"}'), {422}),
    "many keys": (request(ANSWER, json.dumps({f"k{i}": i for i in range(6000)}).encode()), {422}),
    "not HTTP": (b"hello\r\n\r\n", {400}),
    "an upgrade": (request("/healthz", method="GET", headers={"Connection": "upgrade", "Upgrade": "websocket"}), {200}),
    "a path": (request("/api/models/..%2f..%2fetc%2fpasswd", method="GET"), {404}),
    "a long path": (request("/api/models/" + "a" * 10_000, method="GET"), {404, 422}),
}


def test_a_hostile_corpus_is_refused_or_answered(served):
    process, port = served

    async def main():
        assert (await ask(port, ANSWER, QUESTION)).status == 200
        before = await megabytes(port)
        for _ in range(2):
            replies = await asyncio.gather(*(send(port, data) for data, _ in CORPUS.values()))
            for (name, (_, expected)), reply in zip(CORPUS.items(), replies, strict=True):
                assert reply.status in expected, f"{name}: {reply}"
                if reply.status >= 400:
                    assert reply.headers["content-type"] == "application/problem+json", name
                    assert len(reply.body) < 5000, name
        assert (await ask(port, ANSWER, QUESTION)).status == 200
        assert await megabytes(port) < before + 100

    asyncio.run(main())
    assert process.poll() is None


def test_five_hundred_clients_at_once_get_their_own_answers(served):
    process, port = served

    async def client(number):
        return await ask(port, ANSWER, {"text": f"the cat client-{number:04d} sleeps"}, patience=600)

    async def main():
        before = await megabytes(port)
        replies = await asyncio.gather(*map(client, range(500)))
        for number, reply in enumerate(replies):
            assert reply.status in (200, 429, 503), reply
            told = set(re.findall(rb"client-\d+", reply.body))
            if reply.status == 200:
                assert told == {b"client-%04d" % number}
                assert reply.json()["pictures"][0]["title"] == f"the cat client-{number:04d} sleeps"
            else:
                assert not told and int(reply.headers["retry-after"]) >= 1
        assert sum(reply.status == 200 for reply in replies) >= 32
        assert (await ask(port, ANSWER, QUESTION)).status == 200
        assert await megabytes(port) < before + 150

    asyncio.run(main())
    assert process.poll() is None


WITH_DESCRIPTORS = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from regard.serve import server
answer = Route("/healthz", lambda request: Response(b"ok"))
server.run(Starlette(routes=[answer]), port=0, ready=lambda url: print(url, flush=True))
"""


@pytest.mark.parametrize(("soft", "hard", "refused"), [(128, 128, True), (128, 4096, False)])
def test_a_flood_of_idle_connections_leaves_descriptors_and_a_short_log(many_descriptors, soft, hard, refused):
    command = [sys.executable, "-c", WITH_DESCRIPTORS, str(soft), str(hard)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    port = int(process.stdout.readline().rpartition(":")[2])

    async def main():
        flood = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", port) for _ in range(400)))
        statuses = await asyncio.gather(*(status(*connection) for connection in flood))
        for _, writer in flood:
            writer.close()
        assert await healthy(port)
        return statuses

    async def status(reader, writer):
        try:
            line = await asyncio.wait_for(reader.readline(), 1)
        except TimeoutError:  # not refused
            writer.write(request("/healthz", method="GET"))
            line = await asyncio.wait_for(reader.readline(), 60)
        return int(line.split()[1])

    try:
        statuses = asyncio.run(main())
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert set(statuses) == ({200, 503} if refused else {200})
    assert len(errors.splitlines()) == refused and ("descriptors" in errors) == refused


def test_no_descriptor_left_at_all_is_logged_once(monkeypatch, caplog):
    def accept(self):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with listen("127.0.0.1", 0) as listener:
        monkeypatch.setattr("socket.socket.accept", accept)
        for _ in range(3):
            with pytest.raises(BlockingIOError):  # on which asyncio waits for the next connection, without a word
                listener.accept()
    assert len(caplog.records) == 1


def test_what_is_under_way_ends_before_the_server_does(run):
    process, port = start(run)

    async def main():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        whole = request(ANSWER, json.dumps(QUESTION).encode())
        writer.write(whole[:-5])
        await writer.drain()
        assert (await send(port, request("/healthz", method="GET"))).status == 200
        process.send_signal(signal.SIGTERM)
        for _ in range(600):  # no new connections …
            try:
                _, other = await asyncio.open_connection("127.0.0.1", port)
                other.close()
                await asyncio.sleep(0.05)
            except ConnectionError:
                break
        else:
            pytest.fail("it still takes connections")
        writer.write(whole[-5:])  # … and yet an answer
        head = await reader.readuntil(b"\r\n")
        writer.close()
        return head

    assert b" 200 " in asyncio.run(main())
    began = time.monotonic()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM and time.monotonic() - began < 30
    assert "Traceback" not in errors


def test_everyone_who_waits_is_answered_before_the_server_ends(run):
    stuck, limits = Stuck(Predictor.open(run)), Limits(batch=1, seconds=600)
    stuck.card.examples = list

    async def main(server):
        asking = [asyncio.create_task(ask(server.port, ANSWER, QUESTION)) for _ in range(4)]
        assert await asyncio.to_thread(stuck.began.wait, 60)
        while len(server.server_state.tasks) < 4:
            await asyncio.sleep(0.02)
        server.should_exit = True
        await asyncio.sleep(0.3)
        stuck.go.set()
        return [reply.status for reply in await asyncio.gather(*asking)]

    with running(create([stuck.card], limits=limits), limits) as server:
        assert asyncio.run(main(server)) == [200, 200, 200, 200]


def test_a_late_question_to_a_server_that_ends_is_told_of_its_timeout(run):
    stuck, limits = Stuck(Predictor.open(run)), Limits(seconds=1.0)
    stuck.card.examples = list

    async def main(server):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        whole = request(ANSWER, json.dumps(QUESTION).encode())
        writer.write(whole[:-5])
        while not server.server_state.tasks:
            await asyncio.sleep(0.02)
        server.should_exit = True
        await asyncio.sleep(0.7)
        writer.write(whole[-5:])
        status = (await reader.readline()).split()[1]
        writer.close()
        stuck.go.set()
        return status

    with running(create([stuck.card], limits=limits), limits) as server:
        assert asyncio.run(main(server)) == b"504"


@pytest.mark.parametrize("closing", ["", "os.close(1)", "sys.stdout.close()", "sys.stdout = None"])
def test_a_closed_stdout_does_not_end_the_server(closing):
    reading, writing = os.pipe()
    os.close(reading)
    told_first = WITH_DESCRIPTORS.replace("print(url", "print(url, file=sys.stderr) or print(url")
    command = [sys.executable, "-c", f"import os, sys\n{closing}\n{told_first}", "1024", "4096"]
    process = subprocess.Popen(command, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    try:
        assert asyncio.run(healthy(int(process.stderr.readline().rpartition(":")[2])))
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM
    assert len(errors.splitlines()) <= 1 and "Traceback" not in errors


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["serve", "translate-en-es", "--host", "0.0.0.0"], "--token"),
        (["explore", "--host", "0.0.0.0"], "--no-token"),
        (["serve", "no-such-run"], "no-such-run"),
    ],
)
def test_bad_commands_end_in_one_line(arguments, told):
    done = subprocess.run(
        [sys.executable, "-m", "regard.cli", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "REGARD_TOKEN": ""},
    )
    assert done.returncode == 2 and told in done.stderr and len(done.stderr.splitlines()) == 1

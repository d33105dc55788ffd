"""The application, asked without a network."""

import asyncio
import json
import os
import re
import shutil
from pathlib import Path

import httpx
import pytest
import torch
from safetensors.torch import save_file
from serving import Stuck, toy

import regard
from regard import normalizers, registry, scores
from regard.predictors.predictor import Predictor
from regard.serve import app as serve_app
from regard.serve import principle
from regard.serve.app import at_hand, create
from regard.serve.batching import Batcher
from regard.serve.card import Card
from regard.serve.lecture import PARTS
from regard.serve.limits import Limits
from regard.serve.playground import NORMALIZERS, SCORES, Question, _score
from regard.serve.problems import KINDS
from regard.tasks.task import VISION

ANSWER = "/api/models/toy/answer"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return Predictor.open(toy(tmp_path_factory.mktemp("runs") / "toy"))


PATIENT = Limits(seconds=600)
"""Tests run on busy machines too."""


@pytest.fixture(scope="module")
def app(trained):
    return create([trained], limits=PATIENT, explorer=True)


class Client:
    """Requests one after the other, from tests that are not coroutines."""

    def __init__(self, app, **options):
        self.app, self.options = app, options

    def __call__(self, method, path, **options):
        async def main():
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost", **self.options) as client:
                return await client.request(method, path, **options)

        return asyncio.run(main())

    def get(self, path, **options):
        return self("GET", path, **options)

    def post(self, path, question=None, **options):
        return self("POST", path, **({"json": question} if question is not None else {}), **options)


@pytest.fixture(scope="module")
def client(app):
    return Client(app)


def is_problem(reply, kind):
    assert reply.headers["content-type"] == "application/problem+json"
    told = reply.json()
    assert told["type"] == f"urn:regard:{kind}" and told["detail"]
    assert reply.status_code == told["status"] == KINDS[kind].status
    return told


def test_models_tell_what_they_are(client):
    (about,) = client.get("/api/models").json()
    assert client.get("/api/models/toy").json() == about
    assert about["name"] == "toy" and about["kind"] == "text" and about["system"] == "rnnsearch"
    assert "1409.0473" in about["paper"] and about["data"] == "generated"
    assert len(about["examples"]) == 3
    for example in about["examples"]:
        assert client.post(ANSWER, example).status_code == 200


def test_the_answer_is_what_python_gives(client, trained):
    text = "the red cat sleeps"
    found = client.post(ANSWER, {"text": text, "nbest": 5}).json()
    best, *others = next(trained.predict([text], nbest=5))
    assert found["text"] == best.text and found["source_words"] == text.split()
    assert [reading["text"] for reading in found["readings"]] == [best.text, *(other.text for other in others)]
    assert found["readings"][0]["alignment"] == best.pharaoh()
    assert found["readings"][0]["score"] == pytest.approx(best.score, abs=1e-4)
    (picture,) = found["pictures"]
    assert picture["kind"] == "alignment" and picture["data"]["columns"] == [*text.split(), "</s>"]
    assert (best.weights.sum(1) + best.end).tolist() == pytest.approx([1.0] * len(best.words), abs=1e-4)
    assert found["readings"][0]["end"] == pytest.approx(best.end.tolist(), abs=1e-4)
    assert len(picture["data"]["readings"]) == len(found["readings"])


def test_a_shipped_model_translates():
    card = Card(Predictor.open("translate-en-es"))
    assert card.about().title == "Translate English into Spanish" and "Vaswani" in card.about().paper
    (found,) = card.answer([card.Question(text="I love coffee.", nbest=3)])
    assert found.text == found.readings[0]["text"] == "Me encanta el café." and len(found.readings) == 3
    scores = [reading["score"] for reading in found.readings]
    assert scores == sorted(scores, reverse=True)
    words = found.readings[0]["words"]
    assert f"{found.source_words.index('coffee')}-{words.index('café')}" in found.readings[0]["alignment"].split()


def test_what_is_not_asked_for_is_not_sent(client):
    found = client.post(ANSWER, {"text": "the cat sleeps", "pictures": False}).json()
    assert found["pictures"] == [] and len(found["readings"]) == 1
    assert client.post(ANSWER, {"text": " \t ", "nbest": 1.0}).json()["text"] == ""


def test_questions_of_all_sorts_are_answered_together_as_alone(trained):
    card = Card(trained)
    texts = ["the cat sleeps", "", "a dog runs near the house", "the girl sees a very big tree"]
    questions = [
        card.Question(text=text, nbest=nbest, beam=beam)
        for text in texts
        for nbest, beam in ((1, None), (3, 2), (1, 4))
    ]
    questions.insert(4, card.Question(text="cat " * 499))
    together = card.answer(questions)
    alone = [card.answer([question])[0] for question in questions]
    assert "tokens" in together[4].detail and together[4] == alone[4]
    for one, other in zip(together, alone, strict=True):
        if one is not together[4]:
            assert one.text == other.text and len(one.readings) == len(other.readings)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "invalid"),
        (b"{", "malformed"),
        (b"\xff\xfe{}", "malformed"),
        (b"[" * 60_000, "malformed"),
        (b'{"a":' * 20_000 + b"1" + b"}" * 20_000, "malformed"),
        (b'{"text": ' + b"9" * 5000 + b"}", "malformed"),
        (b"[]", "invalid"),
        (b"null", "invalid"),
        (b"NaN", "invalid"),
        (b"{}", "invalid"),
        (b'{"text": null}', "invalid"),
        (b'{"text": 3}', "invalid"),
        (b'{"text": ["a"]}', "invalid"),
        (b'{"text": "\\ud800"}', "invalid"),
        (b'{"text": "a", "nbest": 0}', "invalid"),
        (b'{"text": "a", "nbest": 6}', "invalid"),
        (b'{"text": "a", "nbest": 2.5}', "invalid"),
        (b'{"text": "a", "nbest": true}', "invalid"),
        (b'{"text": "a", "nbest": NaN}', "invalid"),
        (b'{"text": "a", "beam": 11}', "invalid"),
        (b'{"text": "a", "beam": 1e400}', "invalid"),
        (b'{"text": "a", "pictures": "yes"}', "invalid"),
        (b'{"text": "a", "other": 1}', "invalid"),
        (b'{"text": "a", "\\ud800": 1}', "invalid"),
        (json.dumps({"text": "a " * 1001}).encode(), "invalid"),
        (json.dumps({"text": "a " * 999}).encode(), "unanswerable"),
        (json.dumps({"text": "a" * 200_000}).encode(), "too-large"),
    ],
)
def test_bad_questions_are_told_what_is_wrong(client, body, kind):
    told = is_problem(client.post(ANSWER, content=body, headers={"content-type": "application/json"}), kind)
    assert len(json.dumps(told)) < 5000


def test_a_form_of_another_site_is_no_question(client):
    body = json.dumps({"text": "a"})
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        reply = client.post(ANSWER, content=body, headers={"content-type": kind})
        assert "send Content-Type: application/json" in is_problem(reply, "not-json")["detail"]
        assert kind not in reply.text


def test_whoever_forgets_a_header_is_told_which(client):
    detail = is_problem(client.post(ANSWER, content=b'{"text": "a"}'), "not-json")["detail"]
    assert detail == "the header Content-Type is missing; send Content-Type: application/json"


def test_a_wrong_name_is_told_the_right_ones(trained):
    cards = [Card(trained) for _ in range(25)]
    for number, card in enumerate(cards):
        card.name = f"model-{number}" if number else "translate-en-es"
    client = Client(create(cards))
    for path in ("/api/models/Translate-en-se", "/api/models/Translate-en-se/answer"):
        for method in ("GET", "POST") if path.endswith("answer") else ("GET",):
            detail = is_problem(client(method, path), "not-found")["detail"]
            assert detail.startswith("no model has this name; there are translate-en-es, model-")
            assert detail.endswith(" and 5 more, see /api/models") and detail.count("model-") == 19
            assert "Translate" not in detail
    for path in ("/api/models/a/b/answer", "/api/models/" + 201 * "a" + "/answer"):
        assert "/openapi.json" in is_problem(client.post(path), "not-found")["detail"]


def test_errors_do_not_repeat_what_was_sent(client):
    secret = "do not repeat <script>alert(1)</script>"
    for question in ({"text": [secret]}, {"text": "a", "nbest": secret}, secret, [secret]):
        assert secret[:13] not in client.post(ANSWER, question).text


@pytest.mark.parametrize("path", ["/nope", "/api/models/nope", "/api/models/nope/answer", "/docs/", "/redoc", "/api/"])
def test_unknown_paths(client, path):
    is_problem(client.get(path), "not-found")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "HEAD"])
def test_other_methods(client, method):
    reply = client(method, ANSWER)
    assert reply.status_code == 405 and reply.headers["allow"] == "POST"
    if method == "HEAD":
        assert not reply.content
    else:
        assert "POST" in is_problem(reply, "not-allowed")["detail"]


def test_a_token_is_asked_for(trained):
    client = Client(create([trained], token="s3cret"))
    for value in (
        *("", "Bearer", "Bearer ", "Bearer wrong", "Basic s3cret", "s3cret", "Bearer s3cretx", "Bearer s3 cret"),
        *(b"Bearer s3cret\xa0", b"Bearer \xa0s3cret", b"Bearer s3cret\x85", b"Bearer \xff", "Bearer s3cret-ü".encode()),
        *(b"\xff", b"Bearer\xa0s3cret", b" ", b"\t", b"Bearer \x00"),
    ):
        reply = client.get("/api/models", headers={"authorization": value})
        is_problem(reply, "unauthorized")
        assert reply.headers["www-authenticate"] == "Bearer"
    for path in ("/metrics", "/openapi.json", "/api/principle", "/nope"):
        is_problem(client.get(path), "unauthorized")
    assert client.get("/healthz").status_code == 200
    for value in ("Bearer s3cret", "bearer s3cret", "Bearer   s3cret \t"):
        assert client.get("/api/models", headers={"authorization": value}).status_code == 200


@pytest.mark.parametrize(
    "token", ["", " ", " s3cret", "s3cret ", "s3cret\n", "s3 cret", "s3cret-ü", "s3cret\xa0", "\x00"]
)
def test_tokens_that_no_client_could_send_are_refused_at_the_start(trained, token):
    with pytest.raises(ValueError, match="the token") as refused:
        create([trained], token=token)
    assert "s3" not in str(refused.value)


@pytest.mark.parametrize("path", ["/healthz", "/api/models", "/api/models/toy", "/openapi.json", "/metrics", "/"])
def test_head_is_get_without_a_body(client, path):
    head, get = client("HEAD", path), client.get(path)
    assert head.status_code == get.status_code == 200 and not head.content and get.content
    assert head.headers["content-type"] == get.headers["content-type"]
    if path != "/metrics":  # which never are the same twice
        assert head.headers["content-length"] == str(len(get.content))


def test_names_that_others_gave_to_this_machine_are_refused(trained):
    client = Client(create([trained], hosts={"localhost", "127.0.0.1", "::1"}))
    for host in ("localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:8000", "[::1]"):
        assert client.get("/healthz", headers={"host": host}).status_code == 200
    for host in ("evil.example", "localhost.evil.example", "evil.example:8000", "[::2]:8000", ""):
        is_problem(client.get("/healthz", headers={"host": host}), "misdirected")


def test_every_response_is_guarded(client):
    for reply in (client.get("/healthz"), client.get("/nope"), client.post(ANSWER, {}), client.get("/openapi.json")):
        assert reply.headers["content-security-policy"].startswith("default-src 'none'")
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in reply.headers


def test_pages_are_served_and_nothing_else(client, app):
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html") and "<script" in page.text
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self';" in policy and "unsafe" not in policy
    mount = client.get("/viewer/mount.js")
    assert mount.status_code == 200 and mount.headers["content-type"].startswith("text/javascript")
    assert client.get("/viewer/mount.js", headers={"if-none-match": mount.headers["etag"]}).status_code == 304
    for path in (
        "/page/../app.py",
        "/page/%2e%2e/app.py",
        "/viewer/..%2fpage.py",
        "//etc/passwd",
        "/page/",
        "/page",
        "/viewer/page.html",
        "/page/main.js%00",
        "/page/main.js/",
    ):
        assert client.get(path).status_code == 404, path


def test_without_pages_the_root_says_where_things_are(trained, client):
    plain, closed = Client(create([trained])), Client(create([trained], token="s3cret"))
    for asked, path in ((plain, "/"), (plain, "/docs"), (client, "/docs")):
        reply = asked.get(path)
        assert reply.status_code == 200 and reply.headers["content-type"].startswith("text/plain")
        for thing in ("/api/models", "/openapi.json", "/healthz", "/metrics"):
            assert thing in reply.text and asked.get(thing).status_code == 200
        assert "toy" in reply.text and "Authorization" not in reply.text
        example = re.search(rf"{ANSWER} -H '(.+): (.+)' -d '(.+)'$", reply.text, re.MULTILINE)
        assert asked.post(ANSWER, content=example[3], headers={example[1]: example[2]}).status_code == 200
    is_problem(closed.get("/"), "unauthorized")  # it tells the names of models
    assert "Authorization: Bearer TOKEN" in closed.get("/", headers={"authorization": "Bearer s3cret"}).text
    assert create([]).openapi()["paths"].keys().isdisjoint({"/", "/docs"})


def test_every_module_that_a_page_imports_is_there(client):
    seen, waiting = set(), re.findall(r'(?:src|href)="((?:page|viewer)/[^"]+)"', client.get("/").text)
    assert waiting
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        reply = client.get(f"/{path}")
        assert reply.status_code == 200, path
        for name in re.findall(r'(?:from|import\()\s*"(\.{1,2}/[^"]+)"', reply.text) if path.endswith(".js") else []:
            waiting.append(str(httpx.URL(f"http://x/{path}").join(name).path)[1:])


def test_two_models_of_one_name_have_two(trained):
    names = [about["name"] for about in Client(create([trained, trained, trained])).get("/api/models").json()]
    assert names == ["toy", "toy-2", "toy-3"]


def written(name, text):
    return lambda run: (run / name).write_bytes(text if isinstance(text, bytes) else text.encode())


def edited(name, old, new):
    def edit(run):
        text = (run / name).read_text()
        assert old in text
        (run / name).write_text(text.replace(old, new))

    return edit


WEIGHTS = "models/best.safetensors"
DAMAGE = {
    "run.json that is empty": written("run.json", ""),
    "run.json that is a list": written("run.json", "[]"),
    "run.json that is not UTF-8": written("run.json", b"\xff"),
    "run.json that is deep": written("run.json", "[" * 100_000),
    "run.json of wrong types": written("run.json", '{"format": 1, "alignment": 3}'),
    "run.json that is a folder": lambda run: ((run / "run.json").unlink(), (run / "run.json").mkdir()),
    "no recipe": lambda run: (run / "recipe.toml").unlink(),
    "a recipe without sections": written("recipe.toml", ""),
    "a recipe that is not TOML": written("recipe.toml", "[task"),
    "a recipe of wrong types": written("recipe.toml", "task = 3\nsystem = [1]\n"),
    "a system without a name": edited("recipe.toml", 'name = "rnnsearch"', "name = 3"),
    "a size that is text": edited("recipe.toml", "hidden = 8", 'hidden = "eight"'),
    "a size below 0": edited("recipe.toml", "hidden = 8", "hidden = -8"),
    "no task": lambda run: shutil.rmtree(run / "task"),
    "a task of wrong types": lambda run: [file.write_text("3") for file in (run / "task").iterdir()],
    "a task that is empty": lambda run: [file.write_text("{}") for file in (run / "task").iterdir()],
    "weights that are cut off": lambda run: (run / WEIGHTS).write_bytes((run / WEIGHTS).read_bytes()[:-100]),
    "weights of another model": lambda run: save_file({"a": torch.zeros(3)}, run / WEIGHTS),
    "a recipe of a huge model": edited("recipe.toml", "hidden = 8", "hidden = 1000000000"),
    "a pipe": lambda run: os.mkfifo(run / "task" / "pipe"),
    "a link to elsewhere": lambda run: (run / "task" / "link").symlink_to("/etc/hostname"),
    "facts of wrong types": edited("run.json", '"format": 1', '"format": 1, "alignment": [3]'),
    "facts nested too deeply": lambda run: (run / "run.json").write_text("[" * 100_000),
    "weights that are a folder": lambda run: ((run / WEIGHTS).unlink(), (run / WEIGHTS).mkdir()),
}


def test_damaged_runs_are_left_out_with_a_reason(tmp_path, trained, monkeypatch):
    monkeypatch.setattr(registry, "shipped", list)
    for name, damage in DAMAGE.items():
        damage(Path(shutil.copytree(trained.name, tmp_path / name)))
    shutil.copytree(trained.name, tmp_path / "whole")
    cards, others = at_hand(tmp_path)
    assert [card.name for card in cards] == ["whole"]
    assert others.keys() == {str(tmp_path / name) for name in DAMAGE}
    for name, reason in others.items():
        assert 10 < len(reason) <= 400 and reason.isprintable(), name
    assert Client(create(cards, explorer=True)).get("/healthz").status_code == 200


class Panic(BaseException):
    """As the Rust of tokenizers raises."""


@pytest.mark.parametrize("error", [Panic("index out of bounds"), SystemExit(1), RecursionError("deep"), KeyError(3)])
@pytest.mark.parametrize("place", ["__init__", "about"])
def test_runs_that_raise_anything_are_left_out(tmp_path, trained, monkeypatch, error, place):
    def fail(*given, **options):
        raise error

    monkeypatch.setattr(registry, "shipped", list)
    shutil.copytree(trained.name, tmp_path / "bad")
    monkeypatch.setattr(Card, place, fail)
    cards, others = at_hand(tmp_path)
    assert not cards and others == {str(tmp_path / "bad"): f"{type(error).__name__}: {error}"}


def test_the_openapi_holds_the_schema_of_each_question(client):
    schema = client.get("/openapi.json").json()
    route = schema["paths"][ANSWER]["post"]
    name = route["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    question = schema["components"]["schemas"][name]
    assert question["additionalProperties"] is False and question["properties"]["text"]["maxLength"] == 2000
    for status in ("400", "413", "422", "429", "500", "503", "504"):
        (content,) = route["responses"][status]["content"].items()
        assert content[0] == "application/problem+json"
    references = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(schema)))
    assert references <= set(schema["components"]["schemas"])


def test_health_and_metrics(trained):
    client = Client(create([trained], limits=PATIENT))
    assert client.get("/healthz").json() == {"status": "ok", "models": 1}
    client.post(ANSWER, {"text": "the cat sleeps"})
    client.post(ANSWER, {"text": 3})
    client.get("/a-path-that-is-no-label")
    text = client.get("/metrics").text
    assert f'regard_requests_total{{path="{ANSWER}",status="200"}} 1.0' in text
    assert f'regard_requests_total{{path="{ANSWER}",status="422"}} 1.0' in text
    assert 'regard_requests_total{path="other",status="404"} 1.0' in text and "a-path-that" not in text
    assert f'regard_batch_questions_count{{path="{ANSWER}"}} 1.0' in text
    assert f'regard_waiting_questions{{path="{ANSWER}"}} 0.0' in text
    assert "process_resident_memory_bytes" in text


@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan")])
def test_a_limit_is_more_than_nothing_and_finite(value):
    for name in vars(Limits()):
        with pytest.raises(ValueError, match=name):
            Limits(**{name: value})


def test_a_full_queue_and_a_late_answer(trained):
    stuck = Stuck(trained)
    app = create([stuck.card], limits=Limits(batch=1, queue=1, seconds=1.0))

    async def main():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            first = asyncio.create_task(client.post(ANSWER, json={"text": "a"}))
            await asyncio.to_thread(stuck.began.wait, 60)
            second = asyncio.create_task(client.post(ANSWER, json={"text": "a"}))
            await asyncio.sleep(0.1)
            third = await client.post(ANSWER, json={"text": "a"})
            is_problem(third, "busy")
            assert int(third.headers["retry-after"]) >= 1
            for late in (first, second):
                is_problem(await late, "timeout")
            stuck.go.set()
            assert (await client.get("/healthz")).status_code == 200

    asyncio.run(main())


def test_a_fault_is_told_without_its_details(trained):
    stuck = Stuck(trained)
    stuck.go.set()
    client = Client(create([stuck.card], limits=PATIENT))
    stuck.error = RuntimeError("/home/someone/secret.txt")
    reply = client.post(ANSWER, {"text": "a"})
    is_problem(reply, "fault")
    assert "secret" not in reply.text
    stuck.error = None
    assert client.post(ANSWER, {"text": "a"}).status_code == 200


def test_a_server_that_shuts_down_takes_no_questions(trained, monkeypatch):
    made = []

    class Remembered(Batcher):
        def __init__(self, *given, **options):
            super().__init__(*given, **options)
            made.append(self)

    monkeypatch.setattr(serve_app, "Batcher", Remembered)
    client = Client(create([trained], limits=PATIENT))
    for batcher in made:
        batcher.close()
    is_problem(client.post(ANSWER, {"text": "a"}), "unavailable")
    reply = client.get("/healthz")
    assert reply.status_code == 503 and reply.json()["status"] == "failing"


def test_the_table_is_that_of_the_code(client):
    systems = client.get("/api/principle").json()["systems"]
    found = {system["name"]: system for system in systems if not system["like"]}
    assert found.keys() == set(registry.systems())
    for name, system in found.items():
        assert system["paper"] and system["title"] and system["part"] in PARTS, name
        assert {look.pop("where"): look for look in system["looks"]} == {
            where: look._asdict() for where, look in registry.system(name).uses.items()
        }
    years = [int(re.search(r"\b(20\d\d)\b", each["paper"])[1]) for each in systems if each["part"] == VISION]
    assert years == sorted(years)


def test_every_paper_of_the_lectures_has_a_row(client):
    papers = " ".join(system["paper"] for system in client.get("/api/principle").json()["systems"])
    lectured = {
        *("1109.3737", "1308.0850", "1406.1078", "1406.6247", "1409.0473", "1409.3215", "1410.3916", "1410.5401"),
        *("1411.4555", "1412.2007", "1412.7755", "1502.03044", "1502.04623", "1502.08029", "1503.01007", "1503.08895"),
        *("1506.02025", "1506.03340", "1506.05869", "1506.07503", "1508.01211", "1508.04025", "1511.05234"),
        *("1601.06733", "1703.03906", "1706.03762", "1710.10903", "1808.07036", "1808.07042", "1810.04805"),
        *("1812.06164", "1904.05709", "2105.14491"),
    }
    assert {number for number in lectured if number not in papers} == set()
    for author in ("Larochelle & Hinton 2010", "Devlin, Zbib", "Luong & Manning 2015", "Radford"):  # not on arXiv
        assert author in papers


def test_variants_are_of_systems_and_recipes_that_exist():
    for each in principle.VARIANTS:
        assert each.system in registry.systems() and set(each.recipes) <= set(registry.recipes())


def test_the_code_of_a_system_is_shown():
    client = Client(create([], explorer=True))
    for system in client.get("/api/principle").json()["systems"]:
        reply = client.get(f"/{system['source']}")
        assert reply.text == (Path(regard.__file__).parents[1] / system["file"]).read_text()
        assert reply.headers["content-type"].startswith("text/plain")
    is_problem(client.get("/source/../app.py"), "not-found")


def test_weights_are_those_of_the_library(client):
    query, keys, values = [0.3, -0.2], [[1.0, 0], [0, 0.5], [0.3, -0.2]], [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    found = client.post("/api/weigh", {"query": query, "keys": keys, "values": values, "seed": 4}).json()["scores"]
    assert [each["name"] for each in found] == list(SCORES) and len(found) == 10
    given = [torch.tensor(rows, dtype=torch.float64) for rows in ([query], keys, values)]
    for each in found:
        plain = not each["learns"]
        out = regard.attend(*given, score=each["name"] if plain else _score(each["name"], 2, 4))
        assert each["weights"] == pytest.approx(out.weights[0].tolist(), abs=1e-9)
        assert each["context"] == pytest.approx(out.context[0].tolist(), abs=1e-9)
        assert sum(each["weights"]) == pytest.approx(1)
    by_name = {each["name"]: each["weights"] for each in found}
    assert by_name["inverse_distance"][2] == pytest.approx(1)  # the query stands on the third key
    assert {each["name"] for each in found if each["learns"]} == {
        *("additive", "general", "concat", "perceptron", "location")
    }


@pytest.mark.parametrize("name", list(NORMALIZERS))
def test_the_playground_takes_any_normalizer_and_temperature(client, name):
    query, keys = [0.3, -0.2], [[1.0, 0], [0, 0.5], [0.3, -0.2]]
    question = {"query": query, "keys": keys, "normalizer": name, "temperature": 0.5, "gain": 3, "width": 0.2}
    reply = client.post("/api/weigh", question).json()
    found = {each["name"]: each for each in reply["scores"]}
    given = [torch.tensor(rows, dtype=torch.float64) for rows in ([query], keys, keys)]
    normalizer = normalizers.Hard("argmax") if name == "hard" else name
    # τ divides scores: a gain of 3 / 0.5, a precision of 1 / (0.2² · 0.5)
    parts = {"cosine": scores.Cosine(6.0), "gaussian": scores.Gaussian(0.2 * 0.5**0.5)}
    for each, part in parts.items():
        out = regard.attend(*given, score=part, normalizer=normalizer)
        assert found[each]["weights"] == pytest.approx(out.weights[0].tolist(), abs=1e-9)
    assert reply["sums_to_one"] == (name != "sigmoid")
    assert ("temperature" in found["dot"]["settings"]) == (name != "hard")
    assert found["cosine"]["settings"][-1] == "gain" and "width" not in found["dot"]["settings"]


def test_keys_are_values_where_none_are_given(client):
    question = {"query": [1], "keys": [[1], [3]]}
    found = client.post("/api/weigh", question).json()["scores"][0]
    assert found["context"] == pytest.approx([found["weights"][0] + 3 * found["weights"][1]])


@pytest.mark.parametrize(
    "question",
    [
        {"query": [1, 2], "keys": [[1, 2], [1]]},
        {"query": [1], "keys": [[1, 2]]},
        {"query": [1], "keys": [[1]], "values": [[1], [2]]},
        {"query": [1], "keys": [[1], [2]], "values": [[1], [2, 3]]},
    ],
)
def test_vectors_that_do_not_fit(client, question):
    is_problem(client.post("/api/weigh", question), "unanswerable")


@pytest.mark.parametrize(
    "question",
    [
        {"query": [], "keys": [[]]},
        {"query": [1], "keys": []},
        {"query": [1e7], "keys": [[1]]},
        {"query": ["1"], "keys": [[1]]},
        {"query": [1] * 17, "keys": [[1] * 17]},
        {"query": [1], "keys": [[1]] * 65},
    ],
)
def test_vectors_out_of_bounds(client, question):
    is_problem(client.post("/api/weigh", question), "invalid")


def test_the_largest_vectors_have_finite_weights(client):
    question = {"query": [1e6] * 16, "keys": [[-1e6] * 16, [1e6] * 16] * 32}
    Question(**question)
    for each in client.post("/api/weigh", question).json()["scores"]:
        assert sum(each["weights"]) == pytest.approx(1), each["name"]


def test_the_playground_leaves_torchs_generator_alone(client):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    client.post("/api/weigh", {"query": [1], "keys": [[1]]})
    assert torch.equal(torch.get_rng_state(), before)
    assert isinstance(_score("dot", 3, 0), scores.Dot)

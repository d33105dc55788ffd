"""Language models, fillers and taggers on the command line and as predictors."""

import io
import json
import math
import re

import pytest
import torch
from rich.console import Console

import forked
import regard
from regard import registry
from regard.commands.train import _next


def trained(name, folder, *changes):
    recipe = registry.recipe(name).tiny().change(changes)
    return regard.train(recipe, out=folder / name, console=Console(file=io.StringIO()))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("language")
    return {name: trained(name, folder) for name in ("gpt-shakespeare", "bert-text", "ner-wnut", "lstmn-lm")}


def typed(*words, stdin="", code=0):
    done = forked.run(*words, stdin=stdin)
    assert done.returncode == code, done.stderr
    return done.stdout if not code else done.stderr


@pytest.mark.parametrize("name", ["gpt-shakespeare", "lstmn-lm"])
def test_a_prompt_is_completed_and_a_seed_says_how(runs, name):
    model = regard.load(runs[name].folder)
    question = model.Question(prompt="the boys", length=12, seed=3)
    (one,), (again,) = model.ask([question]), model.ask([question])
    other, beside = model.ask([model.Question(prompt="the boys", length=12, seed=4), question])
    assert one.text == again.text == beside.text != other.text and one.text.startswith("the boys")
    assert one.pictures and math.isfinite(one.fields["answers"][0]["log_prob"])
    found = {
        heat: model.ask([model.Question(prompt="the", length=1, seed=seed, temperature=heat) for seed in range(20)])
        for heat in (1, 300)
    }
    cold, hot = (sum(each.fields["answers"][0]["log_prob"] for each in found[heat]) for heat in (1, 300))
    assert cold > hot  # more careful, so likelier


def test_nats_bits_and_perplexity_belong_together(runs):
    model = regard.load(runs["gpt-shakespeare"].folder)
    found = model.evaluate("test")
    assert found["nats_per_character"] == pytest.approx(found["nll"])  # a token is a character
    assert found["bits_per_character"] == pytest.approx(found["nll"] / math.log(2))
    assert found["perplexity"] == pytest.approx(math.exp(found["nll"]))


def test_prompts_on_the_command_line(runs):
    folder = runs["gpt-shakespeare"].folder
    lines = typed("predict", folder, "length=5", "--json", stdin="the boys\nthe cat\n").splitlines()
    assert [json.loads(line)["prompt"] for line in lines] == ["the boys", "the cat"]
    assert "line 1: the prompt is empty" in typed("predict", folder, stdin="\n", code=2)
    assert "'€' is not among the characters" in typed("predict", folder, stdin="€\n", code=2)


def test_a_prompt_without_an_answer_takes_no_other_with_it(runs):
    done = forked.run("predict", runs["gpt-shakespeare"].folder, "length=5", stdin="the boys\n\nthe cat\n")
    first, empty, last = done.stdout.splitlines()
    assert first.startswith("the boys") and not empty and last.startswith("the cat")
    assert "line 2: the prompt is empty" in done.stderr and "1 of 3 questions have no answer" in done.stderr
    assert done.returncode == 2
    lines = typed_json(runs["gpt-shakespeare"].folder, "the boys\n\n")
    assert "text" in lines[0] and "the prompt is empty" in lines[1]["error"]


def typed_json(folder, stdin):
    return [json.loads(line) for line in forked.run("predict", folder, "--json", stdin=stdin).stdout.splitlines()]


def test_holes_are_filled(runs):
    model = regard.load(runs["bert-text"].folder)
    good, bad = model.ask([model.Question(text="the ___ near ___ tree"), model.Question(text="no hole")])
    assert len(good.fields["holes"]) == 2 and len(good.notes) == 2 and "___" not in good.text
    assert good.text.startswith("the") and good.text.endswith("tree") and good.pictures
    assert isinstance(bad, ValueError)
    first = list(good.fields["holes"][0].values())
    assert first == sorted(first, reverse=True) and 0 < first[0] <= 1


def test_a_word_with_and_without_its_space_counts_once_with_the_likelier(runs):
    model = regard.load(runs["bert-text"].folder)
    pieces = model.task.tokenizer.pieces(range(len(model.task.tokenizer)))
    second = next(number for number, piece in enumerate(pieces) if number > 3 and f" {piece}" in pieces)
    first = pieces.index(f" {pieces[second]}")
    share = torch.zeros(1, len(pieces))
    share[0, first], share[0, second] = 0.75, 0.25
    item = model.task.read(model.Question(text="the ___"))
    told = model._answer(item, share, torch.rand(2, 2, len(item.ids), len(item.ids)).softmax(-1)).fields["holes"][0]
    assert told[pieces[second]] == 0.75


def test_words_are_tagged(runs):
    model = regard.load(runs["ner-wnut"].folder)
    (answer,) = model.ask([model.Question(text="Ada walks to Oslo.")])
    assert answer.fields["words"] == ["Ada", "walks", "to", "Oslo", "."]
    assert len(answer.fields["tags"]) == 5 and answer.text.startswith("Ada/")
    found = model.evaluate("test")
    assert {"accuracy", "unigram", "precision", "recall", "f1", "unigram_f1"} <= found.keys()


def test_fine_tuning_starts_from_pre_training(runs, tmp_path):
    said = []
    recipe = registry.recipe("bert-sst").tiny()
    start = str(runs["bert-text"].folder)
    changes = [f"init={start}", f"tokens={start}", "layers=2", "max_length=19"]
    run = regard.train(
        recipe.change(changes), out=tmp_path / "run", console=Console(file=io.StringIO()), say=said.append
    )
    (line,) = (line for line in said if line.startswith("starts from"))
    assert (
        "new: classes.weight, classes.bias" in line
        and "embedding" not in line.partition("unused")[0].partition("new")[2]
        and "other words" not in line
    )
    changes = [f"init={start}", "layers=2", "max_length=19", "dim=6"]
    regard.train(recipe.change(changes), out=tmp_path / "other", console=Console(file=io.StringIO()), say=said.append)
    (line,) = (line for line in said[3:] if line.startswith("starts from"))
    assert "of another shape: embedding.words.weight (280, 8) instead of " in line
    assert f"its tokens stand for other words than this run's: tokens={start} would cut text as it did" in line
    tagger = registry.recipe("pos-ewt").tiny().change([f"init={start}", f"tokens={start}", "layers=2", "hidden=16"])
    regard.train(tagger.change(["longest=19", "max_length=19"]), out=tmp_path / "tags", say=said.append)
    assert "embedding" not in said[-2].partition("unused")[0].partition("new:")[2]
    before = torch.get_num_threads()
    assert regard.load(run.folder).evaluate("test", limit=4) and torch.get_num_threads() == before


def test_a_hole_is_a_word_and_no_end_of_a_line(runs):
    model = regard.load(runs["bert-text"].folder)
    pieces = model.task.tokenizer.pieces(range(len(model.task.tokenizer)))
    blank = [number for number, piece in enumerate(pieces) if not piece.strip()]
    ((chosen, _),) = model.fill([model.task.read(model.Question(text="the ___ cat"))])
    assert blank and float(chosen[:, blank].sum()) == 0 < float(chosen.sum())


def test_several_answers_are_as_many_lines(runs):
    folder = runs["lstmn-lm"].folder
    lines = typed("predict", folder, "length=4", "nbest=3", stdin="the boys\nthe cat\n").splitlines()
    assert [line.split()[1] for line in lines] == ["boys"] * 3 + ["cat"] * 3
    assert all(float(line.split("\t")[1]) < 0 for line in lines)


def test_what_is_shown_is_named_once(runs, tmp_path):
    folder = runs["gpt-shakespeare"].folder
    assert typed("show", folder, "the boy", "length=3").startswith("the boy")
    assert typed("show", runs["ner-wnut"].folder, "Ada runs.").startswith("Ada runs.\n→ Ada/")
    (tmp_path / "asked.txt").write_text("Ada runs.\nBob sleeps.\n")
    told = typed("show", runs["ner-wnut"].folder, tmp_path / "asked.txt")
    assert "asked.txt, line 1: Ada/" in told and "asked.txt, line 2: Bob/" in told


def test_the_help_of_a_model_says_what_each_option_is_and_what_a_line_is(tmp_path):
    trained("coqa-made", tmp_path)
    told = typed("predict", tmp_path / "coqa-made", "--help")
    assert told.startswith('A line of the input is JSON: {"story": "…", "question": "…"}\n')
    for name in ("memn2n-babi", "translate-en-es", "reader-cloze"):
        for command in ("predict", "show"):
            options = [
                line.split(maxsplit=1) for line in typed(command, name, "--help").splitlines() if line[:2] == "  "
            ]
            assert options and all(len(about.split()) > 2 for _, about in options), (name, command)


def test_what_one_may_do_next_where_questions_depend_on_what_was_learned(tmp_path):
    """Sentences come in pairs or alone."""
    assert _next(trained("lstmn-sst", tmp_path, "steps=1")) == ["evaluate RUN", "predict RUN", "show RUN"]
    told = _next(trained("speech-digits", tmp_path, "steps=1"))
    assert told == ["evaluate RUN", "predict RUN recording.wav", "show RUN"]


def test_a_warning_is_one_line(tmp_path):
    (tmp_path / "long.txt").write_text("word " * 200)
    done = forked.run("predict", "translate-en-es", tmp_path / "long.txt")
    assert done.returncode == 0 and re.search(r"(?m)^regard: sentence 1 has 201 tokens and is cut to 128$", done.stderr)
    assert "UserWarning" not in done.stderr and "task.batches" not in done.stderr


def test_numbers_that_make_no_sense_are_refused(runs):
    folder = runs["ner-wnut"].folder
    for words in (["evaluate", folder, "--limit", "-3"], ["average", folder, "--last", "0"]):
        assert "greater than or equal to 1" in typed(*words, code=2)
    told = typed("average", "gpt-shakespeare", code=2)
    assert told == "regard: gpt-shakespeare is not a run: it is a model that comes with regard\n"
    assert typed("predict", folder, "json=yes", stdin="Ada\n").startswith('{"text": "Ada/')
    told = typed("chat", "dialog-babi", "task=9", stdin="hello\n", code=2)
    assert told == "regard: dialog-babi takes no option 'task'; it takes none here\n"

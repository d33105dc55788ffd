"""A beam whose hypotheses a language model or a joint model ranks again."""

import io

import numpy as np
import pytest
import torch
from rich.console import Console

import forked
import regard
from regard import registry
from regard.decode import Hypothesis
from regard.decode.rescoring import rescore_texts


def trained(name, folder, *changes):
    recipe = registry.recipe(name).tiny().change(changes)
    return regard.train(recipe, out=folder / name, console=Console(file=io.StringIO())).folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rescoring")
    lines = folder / "lines.txt"
    words = ["one two three", "four five", "reports of the bank: costs fall, rates 0123456789 rise in June!"]
    letters = "".join(map(chr, range(32, 127)))
    lines.write_text("\n".join([*words, letters] * 40) + "\n")
    found = {name: trained(name, folder) for name in ("summary-made", "nnjm-toy", "translate-toy", "gaze-track")}
    for name in ("gpt-shakespeare", "lstmn-lm"):
        recipe = registry.recipe(name).tiny().change(["lowercase=false", "level=char"])
        found[name] = regard.train(recipe, data=lines, out=folder / name, console=Console(file=io.StringIO())).folder
    return found


@pytest.mark.parametrize("name", ["gpt-shakespeare", "lstmn-lm"])
def test_log_probabilities_of_texts_are_those_of_one_reading(runs, name):
    model = regard.load(runs[name])
    texts = ["four five", "one two three", "rates"]
    for text, log_prob in zip(texts, model.log_probs(texts), strict=True):
        target = torch.tensor([model.task.encode(f"\n{text}\n")])
        with torch.inference_mode():
            out = model.model({"target": target, "target_lengths": torch.tensor([target.shape[1] - 1])})
        assert int(out["count"]) == len(text) + 1
        assert log_prob == pytest.approx(-float(out["nll"]) * (len(text) + 1), rel=1e-4)
    assert model.log_probs([]) == []


def test_a_text_that_is_long_may_win():
    short = Hypothesis(tokens=[4], score=-1.0, log_prob=-1.0, alignment=None, finished=True)
    long = Hypothesis(tokens=[4, 5], score=-1.5, log_prob=-1.5, alignment=None, finished=True)
    texts, language = ["a", "abcd"], [-2.0, -40.0]
    scores = {0.0: (-1.0 / 2, -1.5 / 5), 0.1: (-1.0 / 2 - 0.2, -1.5 / 5 - 4.0)}
    for weight, wanted in scores.items():
        ranked = rescore_texts([short, long], texts, language, weight)
        assert [each.score for each in ranked] == pytest.approx(sorted(wanted, reverse=True))
    assert rescore_texts([short, long], texts, language, 0.0)[0].tokens == long.tokens
    assert rescore_texts([short, long], texts, language, 0.1)[0].tokens == short.tokens
    with pytest.raises(ValueError, match="at least 0"):
        rescore_texts([short], ["a"], [-1.0], -1.0)


def test_all_of_the_beam_is_ranked_again(runs):
    model, language = regard.load(runs["summary-made"]), regard.load(runs["gpt-shakespeare"])
    items = [model.task.item("test", number) for number in range(6)]
    changed = 0
    for weight in (0.0, 0.5, 1e6):
        ranked = model.rescored(language, weight)
        for all_, (best, *_) in zip(model.write(items, nbest=5, size=5), ranked.write(items, size=5), strict=True):
            total = [one.log_prob / (len(one.text) + 1) + weight * language.log_probs([one.text])[0] for one in all_]
            assert best.text == all_[int(np.argmax(total))].text
            assert best.score == pytest.approx(max(total), rel=1e-4)
            changed += best.text != all_[0].text
    assert changed
    assert model.rescorer is None  # the first is as it was


def test_a_joint_model_ranks_what_a_translator_of_its_words_wrote(runs):
    joint, items = regard.load(runs["nnjm-toy"]), ["the cat sees the house", "the boys eat"]
    twice = joint.rescored(joint, 1.0)
    for all_, (best, *_) in zip(joint.write(items, nbest=5, size=5), twice.write(items, size=5), strict=True):
        assert best.text in [one.text for one in all_]
    with pytest.raises(ValueError, match=r"different .* vocabularies"):
        regard.load("translate-en-es").rescored(joint)


def test_what_cannot_be_ranked_says_so(runs):
    model, language = regard.load(runs["translate-toy"]), regard.load(runs["gpt-shakespeare"])
    with pytest.raises(ValueError, match=r"language models \(gpt, lstmn\) and nnjm can"):
        model.rescored(regard.load(runs["summary-made"]))
    for other in (language, regard.load(runs["gaze-track"])):
        with pytest.raises(ValueError, match="no hypotheses to rank again"):
            other.rescored(language)
    with pytest.raises(ValueError, match="'é' is not among the characters"):
        language.log_probs(["café"])


def test_the_commands_rank_again(runs):
    where, language = runs["summary-made"], runs["gpt-shakespeare"]
    for command in (["evaluate", where, "--limit", "4"], ["predict", where], ["show", where]):
        done = forked.run(*command, "--rescore", language, "--rescore-weight", "0.1", stdin="the bank said so .\n")
        assert done.returncode == 0, done.stderr
        done = forked.run(*command, "--rescore-weight", "0.1", stdin="the bank said so .\n")
        assert done.returncode == 2 and "--rescore RUN" in done.stderr

"""Runs of machines with a memory, opened again: what they answer, show and measure."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import regard


def trained(folder, recipe, *changes):
    return regard.load(regard.train(recipe, *changes, "train.steps=2", "tensorboard=false", out=folder))


SMALL = ("rows=12", "system.width=5", "hidden=9", "task.batch=2", "measured=2")


@pytest.fixture(scope="module")
def copier(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("copy") / "run", "ntm-copy", *SMALL, "longest=3")


@pytest.fixture(scope="module")
def counter(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("count") / "run", "stack-anbn", "system.hidden=8", "longest_test=20")


def test_a_tape_is_run(copier):
    found = copier.predict(4, seed=3)
    assert found.input.shape == (9, 9) and found.output.shape == (9, 8) and found.asked.sum() == 4
    assert set(found.heads) == {"read", "write"} and found.heads["read"].shape == (9, 12)
    assert torch.allclose(found.heads["write"].sum(-1), torch.ones(9), atol=1e-5)
    assert found.bits == 32 and 0 <= found.wrong <= 32
    assert torch.equal(found.output, copier.predict(4, seed=3).output)
    assert copier.predict(4, rows=40).heads["read"].shape == (9, 40) and copier.model.rows == 12


def test_what_is_wrong_is_counted(copier):
    found = copier.predict(3)
    asked, answered = found.vectors(found.target), found.vectors(found.output)
    assert found.wrong == sum(a != b for one, two in zip(asked, answered) for a, b in zip(one, two))
    lines = list(copier.answer(Path("3")))
    assert lines[0] == f"copy, 3: {found.wrong} of 24 bits wrong"
    assert [line.strip() for line in lines[1:] if set(line.strip()) <= {"0", "1"}] == answered


def test_ones_own_vectors_are_copied(copier, tmp_path):
    file = tmp_path / "vectors.txt"
    file.write_text("10110001 00000001\n\n2\n")
    first, blank, second = (json.loads(line or "null") for line in copier.answer(file, as_json=True))
    assert first["asked"] == ["10110001", "00000001"] and blank is None and second["bits"] == 16


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3\nmany\n", r"vectors\.txt, line 2: 'many' is not a length"),
        ("0\n", r"line 1: '0' is not a length"),
        ("1011 0001\n", r"line 1: '1011' has 4 bits; this system was trained on 8"),
    ],
)
def test_a_bad_line_is_named(copier, tmp_path, text, message):
    file = tmp_path / "vectors.txt"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        list(copier.answer(file))


def test_a_copier_is_measured_beyond_its_training(copier):
    found = copier.evaluate()
    assert {"bits_per_sequence", "bit_errors", "errors_at_6", "errors_at_18", "errors_at_18_48_rows"} <= set(found)
    assert all(np.isfinite(value) for value in found.values()) and 0 <= found["bit_errors"] <= 100


def test_repeats_are_asked_for(tmp_path):
    model = trained(tmp_path / "run", "ntm-repeat-copy", *SMALL, "longest=2", "repeats=3")
    assert model.predict(2, repeats=3).asked.sum() == 7
    own = model.predict(2, repeats=2, vectors=[[1] * 8, [0] * 8])
    assert own.vectors(own.target) == ["111111110", "000000000"] * 2 + ["000000001"]


def test_ngrams_stand_beside_the_best(tmp_path):
    model = trained(tmp_path / "run", "ntm-ngrams", *SMALL, "shortest=20", "longest=20")
    found = model.evaluate("valid")
    assert found["optimal_bits"] > 0
    assert np.isclose(found["above_optimal"], 100 * (found["bits_per_sequence"] / found["optimal_bits"] - 1))


@pytest.mark.parametrize("recipe", ["ntm-recall", "ntm-sort"])
def test_many_heads_have_names(tmp_path, recipe):
    model = trained(tmp_path / "run", recipe, *SMALL, "reads=2", "writes=2")
    assert list(model.predict(6).heads) == ["read 1", "read 2", "write 1", "write 2"]
    model.evaluate("valid")


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_heads_are_shown(copier, tmp_path, suffix):
    out = tmp_path / f"heads.{suffix}"
    text = "\n".join(copier.show(["5"], out))
    assert out.stat().st_size > 1000 and str(out) in text
    assert "input" in text and "read" in text and "write" in text
    with pytest.raises(ValueError, match="one length"):
        list(copier.show(["5", "6"], None))
    with pytest.raises(ValueError, match="not a length"):
        list(copier.show(["five"], None))


def test_a_string_is_read(counter):
    trace = counter.predict("aabbab", [0, 0, 0, 1, 1, 0])
    assert trace.symbols == "aabba" and trace.next == "abbab" and len(trace.predicted) == 5
    assert trace.weights.shape == (5, 10, 2) and set(trace.weights.unique().tolist()) <= {0.0, 1.0}
    assert list(trace.known) == [0, 0, 1, 1, 0]
    assert set(trace.wrong()) == {t for t in (2, 3) if trace.predicted[t] != trace.next[t]}


def test_counting_is_measured_with_and_without_rounding(counter):
    found = counter.evaluate()
    assert set(found) == {"correct", "correct_unrounded", "first_wrong"}
    assert 0 <= found["correct"] <= 100 and not counter.model.training
    right = [counter._all_correct(batch) for batch in counter.task.loader("test")]
    assert np.isclose(found["correct"], 100 * np.mean(right))
    assert found["first_wrong"] == (right.index(False) + 1 if False in right else 0)


def test_counting_answers_numbers_and_strings(counter, tmp_path):
    file = tmp_path / "strings.txt"
    file.write_text("2\naabb\n")
    found = list(counter.answer(file, as_json=True))
    assert json.loads(found[0])["text"] == "aabba" and json.loads(found[1])["text"] == "aabb"
    assert next(iter(counter.answer(Path("2")))) == "read     aabb"
    for text, message in (
        ("abx\n", "'x' is not a symbol of anbn: a, b"),
        ("a\n", "two symbols"),
        ("0\n", "no string for 0"),
    ):
        file.write_text(text)
        with pytest.raises(ValueError, match=rf"strings\.txt, line 1: .*{message}"):
            list(counter.answer(file))


def test_the_trace_is_shown(counter, tmp_path):
    out = tmp_path / "trace.png"
    text = "\n".join(counter.show([], out))
    assert out.stat().st_size > 1000 and text.count("\n") >= 6 * 2
    assert "PUSH" in text or "POP" in text
    with pytest.raises(ValueError, match="no stack 99"):
        list(counter.show(["3"], None, head=99))


def test_pages(copier, counter, tmp_path):
    for number, (system, kind) in enumerate(((copier, "weightings"), (counter, "stack"))):
        *_, path = system.show([], tmp_path / f"{number}.html")
        assert f'"kind":"{kind}"' in Path(path).read_text().replace('": "', '":"')

"""onnxruntime must compute what our own step computes, for other sizes than those of the example too."""

import json

import numpy as np
import pytest
import torch

from exports import page
from regard import exports
from regard.predictors.predictor import Predictor

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


@pytest.mark.parametrize("name", ["translate-en-es", "translate-en-es-rnn"])
def test_steps_are_ours(name, tmp_path, monkeypatch, capsys):
    """Also by the lines of docs/exporting.md."""
    trained = Predictor.open(name)
    folder = tmp_path / "graphs"
    exports.write(trained, "onnx", folder)
    quiet = onnxruntime.SessionOptions()
    quiet.intra_op_num_threads, quiet.log_severity_level = 1, 3
    start, step = (onnxruntime.InferenceSession(str(folder / f"{part}.onnx"), quiet) for part in ("start", "step"))
    assert json.loads((folder / "about.json").read_text())["special"]["eos"] == 2
    sentences = ["I love coffee.", "Where is the train station?", "He was reading a book when I came in.", "Yes!"]
    for rows in (sentences, sentences[:1]):
        ids = [[*trained.task.source.encode(sentence), 2] for sentence in rows]
        lengths = np.array([len(row) for row in ids])
        source = np.zeros((len(ids), lengths.max()), np.int64)
        for row, tokens in enumerate(ids):
            source[row, : len(tokens)] = tokens
        batch = {"source": torch.from_numpy(source), "source_lengths": torch.from_numpy(lengths)}
        with torch.no_grad():
            state = trained.model.start(batch)
        theirs = start.run(None, {"source": source, "source_lengths": lengths})
        token = np.ones(len(ids), np.int64)
        for _ in range(8):
            with torch.no_grad():
                logits, state = trained.model.step(torch.from_numpy(token), state)
            given = {f"state_{number}": tensor for number, tensor in enumerate(theirs)}
            log_probs, alignment, *theirs = step.run(None, {"token": token, **given})
            np.testing.assert_allclose(log_probs, logits.log_softmax(-1).numpy(), atol=2e-3)
            np.testing.assert_allclose(alignment, trained.model.alignment(state).numpy(), atol=1e-4)
            token = log_probs.argmax(-1)
    monkeypatch.chdir(tmp_path)
    exec(page.ONNX, {})
    trained.recipe = trained.recipe.change(["decode.size=1"])
    ((best,),) = trained.predict([page.SENTENCE], alignments=False)
    assert capsys.readouterr().out.strip() == best.text


def test_a_model_of_ones_own(tmp_path, monkeypatch):
    """By the lines of docs/exporting.md; none of our operators is left in it."""
    monkeypatch.chdir(tmp_path)
    held = {}
    exec(page.OWN, held)
    assert not [node for node in held["program"].graph.nodes if str(node.target).startswith("regard")]
    session = onnxruntime.InferenceSession("reader.onnx")
    names = [each.name for each in session.get_inputs()]
    context, weights = session.run(None, {name: given.numpy() for name, given in zip(names, held["inputs"])})
    assert context.shape == (2, 3, 16) and abs(weights.sum(-1) - 1).max() < 1e-5 and not weights[1, :, 4].any()


def test_what_writes_no_text_is_refused(tmp_path):
    class Deaf:
        name, model = "deaf", torch.nn.Linear(1, 1)

    with pytest.raises(ValueError, match="deaf is a Linear, which writes no text"):
        exports.write(Deaf(), "onnx", tmp_path / "model")

"""The engine must write what our own decoder writes, from the same weights."""

import subprocess
import sys

import pytest
import torch

from exports import page
from regard import exports
from regard.predictors.predictor import Predictor
from regard.systems.transformer import Config, Transformer

ctranslate2 = pytest.importorskip("ctranslate2")

SENTENCES = ["I love coffee.", "Where is the train station?", "He was reading a book when I came in.", "Yes!"]


@pytest.fixture(scope="module")
def shipped():
    return Predictor.open("translate-en-es")


def scores(folder, trained, sources, targets):
    """The engine's log-probabilities of the tokens of targets, the end included."""
    translator = ctranslate2.Translator(str(folder), inter_threads=1, intra_threads=1)
    return [found.log_probs for found in translator.score_batch(sources, targets)]


def test_it_translates_as_we_do(shipped, tmp_path, monkeypatch, capsys):
    """Also by the lines of docs/exporting.md."""
    folder = tmp_path / "engine"
    exports.write(shipped, "ctranslate2", folder)
    translator = ctranslate2.Translator(str(folder), inter_threads=1, intra_threads=1)
    backend = shipped.task.source.backend
    tokens = [backend.encode(sentence, add_special_tokens=False).tokens for sentence in SENTENCES]
    decode = shipped.config
    found = translator.translate_batch(tokens, beam_size=decode.size, length_penalty=decode.length_penalty)
    target = shipped.task.target
    written = [target.decode(map(target.backend.token_to_id, each.hypotheses[0])) for each in found]
    ours = [best.text for (best,) in shipped.predict(SENTENCES, alignments=False)]
    assert written == ours
    monkeypatch.chdir(tmp_path)
    exec(page.CTRANSLATE2, {})
    assert capsys.readouterr().out.strip() == ours[SENTENCES.index(page.SENTENCE)]


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("tied", [True, False])
def test_log_probabilities_are_ours(shipped, tmp_path, norm, tied):
    """Of random weights, in every variant: a swapped matrix or a forgotten norm would show."""
    size = len(shipped.task.target)
    sizes = dict(dim=32, heads=4, hidden=48, encoder_layers=2, decoder_layers=1)
    torch.manual_seed(0)
    model = Transformer(Config(size, size, norm=norm, tied=tied, dropout=0.0, **sizes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    trained = Predictor.__new__(type(shipped))
    trained.__dict__.update({**shipped.__dict__, "model": model})
    exports.write(trained, "ctranslate2", tmp_path / "model")
    source, target = [7, 30, 12, 99], [41, 8, 120]
    name = shipped.task.target.backend.id_to_token
    (found,) = scores(tmp_path / "model", trained, [[name(i) for i in source]], [[name(i) for i in target]])
    state = model.start({"source": torch.tensor([[*source, 2]]), "source_lengths": torch.tensor([5])})
    mine = []
    for before, after in zip([1, *target], [*target, 2]):
        logits, state = model.step(torch.tensor([before]), state)
        mine.append(float(logits.detach().log_softmax(-1)[0, after]))
    assert found == pytest.approx(mine, abs=2e-4)


def test_what_it_cannot_run_is_refused(shipped, tmp_path):
    with pytest.raises(ValueError, match="RNNsearch: CTranslate2 runs only Transformers"):
        exports.write(Predictor.open("translate-en-es-rnn"), "ctranslate2", tmp_path / "model")
    with pytest.raises(ValueError, match="ctranslate2"):
        exports.write(shipped, "ctranslate", tmp_path / "model")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").touch()
    with pytest.raises(ValueError, match="not empty"):
        exports.write(shipped, "ctranslate2", tmp_path / "there")


def test_the_model_is_left_as_it_was(shipped, tmp_path):
    before = {name: weight.clone() for name, weight in shipped.model.state_dict().items()}
    exports.write(shipped, "ctranslate2", tmp_path / "model", quantization="int8")
    assert all(weight.equal(before[name]) for name, weight in shipped.model.state_dict().items())


def test_the_command_line(tmp_path):
    out = tmp_path / "model"
    words = ["export", "translate-en-es", "--to", "ctranslate2", "--quantization", "int8", "--out", str(out)]
    done = subprocess.run([sys.executable, "-m", "regard.cli", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "MB" in done.stdout and (out / "model.bin").stat().st_size < 12e6

"""From data to a translator through the real command line."""

import json
from pathlib import Path

import pytest

import forked
from regard.registry import Recipe

SMALL = ["embedding=16", "system.hidden=24", "attention=16", "maxout=12", "threads=1", "tensorboard=false"]


def regard(*arguments, stdin="", cwd=None, code=0):
    done = forked.run(*arguments, stdin=stdin, cwd=cwd)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A toy translator after a few steps."""
    folder = tmp_path_factory.mktemp("runs") / "toy"
    regard("train", "translate-toy", "--out", folder, "steps=30", "keep=2", "validate_every=15", *SMALL)
    return folder


def test_the_run_folder_holds_everything(run):
    for name in ("run.json", "recipe.toml", "metrics.jsonl", "task/task.json", "models/best.safetensors"):
        assert (run / name).exists(), name
    assert not (run / "tensorboard").exists()


def test_predict_keeps_order_and_empty_lines(run):
    lines = ["the cat sleeps", "", "a red dog runs", "the girl sees the house", "   "]
    out = regard("predict", run, stdin="\n".join(lines) + "\n").split("\n")[:-1]
    assert len(out) == 5 and out[1] == out[4] == "" and out[0] and out[2]
    alone = [regard("predict", run, stdin=line + "\n").rstrip("\n") for line in lines]
    assert out == alone


def test_predict_from_a_file_with_alignments_and_nbest(run, tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("the cat sleeps\n\n")
    rows = regard("predict", run, path, "--nbest", 3, "--alignments").splitlines()
    assert len(rows) == 6 and all(row.startswith("\t0.0000") for row in rows[3:])  # an empty line has as many
    rows = rows[:3]
    scores = [float(row.split("\t")[1]) for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert all("-" in link for link in rows[0].split("\t")[2].split())


def test_predict_as_json(run):
    (line,) = regard("predict", run, "--json", stdin="the cat sleeps\n").splitlines()
    found = json.loads(line)
    answer = found["answers"][0]
    assert found["source"] == "the cat sleeps" and answer["source_words"] == ["the", "cat", "sleeps"]
    assert len(answer["weights"]) == len(answer["words"]) and len(answer["weights"][0]) == 3
    for row, end in zip(answer["weights"], answer["end"], strict=True):  # the rest lies on the end of the sentence
        assert sum(row) + end == pytest.approx(1, abs=5e-4)


def test_unknown_words_are_copied(run):
    plain = regard("predict", run, "--json", stdin="Zork sleeps\n")
    assert json.loads(plain)["answers"][0]["text"] is not None
    regard("predict", run, "--copy-unknown", stdin="Zork sleeps\n")


def test_evaluate_prints_metrics_with_signatures(run):
    out = regard("evaluate", run, "--limit", 20)
    assert "bleu" in out and "tok:13a" in out and "chrf" in out and "ter" in out
    found = json.loads(regard("evaluate", run, "--limit", 20, "--json", "--ensemble", run))
    assert 0 <= found["bleu"] <= 100


def test_average_makes_the_weights_that_predict_uses(run):
    out = regard("average", run, "--last", 2)
    assert Path(out.strip()).name == "average.safetensors"
    regard("predict", run, stdin="the cat sleeps\n")


def test_show_in_the_terminal_as_picture_and_as_page(run, tmp_path):
    out = regard("show", run, "the red cat sees a house", "--out", tmp_path / "a.png")
    assert "→" in out and "house" in out and (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    out = regard("show", run, "the cat sleeps", "a dog runs", "--out", tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert str(tmp_path / "a.html") in out and "http" not in page.split("<body")[0].replace("http-equiv", "")
    regard("show", run, "the cat sleeps", "a dog runs", "--out", tmp_path / "b.svg")
    assert (tmp_path / "b-1.svg").exists() and (tmp_path / "b-2.svg").exists()


def test_stopped_and_resumed_equals_uninterrupted(tmp_path):
    settings = ["steps=12", "validate_every=6", *SMALL]
    regard("train", "translate-toy", "--out", tmp_path / "whole", *settings)
    regard("train", "translate-toy", "--out", tmp_path / "parts", *settings, "train.minutes=0.0")
    regard("train", "translate-toy", "--out", tmp_path / "parts", "--resume", "minutes=none")
    one, other = (max((tmp_path / name / "checkpoints").glob("*/*.safetensors")) for name in ("whole", "parts"))
    assert one.parent.name == other.parent.name and one.read_bytes() == other.read_bytes()


def test_somebodys_own_two_files(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    pairs = [(f"the number {n} is here", f"le nombre {n} est ici") for n in range(300)]
    (data / "train.en").write_text("".join(f"{source}\n" for source, _ in pairs))
    (data / "train.fr").write_text("".join(f"{target}\n" for _, target in pairs))
    small = ["dim=16", "heads=2", "hidden=32", "encoder_layers=1", "decoder_layers=1", "vocab=300", "threads=1"]
    options = ["train", "translate", "--data", data, "src=en", "tgt=fr", "steps=5", *small]
    out = regard(*options, "--out", tmp_path / "run")
    assert "padding" in out
    (told,) = [line for line in out.splitlines() if line.startswith("for 300 training pairs: ")]
    chosen = Recipe.read(tmp_path / "run" / "recipe.toml").sections
    assert chosen["task"]["batch_tokens"] == 512 and "batch_tokens=512" in told and "up to 10,000 pairs" in told
    assert chosen["system"]["dim"] == 16 and "dim=" not in told and "vocab=" not in told  # they were typed
    assert regard("predict", tmp_path / "run", stdin="the number 7 is here\n")

    (data / "train.fr").write_text("".join(f"{target}\n" for _, target in pairs[:-1]))
    error = regard(*options, "--out", tmp_path / "bad", code=2)
    assert "train.fr" in error and "299" in error and "300" in error
    (data / "train.fr").write_text("".join(f"{target if n != 41 else ''}\n" for n, (_, target) in enumerate(pairs)))
    error = regard(*options, "--out", tmp_path / "bad", code=2)
    assert "train.fr" in error and "42" in error
    out = regard(*options, "--out", tmp_path / "skipped", "--skip-bad")
    assert "1" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "translate-toi"], "translate-toy"),
        (["train", "translate-toy", "hiden=3"], "hidden"),
        (["train", "translate", "--data", "nowhere/at/all"], "nowhere"),
        (["predict", "translate-en-eo"], "neither the folder of a run"),
        (["evaluate", "nothing-here"], "neither the folder of a run"),
        (["data", "get", "multi30"], "multi30k"),
        (["list", "recipies"], "recipes"),
    ],
)
def test_mistakes_get_one_clear_line(arguments, message, tmp_path):
    error = regard(*arguments, cwd=tmp_path, code=2)
    assert message in error and len(error.strip().splitlines()) == 1


def test_a_run_is_not_overwritten(run):
    error = regard("train", "translate-toy", "--out", run, code=2)
    assert "--resume" in error


def test_odd_sentences(run):
    lines = ["🙂", "مرحبا بالعالم", "深度學習", "word " * 3000, "<script>"]
    out = regard("predict", run, stdin="\n".join(lines) + "\n")
    assert len(out.splitlines()) == 5


def test_a_corrupt_checkpoint_is_named(run, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    for path in copy.glob("models/*.safetensors"):
        path.write_bytes(path.read_bytes()[:100])
    error = regard("predict", copy, stdin="a\n", code=2)
    assert ".safetensors" in error
    facts = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps({**facts, "format": 99}))
    assert "99" in regard("predict", copy, stdin="a\n", code=2)

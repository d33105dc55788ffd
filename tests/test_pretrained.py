"""The models that come with the package: small, attributed, and able to do what they are shipped for."""

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import soundfile
import torch

from regard import registry
from regard.data.download import locate
from regard.metrics import alignment
from regard.metrics.transcripts import errors
from regard.predictors.predictor import Predictor

TRANSLATORS = ("translate-en-es", "translate-en-es-rnn")


def held_out(name):
    """The folder of a data set, or a skip that says so."""
    try:
        return str(locate(name))
    except ValueError:
        pytest.skip(f"{name} is not on this machine: set REGARD_DATA")


@pytest.mark.parametrize("name", registry.shipped())
class TestShipped:
    def test_it_is_small_and_says_where_its_data_came_from(self, name):
        folder = registry.PRETRAINED / name
        assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= 16e6
        notice = (folder / "NOTICE").read_text()
        assert "trained on" in notice and "licence" in notice.lower()
        stored = safetensors.torch.load_file(folder / "models" / "best.safetensors")
        assert {tensor.dtype for tensor in stored.values() if tensor.is_floating_point()} == {torch.float16}
        assert not (folder / "checkpoints").exists()

    def test_it_opens(self, name):
        model = Predictor.open(name)
        assert all(torch.isfinite(parameter).all() for parameter in model.model.parameters())


@pytest.mark.parametrize("name", TRANSLATORS)
class TestTranslators:
    def test_the_lectures_example(self, name):
        ((best,),) = Predictor.open(name).predict(["I love coffee."])
        assert "café" in best.text
        coffee = best.weights[[word.strip(".") for word in best.words].index("café")]
        assert best.source_words[int(coffee.argmax())].startswith("coffee")

    def test_sentences_that_it_has_not_seen(self, name):
        """A look at the first of 2,000 held-out sentences; `regard evaluate` measures them all."""
        model = Predictor.open(name, data=held_out("tatoeba"))
        assert model.evaluate("test", limit=150)["bleu"] > 30

    def test_from_the_command_line_without_data(self, name, tmp_path):
        done = subprocess.run(
            [sys.executable, "-m", "regard.cli", "predict", name],
            input="I love coffee.\n\nWhere is my cat?\n", text=True, capture_output=True, cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        first, empty, last = done.stdout.splitlines()
        assert "café" in first and empty == "" and "gato" in last


class TestMachines:
    def test_a_story_is_answered(self):
        model = Predictor.open("memn2n-babi")
        story = ["John moved to the garden.", "Mary went to the kitchen.", "John journeyed to the bathroom."]
        found = model.predict(story, "Where is John?")
        assert found.text == "bathroom" and int(found.weights[-1].argmax()) == 2
        assert model.predict(story, "Where is Mary?").text == "kitchen"

    def test_stories_that_it_has_not_seen(self):
        found = Predictor.open("memn2n-babi", data=held_out("babi")).evaluate(limit=200)
        assert found["error"] < 16 and found["tasks_solved"] >= 8 and found["chain, task 16"] > 70

    def test_a_tape_is_copied_far_beyond_what_was_trained(self):
        found = Predictor.open("ntm-copy").evaluate(limit=20)
        assert found["bits_per_sequence"] < 0.1 and found["errors_at_40"] <= 1 and found["errors_at_120"] <= 5
        assert found["errors_at_120_512_rows"] <= 5


def test_pictures_that_it_has_not_seen_are_drawn():
    """A look at the first of the test split; `regard evaluate` measures them all."""
    assert Predictor.open("draw-mnist", data=held_out("mnist")).evaluate("test", limit=4)["bound"] < 100


@pytest.mark.parametrize(
    ("name", "data", "most"),
    [("ram-mnist", "mnist", 3.0), ("foveal-mnist", "mnist", 4.0), ("stn-cluttered", "cluttered-mnist", 4.0)],
)
class TestDigits:
    def test_digits_that_it_has_not_seen(self, name, data, most):
        """A look at the first of the test split; `regard evaluate` measures them all."""
        model = Predictor.open(name, data=held_out(data))
        assert model.evaluate("test", limit=10)["error"] < most

    def test_it_shows_where_it_looks_without_data(self, name, data, most, tmp_path):
        done = subprocess.run(
            [sys.executable, "-m", "regard.cli", "show", name, "--out", "looks.png"],
            text=True, capture_output=True, cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "these are its first test pictures" in done.stdout and done.stdout.count("right") == 4
        assert (tmp_path / "looks.png").stat().st_size > 10_000


class TestTwoDigits:
    def test_pairs_that_it_has_not_seen(self):
        """A look at the first of the test split; `regard evaluate` measures them all."""
        found = Predictor.open("dram-two", data=held_out("mnist")).evaluate("test", limit=10)
        assert found["error"] < 4 and found["ordered"] > 0.95

    def test_it_reads_drawn_digits_without_data(self, tmp_path):
        done = subprocess.run(
            [sys.executable, "-m", "regard.cli", "show", "dram-two", "0", "1", "--out", "looks.png"],
            text=True, capture_output=True, cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "these digits are drawn" in done.stdout and "right" in done.stdout
        assert (tmp_path / "looks.png").stat().st_size > 10_000


class TestClips:
    def test_clips_that_it_has_not_seen(self):
        """A look at the first of the test split; `regard evaluate` measures them all."""
        found = Predictor.open("video-moves").evaluate("test", limit=60)
        assert found["bleu4"] > 95 and found["order"] > 95 and found["pointing"] > 70


class TestScenes:
    def test_captions_of_scenes_that_it_has_not_seen(self):
        """A look at the first of 500; `regard evaluate` measures them all."""
        found = Predictor.open("caption-scenes").evaluate("test", limit=80)
        assert found["bleu4"] > 88 and found["true"] > 75 and found["pointing"] > 60

    def test_questions_about_scenes_that_it_has_not_seen(self):
        """A look at the first of 2,000; `regard evaluate` measures them all."""
        found = Predictor.open("vqa-scenes").evaluate("test", limit=400)
        assert min(found["exist"], found["colour"], found["shape"]) > 97 and found["relation"] > 85

    @pytest.mark.parametrize("name", ["caption-scenes", "vqa-scenes"])
    def test_it_shows_where_it_looks_without_data(self, name, tmp_path):
        done = subprocess.run(
            [sys.executable, "-m", "regard.cli", "show", name, "example=3", "--out", "looks.png"],
            text=True, capture_output=True, cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "looks.png").stat().st_size > 10_000


def test_a_line_is_written_that_can_be_read():
    found = Predictor.open("handwriting-letters").evaluate("test", limit=20)
    assert found["read"] > 90 and found["window"] > 0.95 and found["stopped"] > 85


def test_a_hidden_digit_is_followed():
    found = Predictor.open("gaze-track").evaluate("test", limit=1)
    assert found["centre_error"] < 4


class TestGPT:
    def test_text_that_it_has_not_seen(self):
        """A look at the first windows of the last tenth; `regard evaluate` measures it all."""
        held_out("text")
        assert Predictor.open("gpt-shakespeare").evaluate("test", limit=4)["nats_per_character"] < 1.7

    def test_it_goes_on_without_data(self, tmp_path):
        done = subprocess.run(
            [sys.executable, "-m", "regard.cli", "show", "gpt-shakespeare", "length=60", "--out", "looks.png"],
            text=True, capture_output=True, cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("What is ") and (tmp_path / "looks.png").stat().st_size > 10_000


class TestTagger:
    def test_sentences_that_it_has_not_seen(self):
        found = Predictor.open("pos-ewt", data=held_out("ud_english_ewt")).evaluate(limit=300)
        assert found["accuracy"] > 92 > found["unigram"]

    def test_the_picture_says_what_else_a_word_may_be(self):
        model = Predictor.open("pos-ewt")
        (answer,) = model.ask([model.Question(text="Weather stations report rain .")])
        lines = answer.pictures[-1].terminal().splitlines()
        assert {"NOUN", "VERB", "PUNCT"} <= set(lines[0].split())
        (tagged,) = model._choices([model.task.read(model.Question(text="Weather stations report rain ."))])
        assert torch.allclose(tagged.probabilities.sum(1), torch.ones(5), atol=1e-5)
        best = tuple(model.task.classes[number] for number in tagged.probabilities.argmax(1))
        assert best == tagged.tags == tuple(answer.fields["tags"])

    def test_from_the_command_line_without_data(self, tmp_path):
        done = subprocess.run(
            [sys.executable, "-m", "regard.cli", "predict", "pos-ewt"], input="I love the coffee near Paris.\n",
            text=True, capture_output=True, cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout == "I/PRON love/VERB the/DET coffee/NOUN near/ADP Paris/PROPN ./PUNCT\n"


class TestSummaries:
    def test_abstracts_that_it_has_not_seen(self):
        """A look at a few; `regard evaluate` measures them all."""
        held_out("text")
        found = Predictor.open("summary-scitldr").evaluate("test", limit=40)
        assert found["rouge_l"] > found["lead_rouge_l"] + 3

    def test_it_copies_rare_words_without_data(self, tmp_path):
        done = subprocess.run(
            [sys.executable, "-m", "regard.cli", "predict", "summary-scitldr"],
            input="We propose Zorbulax, a new method to train recurrent networks. It is fast.\n",
            text=True, capture_output=True, cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "zorbulax" in done.stdout


class TestAgent:
    def test_a_table_is_booked_without_data(self):
        """The agent asks for what is missing, calls, and proposes what the knowledge base answers."""
        from regard.commands.chat import talk

        said = ["hi", "can you book a table", "", "i love italian food", "paris please", "for two people please"]
        said += ["i am looking for a cheap restaurant", "", ""]
        lines = list(talk(Predictor.open("dialog-babi"), {}, iter(said)))
        assert lines[0] == "hello what can i help you with today"
        assert lines[1:4] == ["i'm on it", "any preference on a type of cuisine", "where should it be"]
        assert lines[7] == "api_call italian paris two cheap"
        assert lines[8].startswith("what do you think of this option: resto_paris_cheap_italian")

    def test_dialogues_that_it_has_not_seen(self):
        held_out("dialogue/dialog-babi")
        found = Predictor.open("dialog-babi").evaluate(limit=1500)
        assert found["response"] > 95


class TestSpeech:
    def test_speakers_that_it_has_not_heard(self):
        """A look at the first of 500 strings; `regard evaluate` measures them all."""
        held_out("audiomnist")
        found = Predictor.open("speech-digits").evaluate("test", limit=60)
        assert found["wer"] < 5 and found["tau"] > 0.95

    def test_without_recordings_there_is_no_example(self, tmp_path, monkeypatch):
        monkeypatch.setenv("REGARD_DATA", str(tmp_path))
        monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
        monkeypatch.setenv("HOME", str(tmp_path))
        model = Predictor.open("speech-digits")
        assert model.examples() == []
        quiet = model.Question(sound=wave(np.zeros(8000)))
        assert "silence" in str(model.ask([quiet])[0])

    def test_a_voice_that_it_has_not_heard_is_spelled_from_left_to_right(self):
        """The sentence was said by flite's rms, the voice that is held out."""
        model, expected = Predictor.open("speech-made"), "the old doctor sees a ship on monday"
        sound = (Path(__file__).parent / "spoken.flac").read_bytes()
        ((best, *_),) = model.write([model.task.read(model.Question(sound=sound))])
        assert errors([best.text], [expected])[0]["cer"] < 25
        assert alignment.kendall(best.weights.numpy()) > 0.85

    def test_without_flite_there_is_no_example(self, monkeypatch):
        monkeypatch.setenv("PATH", "")
        assert Predictor.open("speech-made").examples() == []


def wave(samples):
    """The bytes of a WAV file."""
    file = io.BytesIO()
    soundfile.write(file, samples, 8000, format="WAV")
    return file.getvalue()

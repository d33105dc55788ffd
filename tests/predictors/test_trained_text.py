"""Answers to lines of text: by several processes, with 8-bit integers."""

import itertools
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from regard.predictors._processes import spread
from regard.predictors.predictor import Predictor
from regard.predictors.text import CHUNK


def regard(*words, **options):
    return subprocess.run([sys.executable, "-m", "regard.cli", *words], capture_output=True, text=True, **options)


def test_workers_answer_as_one_does(tmp_path):
    """Several chunks with empty lines in between: the same lines in the same order."""
    sentences = ["the old cat sees a house " * (n % 5 + 1) if n % 7 else "" for n in range(CHUNK + 40)]
    file = tmp_path / "sentences.txt"
    file.write_text("\n".join(sentences) + "\n")
    alone = list(Predictor.open("translate-toy-luong").answer(file, alignments=True))
    assert len(set(alone)) == 6
    done = regard("predict", "translate-toy-luong", str(file), "--alignments", "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == alone and len(alone) == len(sentences)


def test_an_endless_stream_is_answered_as_it_comes():
    answers = spread(os.path.basename, (f"a/{n}" for n in itertools.count()), 2)
    assert list(itertools.islice(answers, 20)) == [str(n) for n in range(20)]
    answers.close()


def test_a_worker_that_fails_says_why():
    with pytest.raises(TypeError, match="NoneType"):
        list(spread(os.path.basename, [None], 2))


@pytest.mark.parametrize("name", ["translate-en-es", "translate-en-es-rnn"])
def test_int8_says_nearly_the_same(name):
    sentences = ["I love coffee.", "Where is the station?", "She has two brothers.", "It is raining."]
    exact = Predictor.open(name)
    rounded = Predictor.open(name).int8()
    assert not any(isinstance(module, torch.nn.Linear) for module in rounded.model.modules())
    pairs = zip(exact.predict(sentences), rounded.predict(sentences))
    same = [one.text == other.text for (one,), (other,) in pairs]
    assert sum(same) >= 3


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent to a group of processes")
def test_ctrl_c_ends_the_workers_without_a_word(tmp_path):
    file = tmp_path / "asked.txt"
    file.write_text("He reads a book every evening before he goes to bed.\n" * 20_000)
    command = [sys.executable, "-m", "regard.cli", "predict", "translate-en-es", str(file), "--workers", "2"]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    running.stdout.readline()  # they are at work
    os.killpg(running.pid, signal.SIGINT)
    _, told = running.communicate(timeout=60)
    assert running.returncode == 130 and "Traceback" not in told
    assert _gone(running.pid), "a process of the group is left"


def _gone(group: int, seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False

"""Loaders: every pair once an epoch, little padding, the same order again, and exact resume."""

import gzip
import itertools
import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

from regard.data import text as _text
from regard.data.tokens import BOS, EOS, Ragged
from regard.tasks._batches import Encoded, PairLoader, bucket, fill
from regard.tasks.translation import Config, Translation


def encoded(number=500, seed=0):
    """Pairs whose target is the source, so that a batch can be checked, with a word more here and there."""
    draw = np.random.default_rng(seed)
    words = [draw.integers(4, 1000, max(1, int(draw.normal(12, 5)))).tolist() for _ in range(number)]
    more = [row + [7] * int(draw.integers(0, 3)) for row in words]
    return Encoded(Ragged.of([[*row, EOS] for row in words]), Ragged.of([[BOS, *row, EOS] for row in more]))


def rows(batches):
    """The source sentences in batches, as tuples without padding."""
    return [
        tuple(row[:length]) for b in batches for row, length in zip(b["source"].tolist(), b["source_lengths"].tolist())
    ]


def same(one, other):
    return len(one) == len(other) and all(
        a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a) for a, b in zip(one, other)
    )


def test_what_a_batch_is():
    for batch in PairLoader(encoded(), tokens=300):
        assert set(batch) == {"source", "source_lengths", "target", "target_lengths"}
        assert all(tensor.dtype == torch.int64 for tensor in batch.values())
        size = len(batch["source"])
        assert {len(tensor) for tensor in batch.values()} == {size}
        for row in range(size):
            s, t = int(batch["source_lengths"][row]), int(batch["target_lengths"][row])
            source, target = batch["source"][row].tolist(), batch["target"][row].tolist()
            assert source[s - 1] == EOS and all(source[:s]) and not any(source[s:])
            assert target[0] == BOS and target[t] == EOS and all(target[: t + 1]) and not any(target[t + 1 :])
            assert [i for i in target[1:t] if i != 7] == [i for i in source[: s - 1] if i != 7]
        assert batch["source"].shape[1] == batch["source_lengths"].max()
        assert batch["target"].shape[1] == batch["target_lengths"].max() + 1


@pytest.mark.parametrize("shuffle", [True, False])
def test_every_pair_once_an_epoch(shuffle):
    data = encoded()
    loader = PairLoader(data, tokens=300, shuffle=shuffle)
    wanted = sorted(tuple(data.source[row].tolist()) for row in range(500))
    for _ in range(2):
        batches = list(loader)
        assert len(batches) == len(loader)
        assert sorted(rows(batches)) == wanted
        assert all(max(b["source"].numel(), b["target"].numel()) <= 300 for b in batches)


def test_a_sentence_longer_than_a_batch_is_a_batch():
    data = Encoded(Ragged.of([[5] * 50, [5], [5]]), Ragged.of([[1, 2]] * 3))
    assert sorted(len(b["source"]) for b in PairLoader(data, tokens=10)) == [1, 2]


def test_little_padding():
    data = encoded(20_000)
    loader = PairLoader(data, tokens=4096)
    slots = real = 0
    for batch in loader:
        slots += batch["source"].numel() + batch["target"].numel()
        real += int((batch["source"] != 0).sum() + (batch["target"] != 0).sum())
    assert loader.filled == pytest.approx(real / slots)
    assert loader.filled > 0.97
    report = loader.report()
    assert f"{100 - 100 * loader.filled:.1f} % padding" in report and "20,000 pairs" in report and "bad" not in report


def test_order_is_a_function_of_seed_and_epoch():
    data = encoded()

    def epochs(seed):
        loader = PairLoader(data, tokens=300, seed=seed)
        return [rows(loader) for _ in range(2)]

    (first, second), (other, _) = epochs(1), epochs(2)
    assert [first, second] == epochs(1)
    assert first != second and first != other


def test_without_shuffling_every_epoch_is_the_same():
    loader = PairLoader(encoded(), tokens=300, shuffle=False)
    assert rows(loader) == rows(loader)


def test_mates_change_from_epoch_to_epoch():
    """Sentences of equal lengths are mixed anew, not only the batches."""
    loader = PairLoader(encoded(5000), tokens=300)
    one, two = ({frozenset(rows([batch])) for batch in loader} for _ in range(2))
    assert len(one & two) < len(one) / 2


def test_bucket_of_nothing_and_fill():
    empty = np.zeros(0, dtype=np.int64)
    assert bucket((empty, empty), 100, np.random.default_rng(0)) == []
    lengths = np.array([2, 4]), np.array([3, 3])
    assert fill(lengths, [np.array([0, 1])]) == 12 / 14


HELD = dict(valid_size=5, test_size=5)
LINES = [(f"{'wort ' * (n % 9)}satz {n}", f"{'word ' * (n % 9)}phrase {n}") for n in range(400)]


@pytest.fixture(params=["memory", "stream", "stream gz", "stream tabs"])
def make(request, tmp_path, monkeypatch):
    """A function that makes a fresh loader of the same data, as after a restart."""
    monkeypatch.setattr(_text, "CHUNK", 4000)
    lines = [*LINES[:100], ("", "bad"), *LINES[100:]]
    if "tabs" in request.param:
        (tmp_path / "train.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in lines))
    else:
        for side, language in enumerate(("de", "en")):
            text = "".join(f"{pair[side]}\n" for pair in lines).encode()
            packed = gzip.compress(text) if "gz" in request.param else text
            (tmp_path / f"train.{language}{'.gz' * ('gz' in request.param)}").write_bytes(packed)
    stream = -1.0 if "stream" in request.param else 256.0
    config = Config(src="de", tgt="en", vocab=400, batch_tokens=120, skip_bad=True, stream_mb=stream, **HELD)
    task = Translation(config, tmp_path)

    def loader(seed=3):
        return Translation(config, tmp_path, known=task.known).loader("train", seed=seed)

    loader.task = task
    return loader


def test_exact_resume_in_the_middle_of_an_epoch(make):
    loader = make()
    wanted, states = [], [json.dumps(loader.state_dict())]
    for _ in range(2):
        for batch in loader:
            wanted.append(batch)
            states.append(json.dumps(loader.state_dict()))
    per_epoch = len(wanted) // 2
    assert per_epoch > 20
    assert loader.epoch == 2
    for k in (0, 1, per_epoch // 2, per_epoch - 1, per_epoch, per_epoch + 1, len(wanted) - 1, len(wanted)):
        resumed = make()
        resumed.load_state_dict(json.loads(states[k]))
        rest = []
        while resumed.epoch < 2:
            rest += resumed
        assert same(rest, wanted[k:]), f"after batch {k}"


def test_every_pair_once_an_epoch_from_files(make):
    loader = make()
    wanted = [(*make.task.source.encode(text), EOS) for text in make.task.pairs("train").source]
    assert 300 < len(wanted) <= 390
    for _ in range(2):
        assert sorted(rows(loader)) == sorted(wanted)


def test_bad_lines_are_counted_once_an_epoch_and_over_a_restart(make):
    loader = make()
    batches = iter(loader)
    for _ in itertools.islice(batches, 25):
        pass
    state = json.loads(json.dumps(loader.state_dict()))
    for _ in batches:
        pass
    assert loader.bad.counts == {"empty": 1}
    resumed = make()
    resumed.load_state_dict(state)
    list(resumed)
    assert resumed.bad.counts == {"empty": 1}
    assert ":101)" in resumed.report()


def test_other_data_or_settings_cannot_be_resumed(make):
    state = make().state_dict()
    with pytest.raises(ValueError, match=r"cannot go on where it stopped: seed was 3 and is 4"):
        make(seed=4).load_state_dict(state)


def test_changed_data_cannot_be_resumed():
    state = PairLoader(encoded(seed=0), tokens=300).state_dict()
    with pytest.raises(ValueError, match=r"text was \d+ and is \d+"):
        PairLoader(encoded(seed=1), tokens=300).load_state_dict(state)


def test_a_stream_has_no_length(tmp_path):
    (tmp_path / "train.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in LINES))
    loader = Translation(Config(vocab=300, stream_mb=-1.0), tmp_path).loader("train")
    with pytest.raises(TypeError, match="stream"):
        len(loader)
    assert loader.report().splitlines()[-1] == "streamed from disk"
    next(iter(loader))
    assert "% padding" in loader.report()


STREAM = textwrap.dedent(
    """
    import random, resource, sys, time
    from pathlib import Path
    import torch
    from regard.data import text as _text
    from regard.tasks.translation import Config, Translation

    folder, megabytes, _text.CHUNK = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[4])
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghiklmnoprstuvz", k=draw.randint(4, 12))) for _ in range(600)]
    block = [" ".join(draw.choices(words, k=draw.randint(3, 25))) for _ in range(10_000)]
    written = number = 0
    with open(folder / "train.en", "w") as source, open(folder / "train.de", "w") as target:
        while written < megabytes * 1e6:
            text = "".join(f"{line} {number + n}\\n" if n % 5 == 0 else f"{line}\\n" for n, line in enumerate(block))
            source.write(text)
            target.write(text.upper())
            written, number = written + 2 * len(text), number + len(block)
    del words, block, text

    def now():
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6

    Translation(Config(src="en", tgt="de", vocab=300, valid_size=1, test_size=1), sys.argv[3]).loader("train")
    model = torch.nn.Embedding(8000, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = peak = now()
    began = time.perf_counter()
    task = Translation(Config(src="en", tgt="de", stream_mb=1.0), folder)
    loader = task.loader("train", seed=1)
    tokens = steps = 0
    for batch in loader:
        tokens += int(batch["target_lengths"].sum())
        steps += 1
        if steps % 20 == 0:
            peak = max(peak, now())
            model(batch["target"][:1]).sum().backward()
            optimizer.step()
    seconds = time.perf_counter() - began
    print(loader.epoch, tokens, steps, round(peak - before), round(tokens / seconds))
    """
)


def stream(folder, megabytes, chunk=_text.CHUNK):
    """Train on generated files of N megabytes in a process of its own; RSS growth in MB and tokens/s."""
    (folder / "tiny").mkdir()
    (folder / "tiny" / "train.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in LINES))
    command = [sys.executable, "-c", STREAM, str(folder), str(megabytes), str(folder / "tiny"), str(chunk)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    epochs, tokens, _, growth, speed = map(int, done.stdout.split())
    assert epochs == 1 and tokens > megabytes * 5e4
    return growth, speed


needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/statm")


@needs_proc
def test_streaming_needs_little_memory(tmp_path):
    growth, _ = stream(tmp_path, 6, chunk=1 << 20)
    assert growth < 100


def test_streaming_reads_no_further_than_it_must(tmp_path, monkeypatch):
    monkeypatch.setattr(_text, "CHUNK", 50_000)
    (tmp_path / "train.tsv").write_text("".join(f"{s} {n}\t{t} {n}\n" for n in range(100) for s, t in LINES))
    loader = Translation(Config(vocab=300, stream_mb=0.1, batch_tokens=500), tmp_path).loader("train")
    with open(tmp_path / "train.tsv", "rb", buffering=1000) as file:
        monkeypatch.setattr(_text, "open_bytes", lambda path: file)
        batches = iter(loader)
        next(batches)
        assert file.tell() < 60_000


@needs_proc
@pytest.mark.slow
def test_streaming_two_gigabytes(tmp_path):
    growth, speed = stream(tmp_path, 2000)
    assert growth < 300
    assert speed > 50_000

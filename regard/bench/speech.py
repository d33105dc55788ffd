"""``regard bench speech``: features, location-aware attention, pyramids and whole utterances."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import regard
from regard import decode, masks
from regard.bench.measure import Case, Row, report
from regard.data import made_speech, sound
from regard.data.sound import Mel
from regard.scores import LocationAware
from regard.systems import attention_recognizer, listen_attend_spell

RATE = Mel().rate


def run(json_file: Path | None = None, quick: bool = False, only: str = "") -> list[Row]:
    """Measure the rows whose name holds ``only``, print the tables, and write the first as JSON if asked."""
    seconds = 0.1 if quick else 0.5
    rows = report(cases, threads=(1,) if quick else (1, 2), seconds=seconds, only=only, json_file=json_file)
    if not only:
        print("\nA step of training, the pyramid against flat listeners:\n", *pyramids(seconds=seconds), sep="\n")
        print("\nOne utterance from its wave to its text, a beam of 4:\n", *utterances(seconds=seconds), sep="\n")
    return rows


def cases() -> Iterator[Callable[[], Case]]:
    """Built one by one, so that only one's tensors are in memory."""
    yield partial(features, 4.0)
    yield partial(features, 30.0)
    yield partial(step, 1, 100, 256, 201)
    yield partial(step, 20, 400, 256, 201)
    yield partial(steps, 16, 20, 200, 128, 31)
    yield partial(steps, 16, 40, 400, 256, 201)


def features(seconds: float) -> Case:
    """The log-mel features of a wave; against torch.stft, and torchaudio where it is installed."""
    wave, mel = 0.1 * torch.randn(round(seconds * RATE)), Mel()
    filters, window = sound.filters(mel), torch.hann_window(mel.size)

    def eager() -> Tensor:
        spectrum = torch.stft(wave, mel.size, mel.step, window=window, center=False, return_complex=True)
        return torch.log(spectrum.abs().square().T @ filters + 1e-6)

    contenders: dict[str, Callable[[], Tensor]] = {"ours": lambda: sound.log_mel(wave, mel), "eager": eager}
    if importlib.util.find_spec("torchaudio"):
        transforms: Any = importlib.import_module("torchaudio.transforms")
        theirs = transforms.MelSpectrogram(RATE, mel.size, hop_length=mel.step, n_mels=mel.bands, center=False)
        contenders["torchaudio"] = lambda: torch.log(theirs(wave) + 1e-6).T
    work = f"log-mel of {seconds:.0f} s, {mel.bands} bands"
    return Case(work, contenders, (), "≥ 1× torchaudio", ("forward",), 1e-3)


class _Plain:
    """Location-aware attention in plain PyTorch, its keys projected once."""

    def __init__(self, score: LocationAware, encoded: Tensor, lengths: Tensor):
        self.score, self.encoded = score, encoded
        self.key = score.key(encoded)  # (B, S, D)
        self.present = torch.arange(encoded.shape[1]) < lengths[:, None]

    def start(self) -> Tensor:
        return self.present / self.present.sum(-1, keepdim=True)

    def look(self, query: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        score = self.score
        location = score.location(score.convolution(last[:, None]).mT)
        scores = torch.tanh(score.query(query)[:, None] + self.key + location) @ score.v  # (B, S), after (B, S, D)
        weights = torch.softmax(scores.masked_fill(~self.present, float("-inf")), -1)
        return (weights[:, None] @ self.encoded)[:, 0], weights


def _made(batch: int, length: int, width: int, kernel: int) -> tuple[LocationAware, Tensor, Tensor]:
    score = LocationAware(width, 2 * width, width, 10, kernel)
    lengths = torch.linspace(length // 2, length, batch).long()
    return score, torch.randn(batch, length, 2 * width), lengths


def step(batch: int, length: int, width: int, kernel: int) -> Case:
    """One query of a decoder."""
    score, encoded, lengths = _made(batch, length, width, kernel)
    query, attention = torch.randn(batch, width), regard.Attention(score)
    with torch.no_grad():
        memory, plain = attention.remember(encoded, mask=masks.lengths(lengths)), _Plain(score, encoded, lengths)
        state, last = attention.start(memory), plain.start()
    contenders: dict[str, Callable[[], Tensor]] = {
        "ours": lambda: attention(query[:, None], memory, state=state).context[:, 0],
        "eager": lambda: plain.look(query, last)[0],
    }
    work = f"location-aware, one query, B={batch} S={length} D={width}, kernel {kernel}"
    return Case(work, contenders, (), "≥ 3× eager", ("forward",), 1e-3)


def steps(batch: int, queries: int, length: int, width: int, kernel: int) -> Case:
    """The queries of a transcript, each after the weights of that before, and the gradients of all."""
    score, encoded, lengths = _made(batch, length, width, kernel)
    query, attention = torch.randn(batch, queries, width), regard.Attention(score)

    def ours() -> Tensor:
        memory = attention.remember(encoded, mask=masks.lengths(lengths))
        state, contexts = attention.start(memory), []
        for query_t in query.unbind(1):
            out = attention(query_t[:, None], memory, state=state)
            state = out.state
            contexts.append(out.context[:, 0])
        return torch.stack(contexts, 1)

    def eager() -> Tensor:
        plain = _Plain(score, encoded, lengths)
        last, contexts = plain.start(), []
        for query_t in query.unbind(1):
            context, last = plain.look(query_t, last)
            contexts.append(context)
        return torch.stack(contexts, 1)

    work = f"location-aware, B={batch} T={queries} S={length} D={width}, kernel {kernel}"
    inputs = [query, encoded, *score.parameters()]
    return Case(work, {"ours": ours, "eager": eager}, inputs, "≥ 3× eager", ("forward+backward",), 1e-3)


def _batch(batch: int, frames: int, tokens: int) -> dict[str, Tensor]:
    target = torch.randint(4, 30, (batch, tokens + 1))
    lengths = torch.full((batch,), frames)
    return {
        "frames": torch.randn(batch, frames, 120),
        "frame_lengths": lengths,
        "target": target,
        "target_lengths": torch.full((batch,), tokens),
    }


def pyramids(batch: int = 16, frames: int = 400, tokens: int = 20, width: int = 128, seconds: float = 1.0) -> list[str]:
    """Lines of a table: milliseconds of a step of training of Listen, Attend and Spell, forward and backward."""
    data = _batch(batch, frames, tokens)
    lines = ["| listener | steps to look at | ms | × flat |", "|---|---|---|---|"]
    flat = 0.0
    for pyramid in (0, 1, 2, 3):
        torch.manual_seed(0)
        shape: dict[str, Any] = {"listener": width, "speller": 2 * width, "pyramid": pyramid}
        model = listen_attend_spell.ListenAttendSpell(listen_attend_spell.Config(30, 120, **shape))

        def train(model: torch.nn.Module = model) -> None:
            model.zero_grad()
            model(data)["loss"].backward()

        milliseconds = _milliseconds(train, seconds)
        flat = flat or milliseconds
        name = f"1 layer + {pyramid} pyramidal" if pyramid else "1 layer"
        lines.append(f"| {name} | {-(-frames // 2**pyramid)} | {milliseconds:.0f} | {flat / milliseconds:.2f} |")
    # As deep as the pyramid, without halving.
    deep = attention_recognizer.Config(30, 120, listener=width, layers=4, cell="lstm", decoder=2 * width, kernel=31)
    level = attention_recognizer.AttentionRecognizer(deep)

    def train_flat() -> None:
        level.zero_grad()
        level(data)["loss"].backward()

    lines.append(f"| 4 layers, none pyramidal | {frames} | {_milliseconds(train_flat, seconds):.0f} | |")
    return lines


def utterances(lengths: tuple[int, ...] = (1, 4, 10), seconds: float = 1.0) -> list[str]:
    """Lines of a table: from a wave to text, by a system of the size of ``speech-digits``, with random weights."""
    shape: dict[str, Any] = {"listener": 128, "layers": 2, "join": 4, "cell": "lstm", "embedding": 32, "decoder": 128}
    score: dict[str, Any] = {"attention": 64, "filters": 8, "kernel": 31, "spacing": 15}
    model = attention_recognizer.AttentionRecognizer(attention_recognizer.Config(14, 120, **shape, **score)).eval()
    random = np.random.default_rng(0)
    voice = made_speech.Voice.drawn(random)
    lines = ["| seconds of sound | ms | share of its duration |", "|---|---|---|"]
    for length in lengths:
        wave = np.resize(made_speech.say(" zero wan tu tri for ", voice, random), length * RATE)

        def recognize(wave: np.ndarray = wave) -> None:
            frames = sound.heard(wave, Mel())[None]
            batch = {"frames": frames, "frame_lengths": torch.tensor([frames.shape[1]])}
            decode.beam(model, batch, size=4, max_length=model.limit(batch))

        with torch.inference_mode():
            milliseconds = _milliseconds(recognize, seconds)
        lines.append(f"| {length} | {milliseconds:.0f} | {milliseconds / 1000 / length:.3f} |")
    return lines


def _milliseconds(run: Callable[[], object], seconds: float) -> float:
    """The median of one run."""
    times: list[float] = []
    run()
    began = time.perf_counter()
    while time.perf_counter() - began < seconds or len(times) < 3:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 1000 * sorted(times)[len(times) // 2]

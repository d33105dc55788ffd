"""When does Whisper hear each word? From the cross-attention of a model of Hugging Face, seen by :func:`regard.record`.

    said = word_times(model, features, prefix, tokens, words, seconds=7.5)
    print(subtitles.written(subtitles.cues(said), "srt"))

Each head's weights are standardized over the tokens and smoothed over time, as in OpenAI's own code; the mean of the
chosen heads is made monotone by dynamic time warping (:mod:`regard.metrics.times`). One window of 30 seconds is one
call, and only the chosen layers are recorded, so that the memory does not grow with the length of a recording.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from regard.metrics import times
from regard.metrics.times import Said
from regard.tape import record

STEP = 0.02
"""Seconds of a state of Whisper's encoder."""
_CROSS = re.compile(r"(?:.*\.)?decoder\.layers\.(\d+)\.encoder_attn")


@torch.no_grad()
def word_times(
    model: nn.Module,
    features: Tensor,
    prefix: Sequence[int],
    tokens: Sequence[int],
    words: Sequence[tuple[str, int, int]],
    *,
    seconds: float,
    heads: Sequence[tuple[int, int]] | None = None,
    smooth: int = 7,
) -> list[Said]:
    """The time of each word of a transcript that is known, such as the model's own.

    Args:
        model: ``WhisperForConditionalGeneration`` or one like it.
        features: (1, bands, frames), what its processor makes of a window of sound.
        prefix: the tokens before the text: start, language, task, no timestamps.
        tokens: those of the text.
        words: each with the numbers of its tokens, from one to before another.
        seconds: of sound in the window; the rest of it is padding.
        heads: (layer, head) of those that align, ``generation_config.alignment_heads``; all of the upper half of the
            layers if None.
        smooth: steps over which the median is taken, an odd number.
    """
    if not prefix or not tokens:
        raise ValueError("word_times needs the tokens before the text, and at least one of the text")
    if smooth < 1 or smooth % 2 == 0:
        raise ValueError(f"smooth= is an odd number of steps, not {smooth}")
    for word, first, last in words:
        if not 0 <= first < last <= len(tokens):
            raise ValueError(f"the word {word!r} is made of the tokens {first} to {last - 1}, of {len(tokens)}")
    names = [name for name, _ in model.named_modules()]
    layers = {int(matched[1]): name for name in names if (matched := _CROSS.fullmatch(name))}
    if not layers:
        raise ValueError(f"{type(model).__name__} has no decoder.layers.N.encoder_attn, the attention of Whisper")
    chosen = sorted({layer for layer, _ in heads}) if heads else [layer for layer in layers if 2 * layer >= len(layers)]
    if missing := [layer for layer in chosen if layer not in layers]:
        raise ValueError(f"there is no layer {missing[0]}: they are 0 to {max(layers)}")
    written = torch.tensor([[*prefix, *tokens]], device=features.device)
    training = model.training
    model.eval()
    try:
        with record(model, only=[layers[layer] for layer in chosen]) as tape:
            model(input_features=features, decoder_input_ids=written)
    finally:
        model.train(training)
    columns = max(1, min(round(seconds / STEP), tape[layers[chosen[0]]].weights.shape[-1]))
    per_head: list[np.ndarray] = []
    for layer in chosen:
        weights = tape[layers[layer]].weights[0, :, len(prefix) - 1 :, :columns].double().cpu().numpy()  # (H, T + 1, S)
        layer_heads = [head for number, head in heads if number == layer] if heads else range(len(weights))
        if missing := [head for head in layer_heads if not 0 <= head < len(weights)]:
            raise ValueError(f"layer {layer} has no head {missing[0]}: they are 0 to {len(weights) - 1}")
        per_head += [weights[head] for head in layer_heads]
    mean = np.mean([_smoothed(_standard(maps), smooth) for maps in per_head], axis=0)
    return times.said(np.mean(per_head, axis=0)[:-1], words, STEP, spans=times.warp(mean)[:-1])


def _standard(weights: np.ndarray) -> np.ndarray:
    """Each step's weights with mean 0 and deviation 1 over the tokens."""
    return (weights - weights.mean(0)) / np.maximum(weights.std(0), 1e-9)


def _smoothed(values: np.ndarray, width: int) -> np.ndarray:
    """The median over ``width`` steps around each."""
    around = np.pad(values, ((0, 0), (width // 2, width // 2)), mode="edge")
    return np.median(np.lib.stride_tricks.sliding_window_view(around, width, axis=-1), axis=-1)

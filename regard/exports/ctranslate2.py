"""A Transformer for CTranslate2, a C++ engine for decoding.

    regard export runs/my-translator --to ctranslate2 --out engine

docs/exporting.md has the lines that translate with it. Beside CTranslate2's own files, ``source.json`` and
``target.json`` hold the tokenizers, for the ``tokenizers`` library. The tokens of a sentence go in without special
ones: the engine adds the end of the sentence itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor, nn

from regard.layers.transformer import positions
from regard.systems.transformer import Transformer

if TYPE_CHECKING:
    from regard.predictors.text import Text

LONGEST = 1024  # positions that the engine knows


def write(trained: Text, folder: Path, quantization: str | None = None) -> None:
    """Write model, vocabularies and tokenizers. ``quantization`` is CTranslate2's, for example int8."""
    try:
        from ctranslate2 import specs  # type: ignore[import-untyped]
    except ImportError:
        raise ValueError("the export to CTranslate2 needs its package: pip install ctranslate2") from None

    model = trained.model
    if not isinstance(model, Transformer):
        raise ValueError(f"{trained.name} is a {type(model).__name__}: CTranslate2 runs only Transformers")
    config = model.config
    if (config.score, config.normalizer) != ("scaled_dot", "softmax"):
        raise ValueError(
            f"CTranslate2 has no {config.score} score with {config.normalizer}, only scaled_dot and softmax"
        )
    spec = specs.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.heads,
        pre_norm=config.norm == "pre",
        activation=specs.common_spec.Activation.RELU,
        alignment_layer=config.alignment_layer,
        alignment_heads=int(config.alignment_head == 0),  # the first head, or the mean of all
    )
    table = _array(positions(LONGEST, config.dim))
    for side, stack, embedding in (
        (spec.encoder, model.encoder, model.source),
        (spec.decoder, model.decoder, model.target),
    ):
        words = side.embeddings[0] if isinstance(side.embeddings, list) else side.embeddings
        words.weight = _array(embedding.words.weight)
        side.position_encodings.encodings = table
        if config.norm == "pre":
            _norm(side.layer_norm, stack.norm)
        for theirs, ours in zip(side.layer, stack.layers, strict=True):
            _layer(theirs, ours)
    _linear(spec.decoder.projection, model.output)
    spellings = {"source": trained.task.source, "target": trained.task.target}
    spec.register_source_vocabulary(_tokens(spellings["source"]))
    spec.register_target_vocabulary(_tokens(spellings["target"]))
    spec.config.add_source_eos = True
    _, bos, eos, unknown = _tokens(spellings["target"])[:4]
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = bos, eos, unknown
    spec.config.decoder_start_token = bos
    spec.validate()
    spec.optimize(quantization=quantization)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))
    for name, spelling in spellings.items():
        (folder / f"{name}.json").write_text(spelling.backend.to_str(), encoding="utf-8")


def _layer(theirs: Any, ours: Any) -> None:
    own = theirs.self_attention
    _linear(own.linear[0], ours.own.query, ours.own.key, ours.own.value)
    _linear(own.linear[1], ours.own.out)
    _norm(own.layer_norm, ours.around_own.norm)
    if hasattr(ours, "cross"):
        cross = theirs.attention
        _linear(cross.linear[0], ours.cross.query)
        _linear(cross.linear[1], ours.cross.key, ours.cross.value)
        _linear(cross.linear[2], ours.cross.out)
        _norm(cross.layer_norm, ours.around_cross.norm)
    _linear(theirs.ffn.linear_0, ours.think[0])
    _linear(theirs.ffn.linear_1, ours.think[2])
    _norm(theirs.ffn.layer_norm, ours.around_think.norm)


def _linear(theirs: Any, *ours: nn.Linear) -> None:
    """Several of the same input become one."""
    theirs.weight = np.concatenate([_array(linear.weight) for linear in ours])
    if ours[0].bias is not None:
        theirs.bias = np.concatenate([_array(linear.bias) for linear in ours])


def _norm(theirs: Any, ours: Any) -> None:
    theirs.gamma, theirs.beta = _array(ours.weight), _array(ours.bias)


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().float().cpu().numpy().copy()  # it scales what it quantizes in place


def _tokens(spelling: Any) -> list[str]:
    """The names of the tokens, by number."""
    return [spelling.backend.id_to_token(number) for number in range(len(spelling))]

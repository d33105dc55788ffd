"""Any system that writes text, for ONNX: two graphs, as decoding uses a system.

    start.onnx    source (B, S), source_lengths (B,) → state_0, state_1, …
    step.onnx     token (B,), state_0, … → log_probs (B, V), alignment (B, S), next_0, next_1, …

Each ``next_i`` is the ``state_i`` of the step after; B, S and the length of caches are free. ``about.json`` has the ids
of the special tokens, ``source.json`` and ``target.json`` the tokenizers, for the ``tokenizers`` library.
docs/exporting.md has the lines that decode with onnxruntime.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.utils._pytree import tree_flatten, tree_unflatten

from regard import kernels, masks
from regard.memory import Memory

if TYPE_CHECKING:
    from regard.predictors.text import Text


def write(trained: Text, folder: Path, quantization: str | None = None) -> None:
    """Write the two graphs and what is needed beside them."""
    try:
        import onnx
        import onnxscript
    except ImportError:
        raise ValueError("the export to ONNX needs two packages: pip install onnx onnxscript") from None
    del onnx, onnxscript
    if quantization is not None:
        raise ValueError("onnxruntime quantizes graphs itself: onnxruntime.quantization.quantize_dynamic")
    if not hasattr(trained.model, "step"):
        raise ValueError(f"{trained.name} is a {type(trained.model).__name__}, which writes no text")
    model, special = trained.model.eval(), {"pad": 0, "bos": 1, "eos": 2, "unknown": 3}
    # Sizes of 0 and 1 are taken for constants, so every size of the example is larger.
    source, lengths = torch.tensor([[5, 6, 7, 8, 2], [9, 8, 2, 0, 0], [4, 5, 6, 2, 0]]), torch.tensor([5, 3, 4])
    token = torch.full((len(source),), special["bos"])
    folder.mkdir(parents=True, exist_ok=True)
    with torch.no_grad(), kernels.use("plain"):
        start = Start(model)
        _export(start, (source, lengths), ["source", "source_lengths"], "state", folder / "start.onnx")
        state = model.start({"source": source, "source_lengths": lengths})
        for _ in range(2):
            _, state = model.step(token, state)
        tensors = flat(state)
        names = ["token", *(f"state_{number}" for number in range(len(tensors)))]
        _export(Step(model, state), (token, *tensors), names, "next", folder / "step.onnx")
    facts = {"system": type(model).__name__, "special": special, "states": len(tensors)}
    (folder / "about.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    for name, spelling in (("source", trained.task.source), ("target", trained.task.target)):
        (folder / f"{name}.json").write_text(spelling.backend.to_str(), encoding="utf-8")


class Start(nn.Module):
    """A system's ``start`` with its state as a list of tensors."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model.eval()

    def forward(self, source: Tensor, source_lengths: Tensor) -> tuple[Tensor, ...]:
        tensors = flat(self.model.start({"source": source, "source_lengths": source_lengths}))
        # onnxruntime refuses the reshaping of an empty cache, by which it came about.
        return tuple(
            t.new_zeros(t.shape) if any(type(size) is int and size == 0 for size in t.shape) else t for t in tensors
        )


class Step(nn.Module):
    """A system's ``step``, likewise. ``example`` is a state, for its structure."""

    def __init__(self, model: Any, example: Any):
        super().__init__()
        self.model, self.example = model.eval(), example

    def forward(self, token: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        logits, state = self.model.step(token, shaped(tensors, self.example))
        # The exporter of torch 2.6 gives an input that is also an output the output's name.
        new_tensors = (t.clone() if any(t is old for old in tensors) else t for t in flat(state))
        return logits.log_softmax(-1), self.model.alignment(state), *new_tensors


def flat(state: Any) -> list[Tensor]:
    """The tensors of a state; of a memory its keys, values and, if it has a mask, how many may be attended."""
    tensors: list[Tensor] = []
    for leaf in tree_flatten(state)[0]:
        if isinstance(leaf, Memory):
            mask: Any = leaf.mask
            rows = [leaf.key.contiguous(), leaf.value.contiguous()]  # an exporter takes other strides for a rule
            tensors += [*rows, *([] if mask is None else [mask.lengths])]
        else:
            tensors.append(leaf)
    return tensors


def shaped(tensors: Sequence[Tensor], example: Any) -> Any:
    """The opposite of :func:`flat`."""
    leaves, structure = tree_flatten(example)
    queue = iter(tensors)
    rebuilt: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, Memory):
            key, value = next(queue), next(queue)
            mask = None if leaf.mask is None else masks.lengths(next(queue))
            rebuilt.append(Memory(key, value, mask, leaf.project, leaf.group))
        else:
            rebuilt.append(next(queue))
    return tree_unflatten(rebuilt, structure)


def _export(module: nn.Module, args: tuple[Tensor, ...], names: list[str], out: str, path: Path) -> None:
    fixed = ["log_probs", "alignment"] if isinstance(module, Step) else []
    outputs = [*fixed, *(f"{out}_{number}" for number in range(len(module(*args)) - len(fixed)))]
    options: dict[str, Any] = {"input_names": names, "output_names": outputs, "verbose": False}
    if isinstance(module, Start) and any(isinstance(part, nn.RNNBase) for part in module.modules()):
        # The newer exporter unrolls a recurrent layer to the length of the example.
        axes: Any = {name: {axis: f"{name}_{axis}" for axis in range(arg.ndim)} for name, arg in zip(names, args)}
        options |= {"dynamo": False, "f": str(path), "dynamic_axes": axes}
    else:
        shapes: list[Any] = [dict.fromkeys(range(arg.ndim), Dim.AUTO) for arg in args]
        shapes = [shapes[0], tuple(shapes[1:])] if isinstance(module, Step) else shapes
        options |= {"dynamo": True, "dynamic_shapes": tuple(shapes)}
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    try:
        logger.setLevel(logging.ERROR)  # it speaks of torchvision
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(module.eval(), args, **options)
        if program is not None:
            program.save(str(path))
    finally:
        logger.setLevel(level)

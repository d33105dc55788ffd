"""LSTMN: an LSTM whose memory is all that it has read.

Cheng, Dong, Lapata 2016, *Long Short-Term Memory-Networks for Machine Reading* (arXiv:1601.06733).

An LSTM keeps one cell; here every token keeps its own. With tapes h₁ … hₜ₋₁ and c₁ … cₜ₋₁, token t looks back
(intra-attention, equations 4 to 6):

    aᵢ = vᵀ tanh(W_h hᵢ + W_x xₜ + W_h̃ h̃ₜ₋₁),  s = softmax(a),  [h̃ₜ; c̃ₜ] = Σᵢ sᵢ [hᵢ; cᵢ]
    i, f, o, ĉ = σ, σ, σ, tanh of W [h̃ₜ; xₜ],  cₜ = f ⊙ c̃ₜ + i ⊙ ĉ,  hₜ = o ⊙ tanh(cₜ)

So the query is the token with the last context h̃ₜ₋₁, keys are the hidden tape, values both tapes. Of a pair, the
second sentence also looks at the tapes of the first (inter-attention, section 4), with the context [γ̃ₜ; α̃ₜ]. With
``fusion="shallow"`` γ̃ₜ is concatenated to hₜ; with ``"deep"`` α̃ₜ enters the cell:

    r = σ(W_r [γ̃ₜ; xₜ]),  cₜ = r ⊙ α̃ₜ + f ⊙ c̃ₜ + i ⊙ ĉ

It serves as a language model (``classes`` = 0), for sentences, and for pairs. With ``intra=false`` it is an LSTM of the
same size.

Deviations: a pair is classified from [a; b; |a − b|; a ⊙ b] of the two means instead of [a; b]; ``pool="last"`` reads
the last state instead of the mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import regard
from regard import masks
from regard._settings import at_least
from regard.layers import text
from regard.layers.dropout import Dropout
from regard.layers.recurrent import at
from regard.layers.use import Use
from regard.scores import Additive

FUSIONS = ("none", "shallow", "deep")
POOLS = ("mean", "last")


@dataclass(frozen=True)
class Config:
    """Sizes and choices."""

    vocab: int
    longest: int = 64
    """Tokens of the longest continuation that it writes."""
    classes: int = 0
    """Number of classes; 0 makes a language model."""
    pairs: bool = False
    """Are there two sentences?"""
    embedding: int = 128
    hidden: int = 128
    attention: int = 128
    layers: int = 1
    intra: bool = True
    fusion: str = "deep"
    """How the second sentence of a pair sees the first: none, shallow or deep."""
    pool: str = "mean"
    joint: int = 128
    """Width of the layer between sentences and classes."""
    dropout: float = 0.5
    word_dropout: float = 0.0
    """Share of the tokens that are replaced by the unknown token in training."""
    forget: float = 1.0
    """Initial bias of the forget gates. Below 0 little is carried from token to token, so that attention must fetch
    what is needed later."""
    spread: float = 0.1
    """Standard deviation of the initial embeddings."""
    tied: bool = False
    """Are tokens predicted by their embeddings? Needs ``hidden`` = ``embedding``."""

    def __post_init__(self) -> None:
        for name, options in (("fusion", FUSIONS), ("pool", POOLS)):
            if getattr(self, name) not in options:
                raise ValueError(f"{name} is one of {', '.join(options)}, not {getattr(self, name)!r}")
        if self.tied and self.hidden != self.embedding:
            raise ValueError(f"tied embeddings need hidden = embedding, not {self.hidden} and {self.embedding}")
        at_least(self, "longest", "embedding", "hidden", "attention", "layers", "joint", classes=0)
        text.check_share("word_dropout", self.word_dropout)


State = dict[str, Any]


class Cell(nn.Module):
    """One layer: an LSTM cell that attends to its tapes, which grow with every token."""

    def __init__(self, width: int, config: Config, fusion: str = "none"):
        super().__init__()
        hidden = config.hidden
        self.hidden, self.fusion, self.intra = hidden, fusion, config.intra
        self.gates = nn.Linear(width + hidden, 4 * hidden)
        with torch.no_grad():
            self.gates.bias[hidden : 2 * hidden].fill_(config.forget)
        if config.intra:
            self.attention = regard.Attention(Additive(width + hidden, hidden, config.attention))
        if fusion != "none":
            self.inter = regard.Attention(Additive(width + hidden, hidden, config.attention))
        if fusion == "shallow":
            self.beside = nn.Linear(2 * hidden, hidden)
        elif fusion == "deep":
            self.reads = nn.Linear(width + hidden, hidden)

    def start(self, rows: Tensor) -> State:
        """The state before the first token; ``rows`` (B, …) gives batch size, device and dtype."""
        none = rows.new_zeros(len(rows), self.hidden)
        state: State = {"seen": none, "cell": none, "last": (none, none)}
        if self.intra:
            empty = rows.new_zeros(len(rows), 0, self.hidden)
            state["tape"] = self.attention.remember(empty, torch.cat([empty, empty], -1))
        if self.fusion != "none":
            state["source"] = none
        return state

    def forward(self, x: Tensor, state: State, source: regard.Memory | None = None) -> tuple[Tensor, State]:
        """A token (B, width) → hₜ (B, hidden), and the state after it."""
        previous, cell, new = state["seen"], state["cell"], dict(state)
        if self.intra:
            query = torch.cat([x, previous], -1)[:, None]
            previous, cell = self.attention(query, state["tape"]).context[:, 0].chunk(2, -1)
            new["seen"] = previous
        enter, forget, out, fresh = self.gates(torch.cat([x, previous], -1)).chunk(4, -1)
        cell = forget.sigmoid() * cell + enter.sigmoid() * fresh.tanh()
        read = None
        if source is not None:
            query = torch.cat([x, state["source"]], -1)[:, None]
            read, alpha = self.inter(query, source).context[:, 0].chunk(2, -1)
            new["source"] = read
            if self.fusion == "deep":
                cell = cell + self.reads(torch.cat([x, read], -1)).sigmoid() * alpha
        hidden = out.sigmoid() * cell.tanh()
        new["last"] = (hidden, cell)
        if self.intra:
            new["tape"] = state["tape"].append(hidden[:, None], torch.cat([hidden, cell], -1)[:, None])
        else:
            new |= {"seen": hidden, "cell": cell}
        if read is not None and self.fusion == "shallow":
            return torch.tanh(self.beside(torch.cat([hidden, read], -1))), new
        return hidden, new


_SEEN = ("token xₜ and what was seen last", "hidden states so far", "hidden states and cells so far", "additive")


class Lstmn(nn.Module):
    """Layers of cells with the head that a task needs; see the module's docstring."""

    uses: Mapping[str, Use] = {
        "cells.*.attention": Use(*_SEEN, rows="first", columns="first"),
        "others.*.attention": Use(*_SEEN, rows="second", columns="second"),
        "others.*.inter": Use(
            *("token of the second sentence", "hidden states of the first", "its hidden states and cells", "additive"),
            rows="second",
            columns="first",
        ),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.uses = self._used(config)
        self.words = nn.Embedding(config.vocab, config.embedding, padding_idx=text.PAD)
        text.initialize(self.words, config.spread)
        self.dropout = Dropout(config.dropout)
        widths = [config.embedding] + [config.hidden] * (config.layers - 1)
        self.cells = nn.ModuleList(Cell(width, config) for width in widths)
        if not config.classes:
            self.output = nn.Linear(config.hidden, config.vocab)
            if config.tied:
                self.output.weight = self.words.weight
            return
        if config.pairs:
            self.others = nn.ModuleList(Cell(width, config, config.fusion) for width in widths)
        self.joint = nn.Linear(config.hidden * (4 if config.pairs else 1), config.joint)
        self.classes = nn.Linear(config.joint, config.classes)

    @classmethod
    def _used(cls, config: Config) -> dict[str, Use]:
        """The entries of ``uses`` that a configuration has."""
        if not config.classes:
            own = Use(*_SEEN, rows="written", columns="written")
            return {"cells.*.attention": own} if config.intra else {}
        absent = {"attention"} if not config.intra else set()
        absent |= {"inter"} if config.fusion == "none" else set()
        return {
            name: use
            for name, use in cls.uses.items()
            if name.rpartition(".")[2] not in absent and (config.pairs or not name.startswith("others"))
        }

    def forward(self, batch: text.Batch) -> dict[str, Tensor]:
        """The loss of the next tokens of ``target``, or of ``label`` (B,)."""
        if self.config.classes:
            return text.class_loss(self._class_logits(batch), batch["label"])
        hidden, _ = self._read(self.cells, text.inputs(batch))
        return text.loss(self.dropout(hidden), self.output, batch)

    def predict(self, batch: text.Batch) -> Tensor:
        """(B, C): the probabilities of the classes."""
        return self._class_logits(batch).log_softmax(-1).exp()

    # A language model writes.

    def start(self, batch: text.Batch) -> dict[str, Any]:
        """The state after ``prompt`` (B, P), if there is one, without its last token."""
        prompt = batch.get("prompt")
        read = batch["target"][:, :0] if prompt is None else prompt[:, :-1]
        states = [cell.start(self._rows(len(read))) for cell in self.cells]  # type: ignore[operator]
        for token in read.unbind(1):
            _, states = self._advance(self.cells, self.words(token), states)
        return {"states": states}

    def first(self, batch: text.Batch) -> Tensor | None:
        """(B,): the end of the prompt, fed first."""
        return text.last_of_prompt(batch)

    def step(self, token: Tensor, state: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """Logits (B, V) of the token after ``token`` (B,)."""
        hidden, states = self._advance(self.cells, self.words(token), state["states"])
        return self.output(hidden), {"states": states}

    def alignment(self, state: dict[str, Any]) -> None:
        """None: a language model has no source."""

    def limit(self, batch: text.Batch) -> Tensor:
        """(B,): the longest continuation, in tokens."""
        return text.continuation(batch, self.config.longest)

    # -----------------------------------------------------------------------------------------------------------------

    def _rows(self, count: int) -> Tensor:
        return self.words.weight.new_zeros(count, 1)

    def _advance(
        self,
        cells: nn.ModuleList,
        x: Tensor,
        states: list[State],
        sources: Sequence[regard.Memory | None] | None = None,
    ) -> tuple[Tensor, list[State]]:
        """One token through all layers; between them dropout."""
        new = []
        for number, cell in enumerate(cells):
            x = self.dropout(x) if number else x
            x, state = cell(x, states[number], None if sources is None else sources[number])
            new.append(state)
        return x, new

    def _read(
        self, cells: nn.ModuleList, tokens: Tensor, sources: Sequence[regard.Memory | None] | None = None
    ) -> tuple[Tensor, list[list[State]]]:
        """The top states (B, T, hidden) of a text, and the states of all layers after each token."""
        if self.training:
            tokens = text.without_words(tokens, self.config.word_dropout)
        states = [cell.start(self._rows(len(tokens))) for cell in cells]  # type: ignore[operator]
        hidden, after = [], []
        for x in self.dropout(self.words(tokens)).unbind(1):
            top, states = self._advance(cells, x, states, sources)
            hidden.append(top)
            after.append(states)
        return torch.stack(hidden, 1), after

    def _class_logits(self, batch: text.Batch) -> Tensor:
        """(B, C): the logits of the classes."""
        hidden, after = self._read(self.cells, batch["source"])
        features = a = self._pooled(hidden, batch["source_lengths"])
        if self.config.pairs:
            sources = None
            if self.config.fusion != "none":
                mask = masks.lengths(batch["source_lengths"])
                sources = [
                    cell.inter.remember(*_tapes(after, number), mask=mask)  # type: ignore[union-attr, operator]
                    for number, cell in enumerate(self.others)
                ]
            second, _ = self._read(self.others, batch["second"], sources)
            b = self._pooled(second, batch["second_lengths"])
            features = torch.cat([a, b, (a - b).abs(), a * b], -1)
        return self.classes(self.dropout(torch.relu(self.joint(self.dropout(features)))))

    def _pooled(self, hidden: Tensor, lengths: Tensor) -> Tensor:
        if self.config.pool == "last":
            return at(hidden, lengths - 1)
        real = torch.arange(hidden.shape[1], device=hidden.device) < lengths[:, None]
        return (hidden * real[..., None]).sum(1) / lengths[:, None]


def _tapes(after: list[list[State]], layer: int) -> tuple[Tensor, Tensor]:
    """The hidden states (B, S, hidden) of a layer, and these with its cells (B, S, 2 hidden)."""
    both = torch.stack([torch.cat(states[layer]["last"], -1) for states in after], 1)
    return both[..., : both.shape[-1] // 2], both

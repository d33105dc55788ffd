"""MemN2N: several hops over a memory of sentences, learned from questions and answers alone; many models at once.

Sukhbaatar, Szlam, Weston & Fergus 2015, *End-To-End Memory Networks* (arXiv:1503.08895).

Sentence i of a story is stored twice, as mᵢ to be compared and as cᵢ to be read; the question is u¹. Each hop adds the
context oᵏ that it read to the next query:

    mᵢ = Σⱼ lⱼ ⊙ A xᵢⱼ + T_A(i),  cᵢ = Σⱼ lⱼ ⊙ C xᵢⱼ + T_C(i),  u¹ = Σⱼ lⱼ ⊙ B qⱼ
    pᵢ = softmax(uᵀ mᵢ),  o = Σᵢ pᵢ cᵢ,  uᵏ⁺¹ = uᵏ + oᵏ        query u, key m, value c, dot score, softmax
    â = softmax(W uᴷ⁺¹)
    lₖⱼ = 2 (1 − j/J) − 2 (k/d)(1 − 2j/J)                        position encoding: word j of J, dimension k of d

Adjacent tying: Aᵏ⁺¹ = Cᵏ, B = A¹, Wᵀ = Cᴷ. Layer-wise tying: one A and one C for all hops, uᵏ⁺¹ = H uᵏ + oᵏ. Times i
count back from the newest sentence; in training up to a tenth of empty memories is inserted, which only shifts times.
With linear start a model has no softmax in its hops until its validation loss has stopped falling.

**How it looks.** Encoding a sentence is linear: mᵢ = Wᵀ φᵢ, with φᵢ = 2 [Σⱼ (1 − j/J) e(xᵢⱼ); Σⱼ (1 − 2j/J) e(xᵢⱼ)]
and e(timeᵢ) below it, and W = [A; −(k/d) ⊙ A; T_A]. So uᵀ mᵢ = (W u)ᵀ φᵢ and Σ pᵢ cᵢ = W'ᵀ Σ pᵢ φᵢ: the memory is φ,
computed once for all hops and restarts, the query is W u, and a task's restarts are the T queries of one look at it.

**Many models at once.** A model holds ``len(words)`` tasks × ``restarts``, each with weights of its own and none with
any influence on another: the loss is the sum of their mean losses, and the gradient of each is clipped by itself, in
backward. The result is therefore that of 20 × 10 separate runs on the same batches. Tasks with memories of similar
length share one set of tensors (a group). Of the restarts of a task the one with the lowest training error since the
last validation answers.

Batch: ``story`` (B, G, S, J) word ids, the newest sentence first, 0 for padding; ``question`` (B, G, J); ``answer``
(B, G), −1 where a task has no question in this row and 0 for a word that the task does not know. G is the number of
tasks. A scalar ``validation`` that is true says that the batch counts for linear start.

As in the authors' code and not in the paper: l is twice the paper's, so that its mean is 1; and slots of the memory
without a sentence can be attended to as well, with score 0 and value 0. Their memory has as many as sentences leave
free, ours always ``empty``; one key stands for all, its score raised by the logarithm of their number.

Deviations: J is the length of each sentence, as in the paper, not of the longest. The loss is a mean over the batch,
not a sum, so the paper's lr 0.01 and clip 40 at batches of 32 are 0.32 and 1.25 here. Whether the loss still falls is
judged model by model. With several processes or accumulated batches, each part of a gradient is clipped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

import regard
from regard._lazy import nearest
from regard._settings import at_least
from regard.layers.restarts import Contest, apart
from regard.layers.sentences import ages, count_words, position_weights
from regard.layers.use import Use
from regard.normalizers import Softmax
from regard.parts import Normalizer

TYINGS = ("adjacent", "layerwise")
ENCODINGS = ("position", "bag")


@dataclass(frozen=True)
class Config:
    """Sizes and choices; the defaults are the paper's for one task of bAbI."""

    words: tuple[int, ...]
    """Words of each task, the null word 0 included."""
    memory: tuple[int, ...]
    """Sentences that each task's memory holds."""
    restarts: int = 1
    dim: int = 20
    hops: int = 3
    tying: str = "adjacent"
    encoding: str = "position"
    empty: int = 10
    """Empty slots of a memory, which can be attended to as well."""
    noise: float = 0.1
    """Empty memories inserted while training, at most this share of the sentences."""
    linear_start: bool = True
    linear_patience: int = 5
    """Validations in a row without a lower loss that end a model's linear start."""
    linear_rate: float = 0.5
    """Learning-rate multiplier of SGD while a model is linear."""
    clip: float = 0.0
    """Largest norm of one model's gradient; 0 is none."""

    def __post_init__(self) -> None:
        for name in ("words", "memory"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.words or len(self.words) != len(self.memory):
            raise ValueError(f"{len(self.words)} sizes of vocabularies for {len(self.memory)} sizes of memories")
        if min(self.words) < 2 or min(self.memory) < 1:
            raise ValueError(f"a task has words and sentences: not words = {self.words}, memory = {self.memory}")
        at_least(self, "restarts", "dim", "hops", "linear_patience")
        if not 0.0 <= self.noise <= 1.0 or min(self.clip, self.empty) < 0:
            raise ValueError(f"noise = {self.noise} is a share, clip = {self.clip} and empty = {self.empty} at least 0")
        for name, options in {"tying": TYINGS, "encoding": ENCODINGS}.items():
            if getattr(self, name) not in options:
                raise ValueError(f"unknown {name} {getattr(self, name)!r}: {nearest(getattr(self, name), options)}")


VARIANTS: dict[str, dict[str, Any]] = {
    "joint": {"dim": 50},
    "layerwise": {"tying": "layerwise"},
    "bag": {"encoding": "bag"},
}


class LinearStart(Normalizer):
    """Softmax, or the identity where ``linear`` (G, R): p = e, and 0 for masked keys. Rows are those of (B, G, R, S);
    the sum of a linear one can be anything.
    """

    equation = "e, later softmax(e)"
    paper = "Sukhbaatar 2015"
    sums_to_one = False
    shift_invariant = False
    linear: Tensor

    def __init__(self, linear: Tensor):
        super().__init__()
        self.settled = Softmax()
        self.register_buffer("linear", linear)

    def forward(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        raw = scores if mask is None else scores.masked_fill(~mask, 0.0)
        return torch.where(self.linear[..., None], raw, self.settled(scores, mask))


class Group(Contest):
    """Tasks of similar size with all their restarts, as one batch of G × R models.

    Attributes:
        tasks: which of the system's tasks these are.
        tables: (N, G, R, V − 1, D), the embeddings in the order of use: A¹, C¹ … Cᴷ, or A, C, B, W if layer-wise.
        times: (N, G, R, L, D), the vectors T of the same, from the newest sentence on; only of those that need them.
        mix: (1, G, R, D, D), the H of layer-wise tying.
    """

    foreign: Tensor
    slots: Tensor

    def __init__(self, config: Config, tasks: Sequence[int]):
        super().__init__((len(tasks), config.restarts))
        self.config, self.tasks = config, tuple(tasks)
        self.words, self.memory = (max(sizes[task] for task in tasks) for sizes in (config.words, config.memory))
        layerwise = config.tying == "layerwise"
        self.keys = [0] * config.hops if layerwise else list(range(config.hops))
        self.values = [1] * config.hops if layerwise else list(range(1, config.hops + 1))
        self.asking, self.answering = (2, 3) if layerwise else (0, config.hops)
        models, tables = (len(tasks), config.restarts), 4 if layerwise else config.hops + 1
        self.tables = nn.Parameter(torch.empty(tables, *models, self.words - 1, config.dim))
        self.times = nn.Parameter(torch.empty(2 if layerwise else tables, *models, self.memory, config.dim))
        self.mix = nn.Parameter(torch.empty(1, *models, config.dim, config.dim)) if layerwise else None
        linear = torch.full(models, config.linear_start)
        self.attention = regard.Attention("dot", LinearStart(linear))
        vocabulary_sizes = torch.tensor([config.words[task] for task in tasks])
        slots = torch.tensor([[config.memory[task]] for task in tasks])
        self.register_buffer("slots", slots, persistent=False)  # (G, 1)
        self.register_buffer(
            "foreign", torch.arange(self.words) >= vocabulary_sizes[:, None], persistent=False
        )  # (G, V)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """N(0, 0.1²), as in the paper."""
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.1)

    @property
    def linear(self) -> Tensor:
        """(G, R): the models without softmax."""
        linear = self.attention.normalizer.linear
        assert isinstance(linear, Tensor)
        return linear

    def forward(self, story: Tensor, question: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Logits (G, R, B, V), and the weights of each hop, (B, G, R, S)."""
        story = story[:, :, : self.memory]
        weights, mix = self._weights()
        exists = (story > 0).any(-1)  # (B, G, S)
        memory = self._remember(story, exists)
        counts = self.tables.new_zeros(*question.shape[:-1], 2 * self.words)
        position = self.config.encoding == "position"
        phi = count_words(question, self.words, position=position, out=counts).transpose(0, 1)[:, None]  # (G,1,B,2V)
        u = phi @ weights[self.asking][:, :, : 2 * self.words]  # (G, R, B, D)
        hop_weights = []
        for key, value in zip(self.keys, self.values):
            query = (u @ weights[key].mT).permute(2, 0, 1, 3)  # (B, G, R, F)
            out = self.attention(pad(query, (0, 1), value=1.0), memory)
            hop_weights.append(out.weights[..., :-1])
            read = out.context[..., :-1].permute(1, 2, 0, 3)  # (G, R, B, F)
            u = (u if mix is None else u @ mix) + read @ weights[value]
        logits = u @ weights[self.answering][:, :, : self.words].mT
        return logits.masked_fill(self.foreign[:, None, None], torch.finfo(logits.dtype).min), hop_weights

    def _remember(self, story: Tensor, exists: Tensor) -> regard.Memory:
        """φ (B, G, S, F) with one more key for all empty slots, and one more column, the log of their number."""
        rows, columns = exists.shape[-1] + 1, 2 * self.words + self.memory + 1
        key = self.tables.new_zeros(*exists.shape[:-1], rows, columns)
        noise, position = self.config.noise if self.training else 0.0, self.config.encoding == "position"
        times = ages(exists, noise, self.slots - 1)
        count_words(story, self.words, times, position=position, out=key[..., :-1, :-1])
        key[..., -1, -1] = math.log(max(self.config.empty, 1))
        return self.attention.remember(key, mask=pad(exists, (0, 1), value=self.config.empty > 0)[:, :, None])

    def _weights(self) -> tuple[tuple[Tensor, ...], Tensor | None]:
        """For each table the W (G, R, F, D) of the module's docstring, and H."""
        config = self.config
        tensors: list[Tensor] = [p for p in (self.tables, self.times, self.mix) if p is not None]
        if self.training and (config.clip or config.linear_start):
            rate = torch.where(self.linear, config.linear_rate, 1.0).to(self.tables.dtype)
            tensors = apart(rate, config.clip, *tensors)
        words, times = position_weights(tensors[0]).unbind(0), tensors[1]
        both = [torch.cat([word, time], -2) for word, time in zip(words, times.unbind(0))]
        return (*both, *words[len(both) :]), tensors[2][0] if self.mix is not None else None

    @torch.no_grad()
    def turn(self) -> None:
        """After a validation: models whose loss has not fallen for long get their softmax."""
        super().turn()
        self.linear.logical_and_(self.stale < self.config.linear_patience)


class MemN2N(nn.Module):
    """Tasks × restarts of end-to-end memory networks; see the module's docstring."""

    uses: ClassVar[dict[str, Use]] = {
        "groups.*.attention": Use(
            *("state u", "sentences m", "sentences c", "dot", "softmax, none at linear start"),
            rows="hops",
            columns="sentences",
        ),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.groups = nn.ModuleList(Group(config, tasks) for tasks in grouped(config.memory))

    def forward(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The loss of a batch, summed over the models; ``nll`` and ``error`` are means over questions and models."""
        validation = not self.training and bool(batch.get("validation", False))
        if self.training and any(bool(group.judged.any()) for group in self._groups()):
            for group in self._groups():
                group.turn()
        present = batch["answer"] >= 0
        count, tasks = present.sum(), present.shape[1]
        nlls, wrongs = [], []
        for group, logits, _, answer in self._answers(batch):
            target = answer.T[:, None].expand(logits.shape[:-1])  # (G, R, B)
            nll = cross_entropy(logits.flatten(0, 2), target.flatten(), ignore_index=-1, reduction="none")
            nll = nll.view(target.shape)
            wrong = (logits[..., 1:].argmax(-1) + 1 != target) & (target >= 0)
            if self.training or validation:
                group.count(nll, wrong, target[:, :1] >= 0, training=self.training)
            nlls.append(nll.sum())
            wrongs.append(wrong.sum())
        units = count.clamp(min=1)
        total, models = torch.stack(nlls).sum() / units, self.config.restarts
        error = torch.stack(wrongs).sum() / (units * models)
        linear = torch.cat([group.linear.flatten() for group in self._groups()]).to(total.dtype).mean()
        return {"loss": total * tasks, "count": count, "nll": total / models, "error": error, "linear": linear}

    @torch.no_grad()
    def predict(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The answers of each task's chosen restart.

        Returns ``answer`` (B, G), ``probability`` (B, G) and ``weights`` (B, G, hops, S), the newest sentence first.
        """
        rows, tasks, sentences = batch["story"].shape[:3]
        first = next(self.parameters())
        answers = torch.zeros(rows, tasks, dtype=torch.long, device=first.device)
        probability = first.new_zeros(rows, tasks)
        weights = first.new_zeros(rows, tasks, self.config.hops, sentences)
        for group, logits, hop_weights, _ in self._answers(batch):
            best_restart, numbers = group.chosen(), torch.arange(len(group.tasks), device=first.device)
            best = logits[numbers, best_restart].transpose(0, 1)  # (B, G, V)
            p = torch.stack(hop_weights, 2)[:, numbers, :, best_restart]  # (G, B, hops, S)
            linear = group.linear[numbers, best_restart]
            if bool(linear.any()):  # those weights are scores; return their softmax
                real = (batch["story"][:, list(group.tasks), : p.shape[-1]] > 0).any(-1)  # (B, G, S)
                softmax_weights = Softmax()(p, real.transpose(0, 1)[:, :, None])
                p = torch.where(linear[:, None, None, None], softmax_weights, p)
            index = torch.tensor(group.tasks, device=first.device)
            answers[:, index] = best[..., 1:].argmax(-1) + 1
            probability[:, index] = best.log_softmax(-1)[..., 1:].amax(-1).exp()
            weights[:, index, :, : p.shape[-1]] = p.transpose(0, 1)
        return {"answer": answers, "probability": probability, "weights": weights}

    @torch.no_grad()
    def log_probs(self, batch: Mapping[str, Tensor]) -> Tensor:
        """(B, G, V): the log-probability of each word as the answer, by each task's chosen restart; words that a task
        does not know have the least there is."""
        rows, tasks = batch["story"].shape[:2]
        first = next(self.parameters())
        least = torch.finfo(first.dtype).min
        log_probs = first.new_full((rows, tasks, max(group.words for group in self._groups())), least)
        for group, logits, _, _ in self._answers(batch):
            numbers = torch.arange(len(group.tasks), device=first.device)
            best = logits[numbers, group.chosen()].transpose(0, 1).log_softmax(-1)  # (B, G, V)
            log_probs[:, torch.tensor(group.tasks, device=first.device), : group.words] = best
        return log_probs

    @torch.no_grad()
    def pick(self, tasks: Sequence[int] | None = None, restart: int | None = None) -> MemN2N:
        """A smaller model with one restart of some tasks (all if None): the best of each, or number ``restart``."""
        selected = range(len(self.config.words)) if tasks is None else tasks
        words, memory = (tuple(sizes[task] for task in selected) for sizes in (self.config.words, self.config.memory))
        small = MemN2N(replace(self.config, words=words, memory=memory, restarts=1)).to(next(self.parameters()))
        homes = {task: (group, place) for group in self._groups() for place, task in enumerate(group.tasks)}
        for group in small._groups():
            for place, number in enumerate(group.tasks):
                source, index = homes[selected[number]]
                best = int(source.chosen()[index]) if restart is None else restart
                source_state = source.state_dict()
                for name, tensor in group.state_dict().items():
                    axis = 0 if tensor.ndim == 2 else 1
                    source_rows = source_state[name].select(axis, index).select(axis, best)
                    target_rows = tensor.select(axis, place).select(axis, 0)
                    target_rows.copy_(source_rows[tuple(map(slice, target_rows.shape))])
        return small.train(self.training)

    def _groups(self) -> list[Group]:
        return [group for group in self.groups if isinstance(group, Group)]

    def _answers(self, batch: Mapping[str, Tensor]) -> list[tuple[Group, Tensor, list[Tensor], Tensor]]:
        """For each group its logits, the weights of its hops, and the right answers (B, G), −1 where unknown."""
        story, question = batch["story"], batch["question"]
        if story.ndim != 4 or story.shape[1] != len(self.config.words):
            raise ValueError(
                f"story is (B, tasks, S, J) and this model has {len(self.config.words)} tasks, not {tuple(story.shape)}"
            )
        answer = batch.get("answer", story.new_full(story.shape[:2], -1))
        answers = []
        for group in self._groups():
            index = torch.tensor(group.tasks, device=story.device)
            logits, hop_weights = group(story[:, index], question[:, index])
            answers.append((group, logits, hop_weights, answer[:, index]))
        return answers


def grouped(memory: Sequence[int]) -> list[list[int]]:
    """Tasks whose memories differ by less than a factor of about two, together."""
    groups: list[list[int]] = []
    for task in sorted(range(len(memory)), key=lambda task: (memory[task], task)):
        if groups and memory[task] <= 2 * memory[groups[-1][0]]:
            groups[-1].append(task)
        else:
            groups.append([task])
    return groups

"""Image to set: which labels does an image have, in no order, and how many?

Pineda, Salvador, Drozdzal & Romero 2019, *Elucidating image-to-set prediction: An analysis of models, losses and
datasets* (arXiv:1904.05709); the losses of the order-free Transformer are also in Salvador et al. 2019
(arXiv:1812.06164).

``predictor = "transformer"`` is order-free: a decoder without positions names one label after the other, never the same
twice, and looks at the places of the image for each (query x Wᑫ, key and value sᵢ Wᴷ, sᵢ Wⱽ, scaled dot product, many
heads). In training it is fed the labels that it named itself. Their order does not matter: p_t is its distribution over
labels and end at step t, and of the probabilities of a label the greatest counts,

    p̂ₖ = max_{t < |y|} p_t(k),  L = −Σₖ [yₖ log p̂ₖ + (1 − yₖ) log(1 − p̂ₖ)] + λ L_eos
    L_eos = ½ BCE(p_{|y|}(eos), 1) + ½ mean_{t < |y|} BCE(p_t(eos), 0)

It stops where the end is likelier than every label that is left.

The controls score all labels at once, from the mean of the places:

==========  =================================================  ===================================================
``bce``     Σ BCE(σ(z), y)                                     those with σ(z) > ½
``iou``     1 − Σ σ(z) y / Σ (σ(z) + y − σ(z) y)                those with σ(z) > ½
``td``      cross-entropy of softmax(z) and y / |y|            the likeliest, until they hold more than half
==========  =================================================  ===================================================

With ``cardinality`` a control also predicts |y|, as a class, and takes the |y| likeliest labels.

Deviations: the backbone is frozen, or only its last stages are trained along (``tuned``), and its features are
normalized; small generated images pass convolutions that are trained along. With ``mix`` two images of a batch are
mixed in training, x = λ x₁ + (1 − λ) x₂ and y alike, λ ~ Beta(mix, mix) (Zhang et al. 2018, *mixup*, arXiv:1710.09412);
the size of a mixed set is that of the nearer one. The Transformer's own labels are found by a first pass without
gradient and dropout, so that a second pass can compute all steps at once; where it would stop, it goes on to name
labels up to the size of the largest set of the batch.

A batch has ``features`` or ``image`` (:class:`regard.layers.grid.Grid`), and to learn from ``labels`` (B, C), 0 or 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy, binary_cross_entropy_with_logits, cross_entropy, logsigmoid

from regard._lazy import nearest
from regard._settings import at_least
from regard.layers.dropout import Dropout
from regard.layers.grid import Grid
from regard.layers.transformer import Decoder, LayerConfig
from regard.layers.use import Use

Batch = Mapping[str, Tensor]
PREDICTORS = ("transformer", "bce", "iou", "td")


@dataclass(frozen=True)
class Config:
    """Sizes and choices.

    Attributes:
        classes, features, most: of the task: labels, the width of the features of a place (0 if a batch brings images),
            and the largest set.
        channels: width of the features of a place where they are computed from images.
        predictor: ``transformer``, or ``bce``, ``iou`` or ``td``, the controls.
        cardinality: whether a control predicts how many labels there are.
        dim, heads, hidden, layers: of the decoder; ``dim`` also of the hidden layer of a control.
        dropout: of the image's features and of sub-layers.
        norm: of the decoder, ``pre`` or ``post``; see :mod:`regard.layers.transformer`.
        tuned: the last stage of the backbone that is trained along; 0 if all are frozen.
        mirrored: whether every other image of training, chosen at random, is mirrored.
        mix: parameter of the Beta distribution of mixup; 0 for none.
        eos_weight, cardinality_weight: of these losses.
    """

    classes: int
    features: int = 0
    most: int = 8
    channels: int = 64
    predictor: str = "transformer"
    cardinality: bool = False
    dim: int = 128
    heads: int = 4
    hidden: int = 256
    layers: int = 2
    dropout: float = 0.1
    norm: str = "pre"
    tuned: int = 0
    mirrored: bool = False
    mix: float = 0.0
    eos_weight: float = 0.5
    cardinality_weight: float = 0.1

    def __post_init__(self) -> None:
        LayerConfig.of(self)  # an error should come now
        at_least(self, "dim", "heads", "hidden", "layers", "most")
        if self.predictor not in PREDICTORS:
            raise ValueError(f"no predictor is called {self.predictor!r}: {nearest(self.predictor, PREDICTORS)}")
        if self.cardinality and self.predictor == "transformer":
            raise ValueError("the Transformer ends by itself: cardinality is for bce, iou and td")
        at_least(self, eos_weight=0, cardinality_weight=0, mix=0)


class ImageToSet(nn.Module):
    """Image, decoder or control; see the module's docstring."""

    uses: Mapping[str, Use] = {
        "decoder.layers.*.own": Use(*("label x Wᑫ", "labels so far Wᴷ", "labels so far Wⱽ", "scaled dot, many heads")),
        "decoder.layers.*.cross": Use(
            *("label x Wᑫ", "places sᵢ Wᴷ", "places sᵢ Wⱽ", "scaled dot, many heads"), rows="chosen", columns="places"
        ),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        dim = config.dim
        self.grid = Grid(config.features, config.channels, config.tuned)
        self.places = nn.Linear(self.grid.width, dim)
        self.dropout = Dropout(config.dropout)
        if config.predictor == "transformer":
            self.labels = nn.Embedding(config.classes + 1, dim)  # the last is the beginning
            self.decoder = Decoder(LayerConfig.of(config), config.layers)
            self.output = nn.Linear(dim, config.classes + 1)  # the last is the end
            nn.init.normal_(self.labels.weight, std=dim**-0.5)
        else:
            self.uses = {}
            self.output = nn.Linear(dim, config.classes)
            self.count = nn.Linear(dim, config.most + 1) if config.cardinality else None

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The loss of a batch of images, means over images; ``dice``, the F1 of all labels together."""
        batch = self._augmented(batch) if self.training else batch
        places = self._places(batch)
        labels = batch["labels"].to(places)
        if self.config.predictor == "transformer":
            shares, loss = self._pooled(places, labels)
            taken = shares > 0.5
        else:
            scores, count = self._scores(places)
            loss = self._missed(scores, labels)
            if count is not None:
                sizes = labels.round().sum(-1).long().clamp_max(self.config.most)
                missed = cross_entropy(count, sizes, reduction="none")
                loss = loss + self.config.cardinality_weight * missed
            taken = self._predicted(scores, count)
        right, both = (taken * labels).sum(), taken.sum() + labels.sum()
        units = torch.tensor(len(labels), device=labels.device)
        loss = loss.mean()
        return {"loss": loss, "nll": loss.detach(), "dice": 2 * right / both.clamp_min(1), "count": units}

    @torch.no_grad()
    def predict(self, batch: Batch) -> dict[str, Tensor]:
        """``chosen`` (B, K), the numbers of the labels, the first found first, −1 after the last; ``probabilities``
        (B, C), of a Transformer the greatest of its steps."""
        places = self._places(batch)
        if self.config.predictor == "transformer":
            return self._labels_of(places)
        scores, count = self._scores(places)
        taken = self._predicted(scores, count)
        order = scores.argsort(stable=True, dim=-1, descending=True)
        ranked = taken.gather(-1, order)
        numbers = torch.where(ranked, order, -1)[:, : max(1, int(taken.sum(-1).max()))]
        shares = scores.log_softmax(-1).exp() if self.config.predictor == "td" else scores.sigmoid()
        return {"chosen": numbers, "probabilities": shares}

    def _augmented(self, batch: Batch) -> Batch:
        """A batch of training, mirrored and mixed."""
        name = "features" if "features" in batch else "image"
        inputs, labels = batch[name], batch["labels"]
        if self.config.mirrored:
            if name == "features":
                side = round(inputs.shape[1] ** 0.5)
                mirror = inputs.unflatten(1, (side, side)).flip(2).flatten(1, 2)
            else:
                mirror = inputs.flip(-1)
            mirrored = torch.rand(len(inputs), device=inputs.device) < 0.5
            inputs = torch.where(mirrored.view(-1, *[1] * (inputs.ndim - 1)), mirror, inputs)
        if self.config.mix:
            share = float(torch.distributions.Beta(self.config.mix, self.config.mix).sample())
            order = torch.randperm(len(inputs), device=inputs.device)
            inputs, labels = (share * tensor + (1 - share) * tensor[order] for tensor in (inputs, labels.to(inputs)))
        return {**batch, name: inputs, "labels": labels}

    def _places(self, batch: Batch) -> Tensor:
        return self.dropout(self.places(self.dropout(self.grid(batch))))  # (B, L, dim)

    # -----------------------------------------------------------------------------------------------------------------
    # Order-free

    def _pooled(self, places: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The greatest probability of each label over the steps (B, C), and the loss of each image (B,)."""
        sizes = labels.round().sum(-1).long()  # (B,)
        steps = min(int(sizes.max()), self.config.classes) + 1
        named = self._rolled(places, steps - 1)  # (B, steps − 1)
        begin = named.new_full((len(named), 1), self.config.classes)
        hidden = self.decoder(self.labels(torch.cat([begin, named], 1)), places)
        before = torch.zeros(*named.shape, self.config.classes, dtype=torch.bool, device=named.device)
        before = before.scatter(-1, named[..., None], True).cumsum(1) > 0  # (B, steps − 1, C): named before the step
        nothing = before.new_zeros(len(named), 1, self.config.classes)
        shares = self._shares(hidden, torch.cat([nothing, before], 1))  # (B, steps, C + 1)
        place = torch.arange(steps, device=named.device)
        early = place < sizes[:, None]  # (B, steps): before the true end
        pooled = torch.where(early[..., None], shares[..., :-1], 0.0).amax(1)
        label_loss = binary_cross_entropy(pooled, labels, reduction="none").sum(-1)
        end = shares[..., -1]
        end_loss = binary_cross_entropy(end, (~early).to(end), reduction="none")
        soon = (end_loss * early).sum(-1) / sizes.clamp_min(1)
        late = (end_loss * (place == sizes[:, None])).sum(-1)
        return pooled, label_loss + self.config.eos_weight * (soon + late) / 2

    @torch.no_grad()
    def _rolled(self, places: Tensor, steps: int) -> Tensor:
        """(B, steps): the labels that are named one after the other, without an end."""
        training = self.training
        self.eval()
        try:
            return self._walk(places, steps)[0]
        finally:
            self.train(training)

    def _walk(self, places: Tensor, steps: int) -> tuple[Tensor, Tensor]:
        """The likeliest label of each step (B, steps), and the probabilities (B, steps, C + 1)."""
        rows, classes = len(places), self.config.classes
        caches = self.decoder.start(places, places)
        token = torch.full((rows,), classes, device=places.device)
        before = torch.zeros(rows, classes, dtype=torch.bool, device=places.device)
        named, shares = [], []
        for _ in range(steps):
            hidden, caches, _ = self.decoder.step(self.labels(token)[:, None], caches)
            shares.append(self._shares(hidden, before))
            token = shares[-1][:, :-1].masked_fill(before, -1.0).argmax(-1)
            before = before.scatter(1, token[:, None], True)
            named.append(token)
        if not steps:
            return token[:, None][:, :0], places.new_zeros(rows, 0, classes + 1)
        return torch.stack(named, 1), torch.stack(shares, 1)

    def _shares(self, hidden: Tensor, before: Tensor) -> Tensor:
        """Probabilities (…, C + 1) of the labels and the end; a label that was named ``before`` (…, C) has none."""
        logits = self.output(hidden)
        taken = torch.cat([before, torch.zeros_like(before[..., :1])], -1)
        return logits.masked_fill(taken, torch.finfo(logits.dtype).min).log_softmax(-1).exp()

    def _labels_of(self, places: Tensor) -> dict[str, Tensor]:
        """Labels until the end is likelier than the next."""
        named, shares = self._walk(places, min(self.config.most, self.config.classes))
        ended = shares[..., -1] >= shares[..., :-1].amax(-1)
        real = ended.cumsum(1) == 0
        pooled = torch.where(real[..., None], shares[..., :-1], 0.0).amax(1)
        return {"chosen": torch.where(real, named, -1), "probabilities": pooled}

    # -----------------------------------------------------------------------------------------------------------------
    # Controls

    def _scores(self, places: Tensor) -> tuple[Tensor, Tensor | None]:
        """Logits (B, C) of the labels and (B, most + 1) of their number."""
        mean = torch.relu(places.mean(1))
        return self.output(mean), None if self.count is None else self.count(mean)

    def _missed(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The loss of each image, (B,)."""
        if self.config.predictor == "bce":
            return binary_cross_entropy_with_logits(scores, labels, reduction="none").sum(-1)
        if self.config.predictor == "td":
            return -(scores.log_softmax(-1) * labels).sum(-1) / labels.sum(-1).clamp_min(1)
        shares = logsigmoid(scores).exp()
        both = (shares * labels).sum(-1)
        return 1 - both / (shares.sum(-1) + labels.sum(-1) - both)

    def _predicted(self, scores: Tensor, count: Tensor | None) -> Tensor:
        """(B, C): which labels are chosen."""
        ranked, order = scores.sort(dim=-1, descending=True, stable=True)
        place = torch.arange(scores.shape[-1], device=scores.device)
        if count is not None:
            taken = place < count.argmax(-1, keepdim=True)
        elif self.config.predictor == "td":
            shares = ranked.log_softmax(-1).exp()
            taken = shares.cumsum(-1) - shares <= 0.5  # those before hold no more than half
        else:
            taken = ranked > 0
        return torch.zeros_like(taken).scatter(-1, order, taken)

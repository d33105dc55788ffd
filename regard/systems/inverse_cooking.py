"""Inverse cooking: from a photograph of a dish to its ingredients, and from both to its recipe.

Salvador, Drozdzal, Giro-i-Nieto & Romero 2019, *Inverse Cooking: Recipe Generation from Food Images*
(arXiv:1812.06164).

A photograph is a grid of features, I, and the ingredients are a set of embeddings, R, without positions. A Transformer
decoder writes title and directions. After self-attention over the words so far, each layer looks at both, in one of
four ways (``fusion``; query x W^Q, keys and values by projections of I and R, scaled dot product, many heads):

======================  ============================================================================
``concatenated``        MHA(x, [I; R]): one softmax over places and ingredients
``independent``         MHA(x, I) + MHA(x, R)
``image_first``         MHA(MHA(x, I), R), with a residual around each
``ingredients_first``   MHA(MHA(x, R), I), with a residual around each
======================  ============================================================================

The ingredients are predicted from the photograph when none are given, by a linear layer over the mean of the features:
p = σ(W ī + b). Those with the k largest p are taken, where k makes 2 Σᵢ≤ₖ pᵢ / (k + Σ p), the F1 that is expected, the
greatest. Where there is no photograph (``has_image``) or the decoder is not to see it (``shown``), the places are
masked, and without ingredients those: a row without an allowed key gives context 0, so that recipes of which there is
only the text train the decoder too.

The loss is that of the words and, of recipes with a photograph, ``set_weight`` times −Σ log p of being or not being
an ingredient; and ``shrink`` times the squared weights of the two layers that read the features, this one and the
projection to the decoder's width, which would otherwise overfit where there are few photographs.

Deviations: the paper's ingredients are predicted by a Transformer of their own with a loss that pools over its steps;
here they are labels that are predicted independently. All is trained at once, with the true ingredients for the
decoder. The backbone is frozen, and its features are normalized; small generated images pass convolutions that are
trained along.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

import regard
from regard import masks
from regard._lazy import nearest
from regard._settings import at_least
from regard.layers import text
from regard.layers.dropout import Dropout
from regard.layers.grid import Grid
from regard.layers.transformer import ACTIVATIONS, Embedding, LayerConfig, Residual
from regard.layers.use import Use

FUSIONS = ("concatenated", "independent", "image_first", "ingredients_first")
PLACES, INGREDIENTS = "places", "ingredients"


@dataclass(frozen=True)
class Config:
    """Sizes and choices.

    Attributes:
        vocab, features, longest, ingredients: of the task: words, width of the features of a place (0 if a batch brings
            images), tokens of the longest recipe, and known ingredients.
        channels: width of the features of a place where they are computed from images.
        dim, heads, hidden, layers: of the decoder.
        fusion: how a layer looks at image and ingredients; see the module's docstring.
        dropout: of embeddings, sub-layers, and what is looked at; ``attention_dropout`` is of the weights.
        norm: of the decoder, ``pre`` or ``post``; see :mod:`regard.layers.transformer`.
        set_weight: weight of the loss of the ingredients.
        shrink: weight of the squared weights of the layers that read the features of an image.
        label_smoothing: of the loss of the words.
    """

    vocab: int
    features: int = 0
    longest: int = 150
    ingredients: int = 1
    channels: int = 64
    dim: int = 256
    heads: int = 4
    hidden: int = 256
    layers: int = 4
    fusion: str = "concatenated"
    dropout: float = 0.3
    attention_dropout: float = 0.0
    norm: str = "pre"
    set_weight: float = 1.0
    shrink: float = 0.0
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        LayerConfig.of(self)  # an error should come now
        if self.fusion not in FUSIONS:
            raise ValueError(f"no fusion is called {self.fusion!r}: {nearest(self.fusion, FUSIONS)}")
        at_least(self, "dim", "heads", "hidden", "layers", longest=2)
        at_least(self, set_weight=0, shrink=0, label_smoothing=0)


class Layer(nn.Module):
    """Self-attention, attention to image and ingredients, feed-forward network."""

    def __init__(self, config: LayerConfig, fusion: str):
        super().__init__()
        self.fusion = fusion

        def heads() -> regard.MultiHead:
            return regard.MultiHead(config.dim, config.heads, dropout=config.attention_dropout)

        self.own, self.around_own = heads(), Residual(config)
        if fusion == "concatenated":
            self.both = heads()
        else:
            self.image, self.ingredients = heads(), heads()
        self.around_first = Residual(config)
        self.around_second = Residual(config) if fusion.endswith("first") else None
        activation = ACTIVATIONS[config.activation]()
        self.think = nn.Sequential(
            nn.Linear(config.dim, config.hidden), activation, nn.Linear(config.hidden, config.dim)
        )
        self.around_think = Residual(config)

    def remember(self, places: Tensor, shown: Tensor, ingredients: Tensor, used: Tensor) -> dict[str, regard.Memory]:
        """Places (B, L, dim) and ingredients (B, K, dim) as keys and values; (B, L) and (B, K) say which exist."""
        if self.fusion == "concatenated":
            both = torch.cat([places, ingredients], 1)
            return {"both": self.both.remember(both, mask=torch.cat([shown, used], 1))}
        return {
            "image": self.image.remember(places, mask=shown),
            "ingredients": self.ingredients.remember(ingredients, mask=used),
        }

    def forward(
        self, x: Tensor, memories: Mapping[str, regard.Memory], own: regard.Memory | None = None, weights: bool = False
    ) -> tuple[Tensor, regard.Memory | None, dict[str, Tensor]]:
        """(B, T, dim) → (B, T, dim); with a cache of ``own`` words, one new position. Also the longer cache and, if
        wanted, the weights (B, H, T, S) of each attention to image or ingredients."""
        cache, attention_weights = own, {}

        def look_back(x: Tensor) -> Tensor:
            nonlocal cache
            if cache is None:
                return self.own(x, mask=masks.causal(), weights=False).context
            cache = cache.append(x)
            return self.own(x, cache, weights=False).context

        def look(name: str, x: Tensor) -> Tensor:
            out = getattr(self, name)(x, memories[name], weights=weights)
            if weights:
                attention_weights[name] = out.weights
            return out.context

        x = self.around_own(x, look_back)
        if self.fusion == "concatenated":
            x = self.around_first(x, lambda x: look("both", x))
        elif self.around_second is None:
            x = self.around_first(x, lambda x: look("image", x) + look("ingredients", x))
        else:
            names = ("image", "ingredients") if self.fusion == "image_first" else ("ingredients", "image")
            x = self.around_first(x, lambda x: look(names[0], x))
            x = self.around_second(x, lambda x: look(names[1], x))
        return self.around_think(x, self.think), cache, attention_weights


class InverseCooking(nn.Module):
    """Image, ingredients, decoder; see the module's docstring."""

    uses: Mapping[str, Use] = {
        "layers.*.own": Use(*("word y Wᑫ", "words so far Wᴷ", "words so far Wⱽ", "scaled dot, many heads")),
        "layers.*.both": Use(
            *("word y Wᑫ", "places and ingredients Wᴷ", "places and ingredients Wⱽ", "scaled dot, many heads"),
            rows="written",
            columns="places and ingredients",
        ),
        "layers.*.image": Use(
            *("word y Wᑫ", "places Wᴷ", "places Wⱽ", "scaled dot, many heads"), rows="written", columns=PLACES
        ),
        "layers.*.ingredients": Use(
            *("word y Wᑫ", "ingredients Wᴷ", "ingredients Wⱽ", "scaled dot, many heads"),
            rows="written",
            columns=INGREDIENTS,
        ),
    }

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        together = config.fusion == "concatenated"
        unused = ("layers.*.image", "layers.*.ingredients") if together else ("layers.*.both",)
        self.uses = {name: use for name, use in self.uses.items() if name not in unused}
        self.grid = Grid(config.features, config.channels)
        self.set_norm = nn.LayerNorm(self.grid.width)
        self.set = nn.Linear(self.grid.width, config.ingredients)
        self.places = nn.Linear(self.grid.width, config.dim)
        self.ingredients = nn.Embedding(config.ingredients, config.dim)
        self.words = Embedding(config.vocab, config.dim, config.dropout)
        layer = LayerConfig.of(config)
        self.layers: Any = nn.ModuleList(Layer(layer, config.fusion) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.dim) if config.norm == "pre" else nn.Identity()
        self.output = nn.Linear(config.dim, config.vocab, bias=False)
        self.output.weight = self.words.words.weight
        self.dropout = Dropout(config.dropout)
        with torch.no_grad():
            self.set.weight.zero_()  # at first the image says nothing
            self.ingredients.weight.normal_(std=config.dim**-0.5)

    def forward(self, batch: text.Batch) -> dict[str, Tensor]:
        """The loss of a batch of recipes: the words, the right ones fed back, and the ingredients of those with an
        image."""
        grid = self._grid(batch)
        memories = self._remember(grid, batch)
        x = self.words(text.inputs(batch))
        for layer, memory in zip(self.layers, memories):
            x, _, _ = layer(x, memory)
        losses = text.loss(self.norm(x), self.output, batch, self.config.label_smoothing)
        labels, real = batch["labels"], batch["has_image"]
        set_losses = binary_cross_entropy_with_logits(self._scores(grid), labels, reduction="none").sum(-1)
        missed = (set_losses * real).sum() / losses["count"].clamp_min(1)  # per word, as all numbers here
        large = self.set.weight.square().sum() + self.places.weight.square().sum()
        loss = losses["loss"] + self.config.set_weight * missed + self.config.shrink * large
        return {**losses, "loss": loss, "set_nll": missed.detach()}

    # -----------------------------------------------------------------------------------------------------------------
    # Ingredients

    def choose(self, batch: text.Batch) -> Tensor:
        """(B, ingredients): which of them are seen in the images of a batch; none where there is no image."""
        likely = torch.sigmoid(self._scores(self._grid(batch)))
        ranked, order = likely.sort(dim=-1, descending=True, stable=True)
        count = torch.arange(1, ranked.shape[-1] + 1, device=ranked.device)
        expected = 2 * ranked.cumsum(-1) / (count + likely.sum(-1, keepdim=True))  # F1 of taking that many
        taken = count <= count[expected.argmax(-1)][:, None]
        return torch.zeros_like(taken).scatter(-1, order, taken) & batch["has_image"][:, None]

    def _scores(self, grid: Tensor) -> Tensor:
        return self.set(self.set_norm(grid.mean(1)))

    def _grid(self, batch: text.Batch) -> Tensor:
        """The features of each place of the images (B, L, width); 0 where there is no image. Recipes without an image
        pass no layer, so that the statistics of a batch are of images alone."""
        real = batch["has_image"]
        kind = "features" if "features" in batch else "image"
        if bool(real.all()):
            return self.grid({kind: batch[kind]})
        if not bool(real.any()):
            cells = batch[kind].shape[1] if kind == "features" else 1
            return batch[kind].new_zeros(len(real), cells, self.grid.width)
        grid = self.grid({kind: batch[kind][real]})
        return grid.new_zeros(len(real), *grid.shape[1:]).masked_scatter(real[:, None, None], grid)

    # -----------------------------------------------------------------------------------------------------------------
    # The recipe

    def _remember(self, grid: Tensor, batch: text.Batch) -> list[dict[str, regard.Memory]]:
        """What each layer looks at."""
        names, lengths = batch["ingredients"], batch["ingredient_lengths"]
        shown = batch["shown"][:, None].expand(-1, grid.shape[1])
        used = torch.arange(names.shape[1], device=names.device) < lengths[:, None]
        places, ingredients = self.dropout(self.places(grid)), self.dropout(self.ingredients(names))
        return [layer.remember(places, shown, ingredients, used) for layer in self.layers]

    def start(self, batch: text.Batch) -> dict[str, Any]:
        """Places and ingredients as keys and values of each layer; empty caches of words."""
        grid = self._grid(batch)
        empty = grid.new_zeros(len(grid), 0, self.config.dim)
        shapes = {PLACES: grid.shape[:2], INGREDIENTS: batch["ingredients"].shape}
        return {
            "own": [layer.own.remember(empty) for layer in self.layers],
            "memories": self._remember(grid, batch),
            "looked": {name: grid.new_zeros(shape) for name, shape in shapes.items()},
        }

    def step(self, token: Tensor, state: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """Logits (B, V) of the token after ``token`` (B,)."""
        x = self.words(token[:, None], first=state["own"][0].length)
        caches, by_attention = [], {}
        for number, (layer, memory, own) in enumerate(zip(self.layers, state["memories"], state["own"])):
            x, cache, by_attention = layer(x, memory, own, weights=number == len(self.layers) - 1)
            caches.append(cache)
        by_axis = self._split({name: weights.mean(1)[:, 0] for name, weights in by_attention.items()}, state["looked"])
        return self.output(self.norm(x))[:, 0], {"own": caches, "memories": state["memories"], "looked": by_axis}

    @staticmethod
    def _split(by_attention: dict[str, Tensor], before: dict[str, Tensor]) -> dict[str, Tensor]:
        """The weights of the last layer, means over heads, by axis: (B, L) and (B, K)."""
        if "both" in by_attention:
            cells = before[PLACES].shape[1]
            return {PLACES: by_attention["both"][:, :cells], INGREDIENTS: by_attention["both"][:, cells:]}
        return {PLACES: by_attention["image"], INGREDIENTS: by_attention["ingredients"]}

    def alignment(self, state: dict[str, Any]) -> dict[str, Tensor]:
        """Where the last step looked: (B, L) over places and (B, K) over ingredients."""
        return state["looked"]

    def limit(self, batch: text.Batch) -> Tensor:
        """(B,): the longest recipe, in tokens."""
        lengths = batch["ingredient_lengths"]
        return torch.full_like(lengths, self.config.longest)

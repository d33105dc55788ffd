"""The base classes of parts (scores, normalizers, windows, refiners, positions, glimpses), and how they are found.

A part writes only its own formula. Masks, softmax, sums, dropout, recording and kernels are right once, elsewhere.

Letters used everywhere: B batch, H heads, T queries, S keys, D query/key width, E value width. ``(…)`` stands for the
leading dimensions that query, key and value share, usually (B,) or (B, H).
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from torch import Tensor, nn

from regard import _lazy

if TYPE_CHECKING:
    from regard.attended import Attended
    from regard.kernels.forms import AdditiveForm, DotForm, SplitForm, TiedForm
    from regard.memory import Memory

KINDS = ("scores", "normalizers", "windows", "refiners", "positions", "glimpses")
PROVIDED = ("state", "positions", "generator")
"""What a part may name in ``needs`` and receives without the caller; every other name is the caller's to pass."""


class Part(nn.Module):
    """One exchangeable piece of an attention."""

    equation: ClassVar[str] = ""
    """The formula in one line of Unicode, for ``regard list``."""

    paper: ClassVar[str] = ""
    """The paper that introduced it."""

    example: ClassVar[str] = ""
    """A call in Python, where that of its kind would not do (:func:`example`)."""

    needs: ClassVar[tuple[str, ...]] = ()
    """Names of what ``forward`` takes by keyword beyond its contract: ``state``, ``positions``, ``generator``, or
    tensors that the caller passes at the call, with T as their first dimension after the leading ones."""

    positional: ClassVar[bool] = False
    """Does the order of the keys matter?"""

    parallel: ClassVar[bool] = True
    """Can T queries be answered in one go? False where a query needs the weights of the one before."""

    required: ClassVar[tuple[str, ...]] = ()
    """Those of ``needs`` that the caller must pass: no default in ``forward``. Set automatically."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        parameters = inspect.signature(cls.forward).parameters
        passed = [name for name in cls.needs if name not in PROVIDED]
        cls.required = tuple(name for name in passed if parameters[name].default is inspect.Parameter.empty)

    def extra_repr(self) -> str:
        """The constructor's arguments, where they are kept under their names."""
        attributes = ((name, getattr(self, name, None)) for name in arguments(type(self)))
        return ", ".join(f"{name}={shown}" for name, value in attributes if (shown := _shown(value)) is not None)

    def start(self, memory: Memory) -> Any:
        """The state before the first query; tensors with batch first."""
        return None

    def advance(self, state: Any, out: Attended) -> Any:
        """The state after the queries that gave ``out``. What most stateful parts remember is the last weights."""
        weights = out.weights
        assert weights is not None
        return weights[..., -1, :]


class Score(Part):
    """How well does this key fit this query? ``forward(query, project(key)) -> (…, T, S)``."""

    query_dim: int | None = None
    key_dim: int | None = None
    same_width: ClassVar[bool] = False
    """Must queries and keys be equally wide?"""
    reads_all: ClassVar[bool] = False
    """Does :meth:`form` compute with all keys, also where a window leaves most of them out?"""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for twin in ("form", "pairs", "tied"):  # an inherited one would compute the old formula
            if "forward" in vars(cls) and twin not in vars(cls):
                setattr(cls, twin, getattr(Score, twin))

    def project(self, key: Tensor) -> Tensor:
        """What depends on the keys alone, (…, S, D) → (…, S, D'); :meth:`Attention.remember` does it once."""
        return key

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """(…, T, D), projected (…, S, D') → (…, T, S)."""
        raise NotImplementedError(f"{type(self).__name__} must define forward(query, key)")

    def pairs(self, query: Tensor, key: Tensor) -> Tensor:
        """(…, D), projected (…, D') → (…): each query with one key, as along the edges of a graph."""
        return self(query.unsqueeze(-2), key.unsqueeze(-2))[..., 0, 0]

    def form(self, query: Tensor, key: Tensor) -> DotForm | AdditiveForm | SplitForm | None:
        """The same score in the words of the fast kernels, or None where the plain formula is to be used."""
        return None

    def tied(self, rows: Tensor) -> TiedForm | None:
        """:meth:`form` along edges where query, key and value are the same rows, (N, H, D), if a kernel gains by it."""
        return None


class Normalizer(Part):
    """How do scores become weights? ``forward(scores, mask) -> weights``, both (…, T, S).

    ``mask`` is None or Boolean and broadcastable; a row without an allowed key becomes zeros.
    """

    sums_to_one: ClassVar[bool] = True
    shift_invariant: ClassVar[bool] = True
    """Does adding a constant to a row of scores change nothing?"""

    stochastic: ClassVar[bool] = False

    def forward(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} must define forward(scores, mask)")

    def log_prob(self, scores: Tensor, mask: Tensor | None, weights: Tensor) -> Tensor | None:
        """log p of the sampled ``weights``, (…, T), for normalizers that sample; else None."""
        return None


class Window(Part):
    """Which keys are candidates at all? ``forward(query, lengths, state) -> (start, width)``.

    ``lengths`` is the number of allowed keys, broadcastable to (…, T). ``start`` (…, T) is the left edge and may be
    real-valued; key s is a candidate if 0 ≤ s − start ≤ width − 1. Only candidates are read, scored and summed.
    """

    positional: ClassVar[bool] = True

    def forward(self, query: Tensor, lengths: Tensor, state: Any = None) -> tuple[Tensor, int]:
        raise NotImplementedError(f"{type(self).__name__} must define forward(query, lengths, state)")

    def factor(self, offset: Tensor) -> Tensor | None:
        """What multiplies the normalized weight of a key that lies ``offset`` = s − start from the left edge."""
        return None


class Refiner(Part):
    """Weights in, weights out: ``forward(weights, mask, **needs)``, both (…, T, S)."""

    def forward(self, weights: Tensor, mask: Tensor | None) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} must define forward(weights, mask)")


class Position(Part):
    """Where do queries and keys stand? ``forward(rows, first) -> rows``, both (…, T, D): queries or keys of a head as
    they are at the places first, first + 1, … Keys begin at 0, and the last query stands where the last key does."""

    positional: ClassVar[bool] = True

    def forward(self, rows: Tensor, first: int) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} must define forward(rows, first)")


class Glimpse(Part):
    """Attention by position: parameters → weights over positions → read (and, for some, write)."""

    positional: ClassVar[bool] = True


class Parts(NamedTuple):
    """The parts of one attention."""

    score: Score
    normalizer: Normalizer
    window: Window | None = None
    refiner: Refiner | None = None

    def stateful(self) -> list[Part]:
        """The parts that carry a state, in the order of the flow."""
        return [part for part in (self.window, self.score, self.refiner) if part is not None and "state" in part.needs]


def names(kind: str) -> list[str]:
    """The names of all parts of a kind, e.g. ``names("scores")``."""
    if kind not in KINDS:
        raise ValueError(f"no kind of part is called {kind!r}: {_lazy.nearest(kind, KINDS)}")
    return _lazy.names(f"regard.{kind}")


def find(kind: str, name: str) -> type[Part]:
    """The class of a part by its snake_case name, e.g. ``find("scores", "scaled_dot")``."""
    members = names(kind)
    if name not in members:
        raise ValueError(f"no {kind[:-1]} is called {name!r}: {_lazy.nearest(name, members)}")
    return _lazy.load(f"regard.{kind}", name)


def build(kind: str, part: str | Part) -> Any:
    """A part from an instance (returned as it is) or from the name of one that needs no arguments."""
    if isinstance(part, Part):
        return part
    if not isinstance(part, str):
        kind_name = f"the class {part.__name__}" if isinstance(part, type) else type(part).__name__
        raise ValueError(f"a {kind[:-1]} is given as an instance or a name, not as {kind_name}")
    cls = find(kind, part)
    missing = arguments(cls, required=True)
    if missing:
        raise ValueError(
            f"{kind[:-1]} {part!r} cannot be built from its name, it needs {', '.join(missing)}: build it once, "
            f"regard.{kind}.{cls.__name__}({', '.join(f'{name}=…' for name in missing)}), for regard.Attention"
        )
    return cls()


_CALLS = {
    "scores": "attention = regard.Attention({})\nout = attention(torch.randn(2, 3, 64), torch.randn(2, 5, 64))",
    "normalizers": "out = regard.attend(torch.randn(2, 3, 64), torch.randn(2, 5, 64), normalizer={})",
    "windows": "attention = regard.Attention(window={})\nout = attention(torch.randn(2, 3, 64), torch.randn(2, 9, 64))",
    "refiners": 'attention = regard.Attention("cosine", refiner={})',
    "positions": "out = regard.MultiHead(64, 8, positions={})(torch.randn(2, 5, 64))",
    "glimpses": "glimpse = {}",
}
_SIZES = {"max_length": 50, "radius": 5, "filters": 10, "kernel": 11, "mixtures": 10, "size": 12}
"""Values of arguments in an example; arguments that are not listed are widths."""


def example(kind: str, cls: type[Part]) -> str:
    """Lines of Python that use a part, after ``import regard, torch``."""
    sizes = ", ".join(f"{name}={_SIZES.get(name, 64)}" for name in arguments(cls, required=True))
    constructor = f"regard.{kind}.{cls.__name__}({sizes})"
    return cls.example or _CALLS[kind].format(constructor)


def _shown(value: Any) -> str | None:
    """A plain value; None for one that says nothing in a line, such as a layer."""
    if isinstance(value, Tensor):  # a learned number
        return f"{value.item():.4g}" if value.numel() == 1 and not value.is_meta else None
    return repr(value) if isinstance(value, bool | int | float | str | tuple) else None


def arguments(cls: type[Part], *, required: bool = False) -> list[str]:
    """The names of a part's constructor arguments (only those without a default, if ``required``)."""
    parameters = inspect.signature(cls.__init__).parameters.values()
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name != "self"]
    return [p.name for p in named if not required or p.default is p.empty]

"""A toy translation whose right answer, and right alignment, are known: English-like to Spanish-like sentences.

    the very big red cat does not see a house near the table
    el gato rojo muy grande no ve una casa cerca de la mesa

About fifty words a side show what alignment is about: adjectives follow their noun, in reverse order; determiners and
adjectives agree with its gender; one word becomes two (near: cerca de; perhaps: tal vez) and two become one (does not:
no; of the: del). A sentence has a chosen length, so that quality can be plotted over length. Rare names that translate
to themselves and are in no vocabulary can be mixed in, to replace unknown words by the source words of their weights.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from regard.data.lines import BadLines
from regard.data.text import Corpus, Listed, Pairs, key
from regard.data.tokens import Ragged, Tokenizer
from regard.metrics import alignment
from regard.metrics.alignment import Link
from regard.tasks._batches import Encoded
from regard.tasks._pairs import PairTask

NOUNS = {  # English: Spanish, and its gender
    "cat": ("gato", "m"), "dog": ("perro", "m"), "bird": ("pájaro", "m"), "boy": ("niño", "m"),
    "book": ("libro", "m"), "tree": ("árbol", "m"), "coffee": ("café", "m"), "house": ("casa", "f"),
    "girl": ("niña", "f"), "table": ("mesa", "f"), "door": ("puerta", "f"), "pear": ("pera", "f"),
}  # fmt: skip
ADJECTIVES = {  # English: Spanish, masculine and feminine
    "red": ("rojo", "roja"), "white": ("blanco", "blanca"), "black": ("negro", "negra"), "new": ("nuevo", "nueva"),
    "small": ("pequeño", "pequeña"), "pretty": ("bonito", "bonita"), "big": ("grande",) * 2, "green": ("verde",) * 2,
}  # fmt: skip
TRANSITIVE = {  # English base form: with -s, Spanish
    "see": ("sees", "ve"), "eat": ("eats", "come"), "want": ("wants", "quiere"), "have": ("has", "tiene"),
    "find": ("finds", "encuentra"), "love": ("loves", "ama"),
}  # fmt: skip
INTRANSITIVE = {"sleep": ("sleeps", "duerme"), "run": ("runs", "corre")}
PREPOSITIONS = {"near": ("cerca", "de"), "behind": ("detrás", "de"), "under": ("debajo", "de"), "with": ("con",)}
DETERMINERS = {"the": {"m": "el", "f": "la"}, "a": {"m": "un", "f": "una"}}

_NOUNS, _DETERMINERS, _PREPOSITIONS = list(NOUNS), list(DETERMINERS), list(PREPOSITIONS)
_TRANSITIVE, _INTRANSITIVE = list(TRANSITIVE), list(INTRANSITIVE)
_VERBS = {**TRANSITIVE, **INTRANSITIVE}
SOURCE_WORDS = sorted(
    {*NOUNS, *ADJECTIVES, *_VERBS, *(s for s, _ in _VERBS.values()), *PREPOSITIONS, *DETERMINERS}
    | {"very", "does", "not", "of", "and", "perhaps"}
)
CONTENT = {
    *(word for word, _ in NOUNS.values()),
    *(word for forms in ADJECTIVES.values() for word in forms),
    *(word for _, word in _VERBS.values()),
}
"""Content words of the target: those whose alignment is measured."""
TARGET_WORDS = sorted(
    CONTENT
    | {form for forms in DETERMINERS.values() for form in forms.values()}
    | {word for words in PREPOSITIONS.values() for word in words}
    | {"muy", "no", "de", "del", "y", "tal", "vez"}
)


class Example(NamedTuple):
    """A pair, and its word alignment: (source, target) numbers."""

    source: str
    target: str
    alignment: tuple[Link, ...]


@dataclass
class _Phrase:
    """A name, or a determiner, adjectives (each perhaps with "very") and a noun, and what it is part of or near to."""

    noun: str
    determiner: str = "the"
    adjectives: list[tuple[str, bool]] = field(default_factory=list)
    owner: _Phrase | None = None

    @property
    def is_name(self) -> bool:
        return self.noun not in NOUNS


@dataclass
class _Clause:
    subject: _Phrase
    verb: str
    object: _Phrase | None
    negated: bool
    places: list[tuple[str, _Phrase]]


class _Draw:
    """A sentence of exactly ``length`` words: a short one that grows where there is room."""

    def __init__(self, length: int, dice: random.Random, names: Sequence[str], name_share: float):
        self.dice, self.names, self.name_share = dice, names, name_share
        self.phrases: list[_Phrase] = []
        self.perhaps = False
        self.clauses = [self.clause(length)]
        self.stuck = False
        while not self.stuck and (room := length - len(self)):
            self.stuck = not self.grow(room)

    def __len__(self) -> int:
        joints = len(self.clauses) - 1  # and
        return self.perhaps + joints + sum(self.size(clause) for clause in self.clauses)

    def phrase(self) -> _Phrase:
        """A name, or two words: determiner and noun."""
        if self.names and self.dice.random() < self.name_share:
            phrase = _Phrase(self.dice.choice(self.names))
            self.phrases.append(phrase)
            return phrase
        return self.common()

    def common(self) -> _Phrase:
        phrase = _Phrase(self.dice.choice(_NOUNS), self.dice.choice(_DETERMINERS))
        self.phrases.append(phrase)
        return phrase

    def clause(self, room: int) -> _Clause:
        subject = self.phrase()
        if room < 5 or self.dice.random() < 0.2:
            return _Clause(subject, self.dice.choice(_INTRANSITIVE), None, False, [])
        return _Clause(subject, self.dice.choice(_TRANSITIVE), self.phrase(), False, [])

    def grow(self, room: int) -> bool:
        """Make one change that adds at most ``room`` words, if there is one."""
        ways: list[tuple[int, int, Any]] = [  # words, weight, change
            (1, 6, self.describe), (1, 2, self.intensify), (1, 1, self.doubt),
            (2, 3, self.negate), (3, 3, self.place), (3, 2, self.own), (6, 4, self.go_on),
        ]  # fmt: skip
        ways = [way for way in ways if way[0] <= room]
        while ways:
            chosen = self.dice.choices(ways, [weight for _, weight, _ in ways])[0]
            if chosen[2]():
                return True
            ways.remove(chosen)
        return False

    def describe(self) -> bool:
        bare = [phrase for phrase in self.phrases if not phrase.is_name and len(phrase.adjectives) < 2]
        if not bare:
            return False
        phrase = self.dice.choice(bare)
        left = [adjective for adjective in ADJECTIVES if adjective not in dict(phrase.adjectives)]
        phrase.adjectives.insert(0, (self.dice.choice(left), False))
        return True

    def intensify(self) -> bool:
        plain = [p for p in self.phrases if p.adjectives and not p.adjectives[0][1]]
        if plain:
            phrase = self.dice.choice(plain)
            phrase.adjectives[0] = (phrase.adjectives[0][0], True)
        return bool(plain)

    def doubt(self) -> bool:
        fresh, self.perhaps = not self.perhaps, True
        return fresh

    def negate(self) -> bool:
        positive = [clause for clause in self.clauses if not clause.negated]
        if positive:
            self.dice.choice(positive).negated = True
        return bool(positive)

    def place(self) -> bool:
        where = self.dice.choice(_PREPOSITIONS), self.common()
        self.dice.choice(self.clauses).places.append(where)
        return True

    def own(self) -> bool:
        free = [phrase for phrase in self.phrases if not phrase.is_name and phrase.owner is None]
        if free:
            self.dice.choice(free).owner = self.common()
        return bool(free)

    def go_on(self) -> bool:
        self.clauses.append(_Clause(self.common(), self.dice.choice(_TRANSITIVE), self.common(), False, []))
        return True

    def size(self, clause: _Clause) -> int:
        phrases = [
            clause.subject,
            *([clause.object] if clause.object else []),
            *(phrase for _, phrase in clause.places),
        ]
        return 1 + 2 * clause.negated + len(clause.places) + sum(map(self.words, phrases))

    def words(self, phrase: _Phrase) -> int:
        if phrase.is_name:
            return 1
        own = 2 + len(phrase.adjectives) + sum(very for _, very in phrase.adjectives)
        return own + (1 + self.words(phrase.owner) if phrase.owner else 0)


class _Writer:
    """Writes a drawn sentence in both languages at once, and notes the alignment."""

    def __init__(self) -> None:
        self.source: list[str] = []
        self.target: list[str] = []
        self.links: list[Link] = []

    def read(self, *words: str) -> list[int]:
        """Append source words; their numbers."""
        first = len(self.source)
        self.source += words
        return list(range(first, len(self.source)))

    def write(self, sources: list[int], *words: str) -> None:
        """Append target words that all come from these source words."""
        for word in words:
            self.links += [(source, len(self.target)) for source in sources]
            self.target.append(word)

    def phrase(self, phrase: _Phrase, *, after_of: list[int] | None = None) -> None:
        if phrase.is_name:
            if after_of:
                self.write(after_of, "de")
            self.write(self.read(phrase.noun), phrase.noun)
            return
        noun, gender = NOUNS[phrase.noun]
        determiner = self.read(phrase.determiner)
        described = []
        for adjective, very in phrase.adjectives:
            intensity = self.read("very") if very else []
            form = ADJECTIVES[adjective]["mf".index(gender)]
            described.append((intensity, self.read(adjective), form))
        noun_place = self.read(phrase.noun)
        article = DETERMINERS[phrase.determiner][gender]
        if after_of and article == "el":
            self.write(after_of + determiner, "del")
        else:
            if after_of:
                self.write(after_of, "de")
            self.write(determiner, article)
        self.write(noun_place, noun)
        for intensity, adjective_place, form in reversed(described):
            if intensity:
                self.write(intensity, "muy")
            self.write(adjective_place, form)
        if phrase.owner:
            self.phrase(phrase.owner, after_of=self.read("of"))

    def clause(self, clause: _Clause) -> None:
        self.phrase(clause.subject)
        third, verb = _VERBS[clause.verb]
        if clause.negated:
            self.write(self.read("does", "not"), "no")
        self.write(self.read(clause.verb if clause.negated else third), verb)
        if clause.object:
            self.phrase(clause.object)
        for preposition, phrase in clause.places:
            near = self.read(preposition)
            *before, last = PREPOSITIONS[preposition]
            if last == "de":
                self.write(near, *before)
                self.phrase(phrase, after_of=near)
            else:
                self.write(near, last)
                self.phrase(phrase)


def sentence(length: int, dice: random.Random, names: Sequence[str] = (), name_share: float = 0.2) -> Example:
    """A random pair whose source has ``length`` words (at least 3)."""
    if length < 3:
        raise ValueError(f"length = {length}: the shortest sentence has 3 words")
    drawn = _Draw(length, dice, names, name_share)
    while drawn.stuck:  # a sentence of names alone may have no room for just one word more
        drawn = _Draw(length, dice, names, name_share)
    writer = _Writer()
    if drawn.perhaps:
        writer.write(writer.read("perhaps"), "tal", "vez")
    for number, clause in enumerate(drawn.clauses):
        if number:
            writer.write(writer.read("and"), "y")
        writer.clause(clause)
    return Example(" ".join(writer.source), " ".join(writer.target), tuple(sorted(writer.links)))


def invented_names(number: int) -> list[str]:
    """Names that mean nothing: Bakor, Lumiset …"""
    dice = random.Random("names")
    names: dict[str, None] = {}
    while len(names) < number:
        syllables = [dice.choice("bdfgklmnprstvz") + dice.choice("aeiou") for _ in range(dice.randint(2, 3))]
        names["".join(syllables).capitalize() + dice.choice("klnrst")] = None
    return list(names)


@dataclass(frozen=True)
class Config:
    """How many sentences, how long, and whether rare names are among them."""

    shortest: int = 3
    longest: int = 12
    """Words of the longest source in training and validation."""
    test_longest: int = 0
    """The same in testing, to see how quality falls with length; 0 = ``longest``."""
    names: int = 0
    """Names that translate to themselves and are in no vocabulary."""
    name_share: float = 0.2
    """How often a phrase is a name, if there are any."""
    alignments: bool = False
    """Do batches hold ``affiliation`` (B, T), the source word that each target word comes from?"""
    train_size: int = 20_000
    valid_size: int = 500
    test_size: int = 1000
    max_length: int = 256
    batch_tokens: int = 4096

    def __post_init__(self) -> None:
        if not 3 <= self.shortest <= self.longest:
            raise ValueError(f"lengths from {self.shortest} to {self.longest}: at least 3, and the shortest first")
        if self.test_longest and self.test_longest < self.shortest:
            raise ValueError(f"test_longest = {self.test_longest} is below shortest = {self.shortest}")


def affiliation(example: Example) -> list[int]:
    """The place in the source that each target word comes from, as Devlin et al. 2014 have it: the middle one of
    several; of a word without any, that of the nearest word that has one, the right one if both are as near. The end
    comes from the end."""
    words = len(example.target.split())
    links = [sorted(s for s, t in example.alignment if t == place) for place in range(words)]
    middle = {place: sources[len(sources) // 2] for place, sources in enumerate(links) if sources}
    middle[words] = len(example.source.split())
    return [middle[min(middle, key=lambda t: (abs(t - place), -t))] for place in range(words + 1)]


_HOMES = ["test", "valid", *["train"] * 8]
"""The split that a sentence belongs to, by the last digit of its key: however short, none is in two."""


class ToyGrammar(PairTask):
    """English-like sentences into Spanish-like ones, word by word, with gold alignments; see the module's docstring.

    Lengths are uniform. No sentence is in two splits.
    """

    settings: ClassVar[type] = Config
    reads_data = False
    config: Config
    BINS: ClassVar[tuple[int, ...]] = (8, 12, 16, 20, 24)

    def make_tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        source, target = ([f" {word}" for word in words] for words in (SOURCE_WORDS, TARGET_WORDS))
        return Tokenizer.of_pieces(source), Tokenizer.of_pieces(target)

    @cached_property
    def _examples(self) -> dict[str, list[Example]]:
        config = self.config
        names = invented_names(config.names)
        longest = {"train": config.longest, "valid": config.longest, "test": config.test_longest or config.longest}
        splits: dict[str, list[Example]] = {split: [] for split in longest}
        for split, examples in splits.items():
            dice = random.Random(f"toy grammar: {split}")
            while len(examples) < getattr(config, f"{split}_size"):
                example = sentence(dice.randint(config.shortest, longest[split]), dice, names, config.name_share)
                if _HOMES[key(example.source) % 10] == split:
                    examples.append(example)
        return splits

    def examples(self, split: str) -> list[Example]:
        """The pairs of a split with their alignments."""
        return self._examples[split]

    def corpus(self, split: str) -> Corpus:
        source, target, _ = zip(*self._examples[split])
        numbers = list(range(1, len(source) + 1))
        return Listed(Pairs(list(source), list(target), numbers), (f"toy grammar, {split}",) * 2)

    def _encode(self, pairs: Pairs, corpus: Corpus, bad: BadLines) -> Encoded:
        encoded = super()._encode(pairs, corpus, bad)
        if not self.config.alignments:
            return encoded
        by_source = {example.source: example for examples in self._examples.values() for example in examples}
        rows = [affiliation(by_source[source]) for source in pairs.source]
        return encoded._replace(affiliation=Ragged.of(rows))

    def evaluate(
        self, hypotheses: Sequence[str], split: str = "test", weights: Sequence[np.ndarray | None] | None = None
    ) -> dict[str, float]:
        """As for every translation; and exact match for each bin of source length, ``exact_match@8`` for up to 8 words,
        ``exact_match@12`` for 9 to 12, and so on; with names, how many of them were written.

        With ``weights`` (T, S) for each hypothesis: ``aligned``, how many content words of right translations have
        their largest weight within ±1 of their gold source word, and the alignment error rate ``aer`` of the strongest
        links of all words.
        """
        scores = super().evaluate(hypotheses, split)
        examples = self._examples[split]
        right = [hypothesis.split() == example.target.split() for hypothesis, example in zip(hypotheses, examples)]
        below = 0
        for top in (*self.BINS, 10**9):
            inside = [ok for ok, example in zip(right, examples) if below < len(example.source.split()) <= top]
            if inside:
                scores[f"exact_match@{top}" if top < 10**9 else f"exact_match>{below}"] = (
                    100 * sum(inside) / len(inside)
                )
            below = top
        if self.config.names:
            rare = [set(example.target.split()) - set(TARGET_WORDS) for example in examples]
            written = sum(len(names & set(text.split())) for names, text in zip(rare, hypotheses))
            scores["names"] = 100 * written / max(sum(map(len, rare)), 1)
        if weights is not None:
            scores.update(_alignment(weights, [e if ok else None for e, ok in zip(examples, right)]))
        return scores

    def head_errors(self, looks: Iterable[tuple[int, np.ndarray]], split: str = "test") -> dict[tuple[int, int], float]:
        """The alignment error rate of each (layer, head); head −1 is the mean of its layer.

        Args:
            looks: the number of an example and where each head looked while its translation was written, (L, H, T, S).
        """
        links: dict[tuple[int, int], list[list[Link]]] = {}
        gold = []
        for row, weights in looks:
            example = self._examples[split][row]
            gold.append(example.alignment)
            height, width = len(example.target.split()), len(example.source.split())
            for layer, heads in enumerate(np.asarray(weights)[..., :height, :width]):
                for head, matrix in [*enumerate(heads), (-1, heads.mean(0))]:
                    links.setdefault((layer, head), []).append(alignment.argmax_links(matrix))
        return {place: alignment.alignment_error(ours, gold) for place, ours in links.items()}


def _alignment(weights: Sequence[np.ndarray | None], examples: Sequence[Example | None]) -> dict[str, float]:
    near = total = 0
    ours, gold = [], []
    for matrix, example in zip(weights, examples, strict=True):
        if matrix is None or example is None:
            continue
        words = example.target.split()
        content = [(s, t) for s, t in example.alignment if words[t] in CONTENT]
        hits, linked = alignment.aligned_within(matrix, content)
        near, total = near + hits, total + linked
        ours.append(alignment.argmax_links(np.asarray(matrix)[: len(words)]))
        gold.append(example.alignment)
    return {"aligned": 100 * near / max(total, 1), "aer": alignment.alignment_error(ours, gold)}

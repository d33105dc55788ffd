"""Translation of anyone's parallel text.

The data is a folder (or one file) in a common format: ``train.en`` beside ``train.de``, and ``val`` and
``test`` likewise, as in Multi30k; tab-separated pairs, as Tatoeba has them; or JSON lines; plain or gzipped. Where
there is no validation or test file, sentences are held out of the training text, so that none is on both sides. Files
too large for memory are streamed. With ``data=generated`` the sentences are those of the toy grammar.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from regard._lazy import nearest
from regard._settings import at_least
from regard.data import corpora
from regard.data import text as texts
from regard.data.download import locate
from regard.data.lines import BadLines
from regard.data.text import Corpus, Files, Listed, Pairs, Parallel, Tabs
from regard.data.tokens import LEVELS, Tokenizer
from regard.tasks._batches import PairLoader
from regard.tasks._pairs import PairTask, tokenizers_of
from regard.tasks.toy_grammar import sentence

GENERATED = "generated"
GENERATED_SIZES = {"train": 60, "valid": 8, "test": 8}


@dataclass(frozen=True)
class Config:
    """Which text, and how it is cut into tokens and batches."""

    src: str = "en"
    """Language of the source: the ending of its files, or its key in JSON lines."""
    tgt: str = "de"
    """Language of the target."""
    data: str = ""
    """A folder, a file, the name of a known data set such as ``multi30k``, or ``generated``."""
    train: str = ""
    """Name of the training files without the language, where it does not start with "train"."""
    valid: str = ""
    """The same for validation (else what starts with "val" or "dev")."""
    test: str = ""
    """The same for testing (else what starts with "test")."""
    columns: str = ""
    """Columns of source and target in tab-separated files, such as ``1,2``. If empty, those that the first line of a
    file names (``en``, tab, ``fr``); without such a line the first is the source and the second the target, but for
    files that are named after the source's language, as Tatoeba's are after the other language than English."""
    level: str = "bpe"
    """``bpe``, ``word`` or ``char``."""
    vocab: int = 8000
    """Entries of the vocabulary (of each, if not shared)."""
    shared: bool = True
    """One vocabulary for both languages?"""
    lowercase: bool = False
    tokens: str = ""
    """A run whose vocabulary is used instead of a learned one, so that ``init`` can start from its embeddings."""
    max_length: int = 256
    """Tokens of the longest sentence, eos included. A longer one in the data is an error, or left out with skip_bad."""
    batch_tokens: int = 4096
    """Slots of a batch on either side, padding included."""
    valid_size: int = 1000
    """Sentences to hold out for validation if there is no file for it (at most a tenth)."""
    test_size: int = 1000
    """The same for testing."""
    skip_bad: bool = False
    """Count and leave out bad lines instead of stopping at the first."""
    stream_mb: float = 256.0
    """Training text larger than this is streamed, not held in memory; it is then shuffled only within 16 MB."""

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ValueError(f"no level of text is called {self.level!r}: {nearest(self.level, LEVELS)}")
        at_least(self, "batch_tokens", max_length=2, valid_size=0, test_size=0)
        if self.columns:
            _columns(self.columns)


class Translation(PairTask):
    """Sentences of one language into another; see the module's docstring.

    >>> task = Translation(Config(src="en", tgt="fr"), "my-folder")       # doctest: +SKIP
    >>> for batch in task.loader("train", seed=1): ...                    # doctest: +SKIP
    """

    settings: ClassVar[type] = Config
    items: ClassVar[str] = "training pairs"
    config: Config

    @classmethod
    def amount(cls, config: Config, data: Any = None) -> int:
        """Lines of the training text, before any are held out."""
        if _is_generated(config, data):
            return GENERATED_SIZES["train"]
        return _files_of(config, data)["train"].lines()

    def corpus(self, split: str) -> Corpus:
        return self._corpora[split]

    @cached_property
    def _corpora(self) -> dict[str, Corpus]:
        config = self.config
        if _is_generated(config, self.data):
            return dict(_generated())
        files = _files_of(config, self.data)
        train = files["train"]
        streams = self._streams(train)
        if streams and isinstance(train, Parallel) and not config.skip_bad:
            train.check()
        sizes = {"test": config.test_size, "valid": config.valid_size}
        missing = {split: size for split, size in sizes.items() if split not in files}
        if not missing:
            return dict(files)
        # Of a stream only the beginning is read for this; the same sentences are then left out everywhere.
        head = {"head": texts.CHUNK} if streams else {}
        return {**files, **texts.hold_out(train, missing, BadLines(config.skip_bad), **head)}

    def batches_of(self, split: str, seed: int, shuffle: bool) -> PairLoader:
        loader, corpus = super().batches_of(split, seed, shuffle), self._corpora[split]
        if isinstance(corpus, Tabs):
            sides = zip(corpus.columns, (self.config.src, self.config.tgt), ("source", "target"))
            description = " and ".join(f"column {column} as {language}, the {side}" for column, language, side in sides)
            loader.note = f"{corpus.place(0)}: {description}"
        return loader

    def make_tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        train, config = self._corpora["train"], self.config
        if config.tokens:
            tokenizers = tokenizers_of(config.tokens)
            return tokenizers["source"], tokenizers["target"]
        settings: dict[str, Any] = dict(level=config.level, vocab=config.vocab, lowercase=config.lowercase)
        whole = (pairs for pairs, _ in train.chunks(BadLines(config.skip_bad)))
        chunks = list(train.sample() if isinstance(train, Files) and self._streams(train) else whole)
        source = [text for chunk in chunks for text in chunk.source]
        target = [text for chunk in chunks for text in chunk.target]
        if config.shared:
            both = Tokenizer.train([*source, *target], **settings)
            return both, both
        return Tokenizer.train(source, **settings), Tokenizer.train(target, **settings)


def _is_generated(config: Config, data: Any) -> bool:
    return str(data or config.data) == GENERATED


def _files_of(config: Config, data: Any) -> dict[str, Files]:
    """The files of each split that has some."""
    names = {"train": config.train, "valid": config.valid, "test": config.test}
    columns = _columns(config.columns) if config.columns else None
    return corpora.find(locate(data or config.data), config.src, config.tgt, columns, names)


def _generated() -> Iterator[tuple[str, Corpus]]:
    for split, size in GENERATED_SIZES.items():
        dice = random.Random(f"translation: {split}")
        examples = [sentence(dice.randint(3, 8), dice) for _ in range(size)]
        pairs = Pairs(
            [example.source for example in examples], [example.target for example in examples], list(range(1, size + 1))
        )
        yield split, Listed(pairs, (f"generated, {split}",) * 2)


def _columns(text: str) -> tuple[int, int]:
    numbers = text.split(",")
    if len(numbers) != 2 or not all(number.strip().isdigit() and int(number) for number in numbers):
        raise ValueError(f'columns = {text!r}: it must be two column numbers, such as "1,2"')
    return int(numbers[0]), int(numbers[1])

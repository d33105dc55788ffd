"""Number words, generated: English to German or Spanish, from 0 to 999,999.

A task that is exact, endless and small, with reorderings of real languages: German says the unit before the ten
(twenty-six: sechsundzwanzig), Spanish melts words together (veintiséis) and shortens them before others (uno, but
veintiún mil). ``digits`` (``"26"``) can be either side too.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from regard._lazy import nearest
from regard.data.text import Corpus, Listed, Pairs
from regard.data.tokens import Tokenizer
from regard.tasks._pairs import PairTask

LIMIT = 1_000_000

_EN = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
_EN_TENS = [
    "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
]  # fmt: skip
_DE = [
    "null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf",
    "dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn",
]  # fmt: skip
_DE_TENS = [
    "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig",
]  # fmt: skip
_ES = [
    "cero", "uno", "dos", "tres", "cuatro", "cinco", "seis", "siete", "ocho", "nueve", "diez", "once", "doce",
    "trece", "catorce", "quince", "dieciséis", "diecisiete", "dieciocho", "diecinueve", "veinte", "veintiuno",
    "veintidós", "veintitrés", "veinticuatro", "veinticinco", "veintiséis", "veintisiete", "veintiocho",
    "veintinueve",
]  # fmt: skip
_ES_TENS = [
    "treinta", "cuarenta", "cincuenta", "sesenta", "setenta", "ochenta", "noventa",
]  # fmt: skip
_ES_HUNDREDS = [
    "ciento", "doscientos", "trescientos", "cuatrocientos", "quinientos", "seiscientos", "setecientos",
    "ochocientos", "novecientos",
]  # fmt: skip


def english(n: int) -> str:
    """241 → two hundred forty-one."""
    words = []
    if n >= 1000:
        words += [english(n // 1000), "thousand"]
    rest = n % 1000
    if rest >= 100:
        words += [_EN[rest // 100], "hundred"]
    rest %= 100
    if rest >= 20:
        unit = f"-{_EN[rest % 10]}" if rest % 10 else ""
        words.append(_EN_TENS[rest // 10 - 2] + unit)
    elif rest or not n:
        words.append(_EN[rest])
    return " ".join(words)


def german(n: int) -> str:
    """241 → zweihunderteinundvierzig: one word, the unit before the ten."""
    word = ""
    if n >= 1000:
        word += _before_noun(german(n // 1000)) + "tausend"
    rest = n % 1000
    if rest >= 100:
        word += _before_noun(_DE[rest // 100]) + "hundert"
    rest %= 100
    if rest >= 20:
        unit = _before_noun(_DE[rest % 10]) + "und" if rest % 10 else ""
        word += unit + _DE_TENS[rest // 10 - 2]
    elif rest or not n:
        word += _DE[rest]
    return word


def _before_noun(word: str) -> str:
    """One is eins at the end, but ein before und, hundert and tausend."""
    return word.removesuffix("s") if word.endswith("eins") else word


def spanish(n: int) -> str:
    """241 → doscientos cuarenta y uno."""
    words = []
    if n >= 1000:
        thousands = n // 1000
        if thousands > 1:
            words.append(_before_mil(spanish(thousands)))
        words.append("mil")
    rest = n % 1000
    if rest == 100:
        return " ".join([*words, "cien"])
    if rest > 100:
        words.append(_ES_HUNDREDS[rest // 100 - 1])
    rest %= 100
    if rest >= 30:
        words.append(_ES_TENS[rest // 10 - 3])
        words += ["y", _ES[rest % 10]] if rest % 10 else []
    elif rest or not n:
        words.append(_ES[rest])
    return " ".join(words)


def _before_mil(words: str) -> str:
    """Uno loses its o before mil, and the stress of veintiún is then written."""
    if words.endswith("veintiuno"):
        return words.removesuffix("uno") + "ún"
    return words.removesuffix("o") if words.endswith("uno") else words


LANGUAGES: dict[str, Callable[[int], str]] = {"en": english, "de": german, "es": spanish, "digits": str}


def spell(n: int, language: str) -> str:
    """A number from 0 to 999,999 in words of ``en``, ``de`` or ``es``, or in ``digits``."""
    if language not in LANGUAGES:
        raise ValueError(f"numbers are not spelled in {language!r}: {nearest(language, LANGUAGES)}")
    if not 0 <= n < LIMIT:
        raise ValueError(f"{n} is not a number from 0 to {LIMIT - 1:,}")
    return LANGUAGES[language](n)


@dataclass(frozen=True)
class Config:
    """Which numbers, in which languages."""

    src: str = "en"
    tgt: str = "de"
    level: str = "word"
    """``word`` (the building stones of a number: ein und zwanzig, but written together) or ``char``."""
    largest: int = LIMIT - 1
    train_size: int = 20_000
    valid_size: int = 500
    test_size: int = 1000
    max_length: int = 256
    batch_tokens: int = 4096

    def __post_init__(self) -> None:
        for language in (self.src, self.tgt):
            spell(0, language)
        if self.level not in ("word", "char"):
            raise ValueError(
                f"no level of number words is called {self.level!r}: {nearest(self.level, ('word', 'char'))}"
            )
        if not 99 <= self.largest < LIMIT:
            raise ValueError(f"largest = {self.largest}: it must be from 99 to {LIMIT - 1:,}")


class NumberWords(PairTask):
    """Numbers spelled in one language, to be spelled in another. No number is in two splits; short ones are as frequent
    as long ones, as far as there are any.
    """

    settings: ClassVar[type] = Config
    reads_data = False
    config: Config

    def make_tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        return _tokenizer(self.config, self.config.src), _tokenizer(self.config, self.config.tgt)

    def numbers(self, split: str) -> list[int]:
        """The numbers of a split: the same on every machine."""
        return list(_numbers(split, getattr(self.config, f"{split}_size"), self.config.largest))

    def corpus(self, split: str) -> Corpus:
        numbers = self.numbers(split)
        source = [spell(n, self.config.src) for n in numbers]
        target = [spell(n, self.config.tgt) for n in numbers]
        return Listed(Pairs(source, target, list(range(1, len(numbers) + 1))), (f"numbers, {split}",) * 2)


@cache
def _numbers(split: str, size: int, largest: int) -> tuple[int, ...]:
    draw = random.Random(f"number words: {split}")
    chosen: dict[int, None] = {}
    tries = 0
    while len(chosen) < size and tries < 60 * size:
        tries += 1
        n = draw.randrange(10 ** draw.randint(1, len(str(largest))))
        if n <= largest and _home(n) == split:
            chosen[n] = None
    return tuple(chosen)


def _home(n: int) -> str:
    """The split that a number belongs to: one in twenty is for validation, one in twenty for testing."""
    place = hashlib.blake2b(str(n).encode(), digest_size=8).digest()[0]
    return "test" if place < 13 else "valid" if place < 26 else "train"


def _tokenizer(config: Config, language: str) -> Tokenizer:
    if config.level == "char" or language == "digits":
        texts = {spell(n, language) for n in range(1000)} | {spell(n * 1000, language) for n in range(1, 1000)}
        return Tokenizer.of_pieces(sorted(set("".join(texts))), spaced=False)
    if language == "en":
        return Tokenizer.of_pieces([f" {word}" for word in (*_EN, *_EN_TENS, "hundred", "thousand")] + ["-", *_EN])
    if language == "es":
        extra = ("un", "veintiún", "cien", "y", "mil")
        return Tokenizer.of_pieces([f" {word}" for word in (*_ES, *_ES_TENS, *_ES_HUNDREDS, *extra)])
    stones = (*_DE, "ein", *_DE_TENS, "hundert", "tausend", "und")
    return Tokenizer.of_pieces([*(f" {stone}" for stone in stones), *stones])

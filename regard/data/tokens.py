"""Text to numbers and back: subwords, words or characters, with the ids 0 to 3 reserved.

Subwords are byte-level BPE (Sennrich et al. 2015, arXiv:1508.07909; bytes as in Radford et al. 2019): what was
never seen is spelled in bytes, so that any text comes back as it went in. A word carries the space before it (``"
love"``), which makes joining trivial: the text is the pieces, one after the other.
"""

from __future__ import annotations

import codecs
import json
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from regard import _files
from regard._lazy import nearest
from regard.data import untrusted
from regard.data.lines import clean
from regard.data.scripts import JOINER, UNSPACED_BLOCKS

PAD, BOS, EOS, UNKNOWN = range(4)
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
LEVELS = ("bpe", "word", "char")

_SPACES = r"\s+(?!\S)|\s+"
# Digits stand alone among subwords: copying a number is then copying its digits.
_SUBWORD = rf" ?[\p{{L}}\p{{M}}]+| ?\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+|{_SPACES}"
# Scripts that put no space between words are read character by character.
_UNSPACED = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*"
_SPACED = rf"(?:(?!{_UNSPACED})[\p{{L}}\p{{M}}])+"
_WORD = rf" ?{_UNSPACED}| ?{_SPACED}(?:['’]{_SPACED})*| ?\p{{N}}+| ?[^\s\p{{L}}\p{{M}}\p{{N}}]|{_SPACES}"
_CHARACTER = r"[\s\S]"


class Ragged(NamedTuple):
    """Sequences of ids end to end: sequence i is ``ids[offsets[i]:offsets[i + 1]]``."""

    ids: np.ndarray  # int32
    offsets: np.ndarray  # int64

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def __getitem__(self, row: int) -> np.ndarray:  # type: ignore[override]
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    @staticmethod
    def of(sequences: Sequence[Sequence[int] | np.ndarray]) -> Ragged:
        """From lists or arrays of ids."""
        offsets = np.zeros(len(sequences) + 1, dtype=np.int64)
        np.cumsum([len(sequence) for sequence in sequences], out=offsets[1:])
        ids = np.fromiter(chain.from_iterable(sequences), dtype=np.int32, count=int(offsets[-1]))
        return Ragged(ids, offsets)

    @staticmethod
    def join(parts: Sequence[Ragged]) -> Ragged:
        """One after the other."""
        starts = np.cumsum([0, *(len(part.ids) for part in parts)])
        offsets = [part.offsets[1:] + start for part, start in zip(parts, starts)]
        ids = [part.ids for part in parts]
        return Ragged(np.concatenate(ids or [np.zeros(0, np.int32)]), np.concatenate([np.zeros(1, np.int64), *offsets]))


class Tokenizer:
    """Text ↔ ids at one level; make it with :meth:`train`, :meth:`of_pieces` or :meth:`load`."""

    def __init__(self, backend: Backend):
        self.backend = backend
        # "</s>" in somebody's text is four characters, not the end of the sentence.
        backend.encode_special_tokens = True
        for number, name in enumerate(SPECIAL):
            if backend.token_to_id(name) != number:
                raise ValueError(f"a tokenizer of regard has {name} at {number}; this one has {name} elsewhere")
        self._bytes = isinstance(backend.model, models.BPE)
        self._gap = " " if backend.normalizer and backend.normalizer.normalize_str("a") == " a" else ""
        self._cache: dict[str, list[int]] = {}
        self._cache_size = 0

    @classmethod
    def train(
        cls, texts: Iterable[str], *, level: str = "bpe", vocab: int = 8000, lowercase: bool = False
    ) -> Tokenizer:
        """Learn at most ``vocab`` entries, the reserved four among them, from texts."""
        if level not in LEVELS:
            raise ValueError(f"no level of text is called {level!r}: {nearest(level, LEVELS)}")
        least = 4 + 256 if level == "bpe" else 5
        if vocab < least:
            raise ValueError(f"vocab = {vocab}: level {level!r} needs at least {least} entries")
        settings: dict[str, Any] = dict(vocab_size=vocab, special_tokens=list(SPECIAL), show_progress=False)
        if level == "bpe":
            backend = _bytewise(lowercase)
            trainer: Any = trainers.BpeTrainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **settings)
        else:
            backend = _whole(_WORD if level == "word" else _CHARACTER, lowercase, prefix=level == "word")
            trainer = trainers.WordLevelTrainer(**settings)
        backend.train_from_iterator(_batched(texts), trainer)
        return cls(backend)

    @classmethod
    def of_pieces(cls, pieces: Iterable[str], *, spaced: bool = True) -> Tokenizer:
        """From a closed list of pieces, longer ones tried first; all else is unknown.

        With ``spaced``, a piece that starts a word has the space before it (``" twenty"``), as also the first word has.
        """
        distinct = list(dict.fromkeys(pieces))
        alternatives = "|".join(_escape(piece) for piece in sorted(distinct, key=len, reverse=True))
        # A piece of a word counts only if another follows it or the word ends there: "cats" is no cat.
        pattern = rf"(?:{alternatives})(?=$|\s|{alternatives})|{_WORD}" if spaced else _CHARACTER
        backend = _whole(pattern, lowercase=False, prefix=spaced)
        vocab = {piece: number for number, piece in enumerate([*SPECIAL, *distinct])}
        backend.model = models.WordLevel(vocab, unk_token=SPECIAL[UNKNOWN])
        backend.add_special_tokens(list(SPECIAL))
        return cls(backend)

    def __len__(self) -> int:
        return self.backend.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without bos and eos."""
        return self.backend.encode(text, add_special_tokens=False).ids

    def encode_all(self, texts: Sequence[str]) -> Ragged:
        """The ids of many texts, as :meth:`encode` gives them; fast.

        No piece reaches over a space, so a text is its words, and most words have been met before.
        """
        cache = self._cache
        parts = []
        for start in range(0, len(texts), 4096):
            word_lists = [self._independent(text) for text in texts[start : start + 4096]]
            fresh = list({word for words in word_lists for word in words if word not in cache})
            encodings = self.backend.encode_batch_fast(fresh, add_special_tokens=False)
            cache.update((word, encoding.ids) for word, encoding in zip(fresh, encodings))
            self._cache_size += sum(len(cache[word]) + 5 for word in fresh)
            parts.append(Ragged.of([list(chain.from_iterable(map(cache.__getitem__, words))) for words in word_lists]))
            if self._cache_size > 1_000_000:  # a bounded memory, in which the frequent words are soon again
                cache.clear()
                self._cache_size = 0
        return Ragged.join(parts)

    def _independent(self, text: str) -> list[str]:
        words = text.split(" ") if self._gap else [text]
        return words if "" not in words else [text]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids. Reserved ids are left out, except that an unknown word is shown as ``<unk>``."""
        pieces = [i for i in map(int, ids) if i not in (PAD, BOS, EOS)]
        return self.backend.decode(pieces, skip_special_tokens=False)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The text of each id, the space before a word included. A byte that is no character by itself shows as �."""
        return [self._piece(int(i)) for i in ids]

    def surfaces(self, text: str) -> list[str]:
        """What each id of a sentence stands for in it, unknown words too, without the spaces around it. The sentence
        is read as a task reads it: :func:`clean`.
        """
        text = clean(text)
        return [text[start:end].strip() for start, end in self.backend.encode(text, add_special_tokens=False).offsets]

    def words(self, ids: Iterable[int], *, apart: bool = False) -> tuple[list[str], list[int]]:
        """The words, and for each id the number of its word: −1 for spaces and reserved ids.

        Words are what spaces divide; with ``apart``, punctuation and each character of a script without spaces are
        words of their own, which makes the better picture.
        """
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        text, starts = "", []
        for i in map(int, ids):
            starts.append(-1 if i in (PAD, BOS, EOS) else len(text))
            if i == UNKNOWN:
                text += decoder.decode(self._gap.encode()) + _UNKNOWN_SIGN
            elif i not in (PAD, BOS, EOS):
                text += decoder.decode(self._raw(i))
        text += decoder.decode(b"", final=True)
        ends = [*starts[1:], len(text)]
        for row in range(len(ends) - 2, -1, -1):  # a reserved id has no place of its own
            ends[row] = ends[row] if ends[row] >= 0 else ends[row + 1]
        word_of, words = _divide(text, apart)
        # Every id begins a character or goes on with one; its words are those of its characters.
        words_in = [
            [word_of[place] for place in range(start, max(end, start + 1)) if word_of[place] >= 0] if start >= 0 else []
            for start, end in zip(starts, ends)
        ]
        # Where one id holds several words, they cannot be told apart and are one.
        joined = {word for row in words_in for word in range(min(row, default=0) + 1, max(row, default=0) + 1)}
        number = np.cumsum([word not in joined for word in range(len(words))]) - 1
        merged = [""] * (int(number[-1]) + 1 if len(words) else 0)
        for word, place in zip(words, number):
            merged[place] += word.replace(_UNKNOWN_SIGN, SPECIAL[UNKNOWN])
        return merged, [int(number[row[0]]) if row else -1 for row in words_in]

    def _raw(self, i: int) -> bytes:
        token = self.backend.id_to_token(i)
        if token is None:
            raise ValueError(f"no token has the id {i}; there are {len(self)}")
        return bytes(_BYTES[c] for c in token) if self._bytes else token.encode()

    def _piece(self, i: int) -> str:
        return f"{self._gap}{SPECIAL[i]}" if i < len(SPECIAL) else self._raw(i).decode(errors="replace")

    def save(self, path: Path) -> None:
        """Write the ``tokenizers`` library's own JSON."""
        _files.replace(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """What :meth:`save` writes."""
        return self.backend.to_str().encode()

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Read what :meth:`save` wrote.

        Of the file only the vocabulary is taken. The steps are made anew, and must be those that the file names: the
        library has others, which multiply a text, pad it without end, or split it by a pattern that takes for ever.
        """
        content = untrusted.parse_json(untrusted.read(path), path)
        try:
            return cls(_rebuilt(content))
        except Exception as error:  # the library raises a bare Exception, and a foreign file may lack anything
            raise ValueError(f"{path}: not a tokenizer of regard's ({str(error)[:300]})") from None


def _rebuilt(content: Any) -> Backend:
    """One of our tokenizers, as the library's JSON describes it."""
    steps, model, vocab = _outline(content), content["model"], content["model"]["vocab"]
    tokens = sorted(vocab, key=vocab.__getitem__)
    if [vocab[token] for token in tokens] != list(range(len(tokens))) or "" in vocab:
        raise ValueError("ids are not 0, 1, 2 and so on, or an empty text has one")
    if tokens[: len(SPECIAL)] != list(SPECIAL):
        raise ValueError(f"{', '.join(SPECIAL)} are not its first tokens but elsewhere, or missing")
    names = [name for name, _ in steps["normalizer"]]
    lowercase, prefix = "Lowercase" in names, "Prepend" in names
    if model["type"] == "BPE":
        if not set("".join(tokens[len(SPECIAL) :])) <= _BYTES.keys():
            raise ValueError("a token has a letter that stands for no byte")
        backend = _bytewise(lowercase)
        merges = [tuple(pair.split(" ") if isinstance(pair, str) else pair) for pair in model["merges"]]
        backend.model = models.BPE(vocab, merges)
    elif (pattern := content["pre_tokenizer"]["pattern"]["Regex"]) in (_WORD, _CHARACTER):
        backend = _whole(pattern, lowercase, prefix=prefix)
        backend.model = models.WordLevel(vocab, unk_token=SPECIAL[UNKNOWN])
    else:
        backend = Tokenizer.of_pieces(tokens[len(SPECIAL) :]).backend
    for part, ours in _outline(json.loads(backend.to_str())).items():
        if steps[part] != ours:
            theirs = ", ".join(name for name, _ in steps[part]) or "nothing"
            raise ValueError(
                f"its {part}, {theirs}, is not {', '.join(name for name, _ in ours) or 'nothing'} as ours is"
            )
    backend.add_special_tokens(list(SPECIAL))
    return backend


def _outline(content: Any) -> dict[str, list[tuple[str, Any]]]:
    """The steps of each part, by name, and what they look for."""

    def steps(part: Any) -> list[tuple[str, Any]]:
        if part is None or part["type"] != "Sequence":
            return [] if part is None else [(part["type"], part.get("pattern"))]
        return [step for value in part.values() if isinstance(value, list) for inner in value for step in steps(inner)]

    return {part: steps(content[part]) for part in ("pre_tokenizer", "normalizer", "post_processor", "decoder")}


def _bytewise(lowercase: bool) -> Backend:
    backend = Backend(models.BPE())
    backend.normalizer = _normalizer(lowercase, prefix=True)
    split = pre_tokenizers.Split(Regex(_SUBWORD), "isolated")
    in_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([split, in_bytes])
    backend.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    return backend


def _whole(pattern: str, lowercase: bool, *, prefix: bool) -> Backend:
    backend = Backend(models.WordLevel(unk_token=SPECIAL[UNKNOWN]))
    backend.normalizer = _normalizer(lowercase, prefix=prefix)
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
    unknown = f"{' ' * prefix}{SPECIAL[UNKNOWN]}"
    steps = [decoders.Replace(SPECIAL[UNKNOWN], unknown), decoders.Fuse(), decoders.Strip(" ", int(prefix), 0)]
    backend.decoder = decoders.Sequence(steps)
    return backend


def _normalizer(lowercase: bool, *, prefix: bool) -> normalizers.Sequence:
    steps: list[Any] = [normalizers.Lowercase()] if lowercase else []
    return normalizers.Sequence([*steps, normalizers.Prepend(" ")] if prefix else steps)


def _escape(piece: str) -> str:
    return "".join(rf"\x{{{ord(c):x}}}" for c in piece)


def _batched(texts: Iterable[str], size: int = 1000) -> Iterator[list[str]]:
    texts = iter(texts)
    while batch := list(islice(texts, size)):
        yield batch


def _divide(text: str, apart: bool) -> tuple[list[int], list[str]]:
    """For each character the number of its word, −1 for spaces; and the words."""
    numbers: list[int] = []
    words: list[str] = []
    before = "space"
    for place, character in enumerate(text):
        if not apart:
            kind = "space" if character.isspace() else "letter"
            fresh = kind != before
        elif before != "space" and (_clings(character) or text[place - 1] == JOINER):
            kind, fresh = before, False
        else:
            kind = _kind(character)
            # The apostrophe in don't and the hyphen in well-known belong to the word.
            if character in "'’-" and before == "letter" and _kind(text[place + 1 : place + 2]) == "letter":
                kind = "letter"
            fresh = kind != before or kind == "unspaced"
        if kind == "space":
            numbers.append(-1)
        else:
            if fresh:
                words.append("")
            words[-1] += character
            numbers.append(len(words) - 1)
        before = kind
    return numbers, words


def _kind(character: str) -> str:
    """``space``, ``letter``, ``unspaced`` (a letter of a script without spaces), or the sign itself."""
    if not character or character.isspace():
        return "space"
    if unicodedata.category(character)[0] in "PS" and character != "\ufffd":
        return character
    return "unspaced" if any(first <= character <= last for first, last in UNSPACED_BLOCKS) else "letter"


def _clings(character: str) -> bool:
    """Accents, vowel signs, joiners, skin tones: what changes the character before it."""
    return unicodedata.category(character)[0] == "M" or character == JOINER or "🏻" <= character <= "🏿"


_UNKNOWN_SIGN = "\ud800"  # no text that was decoded can hold it


def _byte_alphabet() -> dict[str, int]:
    """Which byte each letter of byte-level BPE stands for: printable ones for themselves, the rest from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(0x100 + number): b for number, b in enumerate(others)}


_BYTES = _byte_alphabet()

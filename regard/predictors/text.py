"""Sentences in, sentences out, and which word came from where."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from regard import decode, record
from regard.attention import witness
from regard.data.text import clean
from regard.decode.config import DecodeConfig
from regard.decode.config import decode as search
from regard.decode.packed import twin
from regard.predictors._processes import spread
from regard.predictors.predictor import Answer, Predictor, lines, track
from regard.questions import Flag, Number, form
from regard.questions import Text as Text_
from regard.views import alignment, heads
from regard.views.picture import Picture

BOS, EOS, UNKNOWN, END = 1, 2, 3, "</s>"
CHUNK = 512
"""Sentences that are sorted by length and decoded together."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """One answer.

    Attributes:
        text: the target sentence.
        score: what answers are ranked by, larger is better.
        log_prob: its log-probability.
        source_words, words: both sentences cut into words.
        weights: (T, S) of words: where each target word looked; None if the system does not look.
        end: (T,), what of each row lies on the end of the source and on no word; with it a row sums to 1.
    """

    text: str
    score: float
    log_prob: float
    source_words: list[str]
    words: list[str]
    weights: Tensor | None
    end: Tensor | None = None

    def pharaoh(self) -> str:
        """The strongest link of each target word, ``0-0 1-2``."""
        return "" if self.weights is None else decode.pharaoh(self.weights)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; weights to four places."""
        found = {"text": self.text, "score": self.score, "source_words": self.source_words, "words": self.words}
        if self.weights is None or self.end is None:
            return {**found, "weights": None, "end": None}
        rounded = [[round(x, 4) for x in row] for row in self.weights.tolist()]
        return {**found, "weights": rounded, "end": [round(x, 4) for x in self.end.tolist()]}


NOTHING = Prediction("", 0.0, 0.0, [], [], None)
"""The answer to an empty line."""
MISSING = Prediction("", float("-inf"), float("-inf"), [], [], None)
"""Where a search found fewer answers than were asked for."""


class Text(Predictor):
    """A system that writes a sentence, or several that decide together."""

    @property
    def config(self) -> DecodeConfig:
        """How sentences are searched for."""
        return self.recipe.build("decode")

    def join(self, others: Sequence[Predictor]) -> Self:
        """An ensemble. All must have the same vocabularies."""
        for other in others:
            for side in ("source", "target"):
                ours, theirs = (getattr(each.task, side).backend.to_str() for each in (self, other))
                if ours != theirs:
                    raise ValueError(
                        f"{self.name} and {other.name} have different {side} vocabularies and cannot vote together"
                    )
        model = decode.Ensemble([self.model, *(other.model for other in others)])
        return type(self)(model, self.task, self.recipe, self.name)

    def predict(
        self,
        sentences: Iterable[str],
        *,
        nbest: int = 1,
        alignments: bool = True,
        chunk: int = CHUNK,
        dictionary: Mapping[str, str] | None = None,
        generator: torch.Generator | None = None,
    ) -> Iterator[list[Prediction]]:
        """At most ``nbest`` answers to each sentence, in order, also of a stream. An empty one has an empty answer.

        Args:
            chunk: how many sentences are read before the first answer; sorted by length they decode faster.
            dictionary: what unknown words become, looked up by the source word that was looked at; others are copied.
        """
        waiting = iter(sentences)
        while group := list(itertools.islice(waiting, chunk)):
            yield from self._group(group, nbest, alignments, dictionary, generator)

    @torch.inference_mode()
    def _group(
        self,
        sentences: Sequence[str],
        nbest: int,
        alignments: bool,
        dictionary: Mapping[str, str] | None,
        generator: torch.Generator | None,
    ) -> list[list[Prediction]]:
        answers: list[list[Prediction]] = [[NOTHING] for _ in sentences]
        filled = [row for row, sentence in enumerate(sentences) if sentence.strip()]
        for rows, batch in self.task.batches([sentences[row] for row in filled]):
            options: dict[str, Any] = {"nbest": nbest, "alignments": alignments, "generator": generator}
            # A tape knows the model's own parts by name.
            model = self.model if witness.see is not None else twin(self.model)
            found = search(model, self.moved(batch), self.config, **options)
            for row, source, hypotheses in zip(rows, batch["source"], found, strict=True):
                sentence = sentences[filled[row]]
                answers[filled[row]] = [self._answer(sentence, source, each, dictionary) for each in hypotheses]
        return answers

    def _answer(
        self, sentence: str, source: Tensor, hypothesis: decode.Hypothesis, dictionary: Mapping[str, str] | None
    ) -> Prediction:
        tokens, spelling = hypothesis.tokens, self.task.target
        source_words, source_numbers = self.task.source.words(source.tolist(), apart=True)
        words, numbers = spelling.words(tokens, apart=True)
        weights, end, text = None, None, spelling.decode(tokens)
        if hypothesis.alignment is not None:
            raw = hypothesis.alignment[: len(numbers), : len(source_numbers)]
            count = len(source_words)
            places = [count if number < 0 else number for number in source_numbers]
            weights, end = _by_word(raw, numbers, len(words), places, count + 1).split([count, 1], 1)
            end = end[:, 0]
        if hypothesis.alignment is not None and dictionary is not None and UNKNOWN in tokens:
            cut = hypothesis.alignment.shape[1]  # a long sentence may have been
            seen = self.task.source.surfaces(sentence)[:cut]
            told = decode.replace_unknown(hypothesis, seen, spelling.pieces(tokens), dictionary)
            known = [" " + word if token == UNKNOWN else word for token, word in zip(tokens, told, strict=True)]
            text = "".join(known).strip()
            instead = iter(word for token, word in zip(tokens, told, strict=True) if token == UNKNOWN)
            words = [next(instead) if word == "<unk>" else word for word in words]
        return Prediction(text, hypothesis.score, hypothesis.log_prob, source_words, words, weights, end)

    def evaluate(self, split: str = "test", *, limit: int | None = None) -> dict[str, float]:
        """The task's metrics of what the system writes (never of teacher-forced words), and its speed."""
        pairs, began = self.task.pairs(split), time.perf_counter()
        sources = pairs.source[:limit]
        answers = [best for best, *_ in track(self.predict(sources), len(sources))]
        seconds = time.perf_counter() - began
        texts = [answer.text for answer in answers]
        if limit is not None:
            found = self.task.compare(texts, pairs.target[:limit])
        elif answers[0].weights is not None and "weights" in inspect.signature(self.task.evaluate).parameters:
            found = self.task.evaluate(texts, split, [answer.weights for answer in answers])
        else:
            found = self.task.evaluate(texts, split)
        if limit is None and self.has_heads and hasattr(self.task, "head_errors"):
            errors = self.task.head_errors(self.looks(pairs.source, pairs.target), split)
            found |= {f"aer@{head_name(*place)}": error for place, error in errors.items()}
        self.signatures = self.task.signatures
        return {**found, "sentences_per_second": len(texts) / seconds}

    @property
    def has_heads(self) -> bool:
        """Are there several heads, any of which might say where a word came from?"""
        return hasattr(getattr(self.model, "config", None), "alignment_head")

    @torch.inference_mode()
    def looks(self, sources: Sequence[str], targets: Sequence[str]) -> Iterator[tuple[int, Tensor]]:
        """Where each head looks at the source while given translations are written: for each pair its number and the
        weights (L, H, T, S) of its tokens, without their ends. Pairs of like length come together."""
        for rows, batch in self.task.batches(sources):
            written = [self.task.target.encode(targets[row]) for row in rows]
            framed = [torch.tensor([BOS, *ids, EOS]) for ids in written]
            batch["target"] = torch.nn.utils.rnn.pad_sequence(framed, batch_first=True)
            batch["target_lengths"] = torch.tensor([len(ids) + 1 for ids in written])
            with record(self.model) as tape:
                self.model(self.moved(batch))
            layers = [tape[name].weights for name in tape if name.rpartition(".")[2] in ("cross", "attention")]
            if not layers:
                raise ValueError(f"{self.name} does not look at the source")
            # An RNN has one layer and one head.
            weights = torch.stack([each if each.ndim == 4 else each[:, None] for each in layers], 1).cpu()
            for ids, row, length, each in zip(written, rows, batch["source_lengths"].tolist(), weights):
                yield row, each[..., : len(ids), : length - 1]

    def choose_head(self, split: str = "valid", *, by: str | None = None) -> dict[str, Any]:
        """Find the head that says best where a word came from, and use it from now on: for pictures, word alignments
        and unknown words. ``Run.note(alignment=…)`` keeps what this returns.

        Args:
            split: whose sentences are looked at.
            by: ``gold``: the least error against the right alignment, by default where the task knows it; ``copied``:
                see :meth:`copied`.

        Layers and heads count from 0; head −1 is the mean of its layer's. ``heads`` names them from 1, as pictures do.
        """
        if not self.has_heads:
            raise ValueError(f"{self.name}: there is nothing to choose, as it does not look with several heads")
        by = by or ("gold" if hasattr(self.task, "head_errors") else "copied")
        if by == "gold":
            pairs = self.task.pairs(split)
            errors = self.task.head_errors(self.looks(pairs.source, pairs.target), split)
            right, of = {place: 1 - error for place, error in errors.items()}, len(pairs.source)
        else:
            right, of = self.copied(split)
        (layer, head), best = max(right.items(), key=lambda each: each[1])
        self.model.config = dataclasses.replace(self.model.config, alignment_layer=layer, alignment_head=head)
        heads = {head_name(*place): round(share, 4) for place, share in right.items()}
        return {"layer": layer, "head": head, "by": by, "split": split, "of": of, "right": best, "heads": heads}

    def copied(self, split: str = "valid") -> tuple[dict[tuple[int, int], float], int]:
        """For each (layer, head) how often a word that was copied looks at itself, and how many such words there are.

        A word counts if it stands once in a sentence and once, unchanged, in its translation: names and numbers,
        mostly. That is all that can be known of alignments where nobody has written them down.
        """
        pairs = self.task.pairs(split)
        hits: Any = 0
        total = 0
        for row, weights in self.looks(pairs.source, pairs.target):
            height, width = weights.shape[-2:]
            seen, said = self.task.source.surfaces(pairs.source[row]), self.task.target.surfaces(pairs.target[row])
            if links := _same(seen[:width], said[:height]):
                source, target = (torch.tensor(side) for side in zip(*links))
                heads = torch.cat([weights, weights.mean(1, keepdim=True)], 1)  # (L, H + 1, T, S)
                hits = hits + (heads[:, :, target].argmax(-1) == source).sum(-1)
                total += len(links)
        if not total:
            raise ValueError(f"{self.name}: no word is the same in a sentence of {split} and in its translation")
        layers, count = hits.shape
        places = itertools.product(range(layers), [*range(count - 1), -1])
        return {place: int(hits[place]) / total for place in places}, total

    def answer(
        self,
        file: Path | None,
        *,
        nbest: int = 1,
        alignments: bool = False,
        as_json: bool = False,
        replace_unknown: Path | None = None,
        copy_unknown: bool = False,
        workers: int = 1,
    ) -> Iterator[str]:
        """An answer a line, in the order of the lines; an empty line stays empty."""
        dictionary = _dictionary(replace_unknown) if replace_unknown else {} if copy_unknown else None
        asked = lines(file, "Type a sentence and press Enter; Ctrl-D ends.")
        chunk = 1 if file is None and sys.stdin and sys.stdin.isatty() else CHUNK
        groups = iter(lambda: list(itertools.islice(asked, chunk)), [])
        told = partial(self._told, nbest=nbest, alignments=alignments, as_json=as_json, dictionary=dictionary)
        yield from itertools.chain.from_iterable(spread(told, groups, workers) if workers > 1 else map(told, groups))

    def _told(
        self,
        sentences: Sequence[str],
        nbest: int,
        alignments: bool,
        as_json: bool,
        dictionary: Mapping[str, str] | None,
    ) -> list[str]:
        """The lines that answer some sentences."""
        told = []
        found = self._group(sentences, nbest, alignments or as_json or dictionary is not None, dictionary, None)
        for sentence, answers in zip(sentences, found, strict=True):
            if as_json:
                each = [answer.as_dict() for answer in answers]
                told.append(json.dumps({"source": sentence, "answers": each}, ensure_ascii=False))
                continue
            filler = MISSING if sentence.strip() else NOTHING
            for answer in [*answers, *[filler] * (nbest - len(answers))]:  # so that every sentence has N lines
                fields = [answer.text]
                if nbest > 1:
                    fields.append(f"{answer.score:.4f}")
                if alignments:
                    fields.append(answer.pharaoh())
                told.append("\t".join(fields))
        return told

    @torch.inference_mode()
    def own(self, sentence: str) -> tuple[list[str], Tensor] | None:
        """The sentence in words, with its end, and where each of them looks among them, (L, H, T, T); None if the
        system does not look at its own words."""
        ((_, batch),) = self.task.batches([sentence])
        source = batch["source"][0].tolist()
        with record(self.model) as tape:
            self.model.start(self.moved(batch))
        square = (1, len(source), len(source))
        looks = [tape[name].weights[0] for name in tape if (1, *tape[name].shape[-2:]) == square]
        if not looks:
            return None
        words, numbers = self.task.source.words(source, apart=True)
        words, numbers = [*words, END], [len(words) if number < 0 else number for number in numbers]
        heads = torch.stack(looks).flatten(0, 1)
        each = [_by_word(head, numbers, len(words), numbers, len(words)) for head in heads]
        return words, torch.stack(each).unflatten(0, (len(looks), -1))

    def look(
        self,
        what: Sequence[str] = (),
        *,
        nbest: int = 5,
        own: bool = False,
        word: str | None = None,
        layer: int | None = None,
    ) -> Iterator[tuple[str, Picture | None]]:
        """Where each word of the answer to each sentence came from.

        Args:
            nbest: hypotheses on the page.
            own: self-attention within the sentence instead.
            word: the same of one word, in all heads.
            layer: the layer in which that is drawn, from 1; the last if None.
        """
        if not what:
            raise ValueError("say which sentence to answer, for example: 'I love coffee.'")
        if own or word is not None:
            yield from (self._own_picture(sentence, word, layer) for sentence in what)
            return
        for sentence, answers in zip(what, self.predict(what, nbest=nbest), strict=True):
            heading, picture = f"{sentence}\n→ {answers[0].text}", self._picture(sentence, answers)
            if picture is None:
                why = "this system does not look at the source" if answers[0].words else "nothing to answer"
                heading += f"\n  ({why})"
            yield heading, picture

    def _picture(self, sentence: str, answers: Sequence[Prediction]) -> Picture | None:
        readings = [
            alignment.Reading(each.words, torch.cat([each.weights, each.end[:, None]], 1), each.score, each.text)
            for each in answers
            if each.words and each.weights is not None and each.end is not None
        ]
        return alignment.picture(readings, [*answers[0].source_words, END], title=sentence) if readings else None

    def _own_picture(self, sentence: str, word: str | None, layer: int | None) -> tuple[str, Picture | None]:
        found = self.own(sentence) if sentence.strip() else None
        if found is None:
            why = "this system has no self-attention" if sentence.strip() else "nothing to read"
            return f"{sentence}\n  ({why})", None
        words, weights = found
        told = f"the last of {len(weights)} layers, the mean of its {weights.shape[1]} heads"
        told = told if word is None else f"where {word!r} looks, layer.head"
        return f"{sentence}\n{told}", heads.picture(weights, words, word=word, layer=layer, title=sentence)

    # Questions

    Question = form(
        "Translate",
        text=Text_(2000, title="Sentence"),
        nbest=Number(1, 5, default=1, title="Answers", about="The best first."),
        beam=Number(1, 10, default=None, optional=True, title="Beam", about="Hypotheses that are kept."),
        pictures=Flag(default=True, hidden=True, about="Also say where each word came from?"),
    )
    compared = True

    @property
    def title(self) -> str:  # type: ignore[override]
        """From which language into which."""
        names = [getattr(self.task.config, side, "") for side in ("src", "tgt")]
        source, target = (LANGUAGES.get(code, code) for code in names)
        return f"Translate {source} into {target}" if source and target else "Sentences to sentences"

    def examples(self) -> list[Any]:
        """English sentences for those who read English; else what the task itself makes up."""
        if self.recipe.sections["task"]["name"] != "translation":
            return [self.Question(text=text) for text in self.task.pairs("test").source[:3]]
        return [self.Question(text=text) for text in SENTENCES] if self.task.config.src == "en" else []

    def data(self) -> str:
        """The data set that the recipe names."""
        config = self.task.config
        return getattr(config, "data", "") or ("generated" if not hasattr(config, "data") else "its owner's text")

    def ask(self, questions: Sequence[Any]) -> list[Answer | ValueError]:
        """All that are searched for with the same beam are decoded together."""
        answers: list[Any] = [self._refused(each) for each in questions]
        groups: dict[int, list[int]] = defaultdict(list)
        for row, each in enumerate(questions):
            if answers[row] is None:
                groups[max(each.beam or self.config.size, each.nbest)].append(row)
        for size, rows in groups.items():
            asked = [questions[row] for row in rows]
            found = self._searching(size).predict([each.text for each in asked], nbest=max(e.nbest for e in asked))
            for row, each, readings in zip(rows, asked, found, strict=True):
                answers[row] = self._told_of(each, readings[: each.nbest])
        return answers

    def _refused(self, asked: Any) -> ValueError | None:
        """The command line cuts what is too long and warns; here there is nobody to read a warning."""
        (tokens,), most = self.task.source.encode_all([clean(asked.text)]).lengths, self.task.config.max_length - 1
        return ValueError(f"the sentence has {tokens:,} tokens, and {most:,} is the most") if tokens > most else None

    def _searching(self, size: int) -> Text:
        """The same system with a beam of another size."""
        return type(self)(self.model, self.task, self.recipe.change([f"decode.size={size}"]), self.name)

    def _told_of(self, asked: Any, readings: Sequence[Prediction]) -> Answer:
        picture = self._picture(asked.text, readings) if asked.pictures else None
        told = [
            {
                "text": one.text,
                "score": one.score,
                "words": one.words,
                "alignment": one.pharaoh(),
                "end": None if one.end is None else [round(share, 4) for share in one.end.tolist()],
            }
            for one in readings
        ]
        fields = {"source_words": readings[0].source_words, "readings": told}
        return Answer(readings[0].text, pictures=[picture] if picture else [], fields=fields)


LANGUAGES = {"de": "German", "en": "English", "es": "Spanish", "fr": "French", "it": "Italian", "pt": "Portuguese"}
SENTENCES = ("I love coffee.", "She didn't tell me where she was going.", "The red house is near the river.")


def head_name(layer: int, head: int) -> str:
    """``2.3``: a layer and its head as pictures name them, from 1; ``2.mean`` for head −1."""
    return f"{layer + 1}.{head + 1 if head >= 0 else 'mean'}"


def _same(source: Sequence[str], target: Sequence[str]) -> list[tuple[int, int]]:
    """Words that stand once on either side, (source, target). Marks and single letters are the same by chance."""
    once = [word for word in set(source) & set(target) if source.count(word) == target.count(word) == 1]
    known = [word for word in once if any(map(str.isalnum, word)) and (len(word) > 1 or not word.isalpha())]
    return sorted((source.index(word), target.index(word)) for word in known)


def _dictionary(path: Path) -> dict[str, str]:
    words = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        source, tab, target = line.partition("\t")
        if line.strip() and not tab:
            raise ValueError(f"{path}, line {number}: a dictionary has word TAB word, but here is {line!r}")
        words[source.strip()] = target.strip()
    return words


def _by_word(weights: Tensor, rows: list[int], height: int, columns: list[int], width: int) -> Tensor:
    """Weights of tokens (T, S) as weights of words: added up along the source, averaged along the target."""
    weights = weights.float().cpu()
    kept = [column for column, word in enumerate(columns) if word >= 0]
    index = torch.tensor([columns[column] for column in kept], dtype=torch.long)
    across = weights.new_zeros(weights.shape[0], width).index_add_(1, index, weights[:, kept])
    kept = [row for row, word in enumerate(rows) if word >= 0]
    index = torch.tensor([rows[row] for row in kept], dtype=torch.long)
    total = weights.new_zeros(height, width).index_add_(0, index, across[kept])
    count = weights.new_zeros(height).index_add_(0, index, weights.new_ones(len(kept)))
    return total / count.clamp_min(1)[:, None]

"""Sentences in, sentences out, and which word came from where."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard import decode, record
from regard._lazy import nearest
from regard.axes import Words, merge
from regard.data.tokens import BOS, EOS, UNKNOWN
from regard.decode.candidates import Candidates, translation_ids
from regard.decode.written import Written
from regard.explain import flow, rollout
from regard.predictors import _questions
from regard.predictors._heads import Heads, head_name
from regard.predictors._processes import spread
from regard.predictors.predictor import Answer, lines, track
from regard.questions import Choice, Flag, Input, form
from regard.questions import Text as TextInput
from regard.views import heads
from regard.views.picture import Picture

CHUNK = 512
"""Sentences that are sorted by length and decoded together."""
EXPLAIN = {"rollout": rollout, "flow": flow}


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
        fields = {"text": self.text, "score": self.score, "source_words": self.source_words, "words": self.words}
        if self.weights is None or self.end is None:
            return {**fields, "weights": None, "end": None}
        rounded = [[round(x, 4) for x in row] for row in self.weights.tolist()]
        return {**fields, "weights": rounded, "end": [round(x, 4) for x in self.end.tolist()]}


NOTHING = Prediction("", 0.0, 0.0, [], [], None)
"""The answer to an empty line."""
MISSING = Prediction("", float("-inf"), float("-inf"), [], [], None)
"""Where a search finds fewer than ``nbest`` answers."""


class Text(Heads):
    """A system that writes a sentence, or several that decide together."""

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
        remaining = iter(sentences)
        while group := list(itertools.islice(remaining, chunk)):
            yield from self._group(group, nbest, alignments, dictionary, generator)

    _candidates: tuple[Tensor, int] | None = None

    def list_candidates(
        self,
        frequent: int = 15_000,
        most: int = 10,
        lexicon: Mapping[str, Sequence[tuple[str, float]]] | None = None,
    ) -> None:
        """From now on write only the ``frequent`` most frequent words and ``most`` translations of each source word
        (Jean et al. 2015); the dictionary is learned from the training text if None."""
        source, target = self.task.source, self.task.target
        if getattr(self.task.config, "level", "word") != "word":
            raise ValueError(f"candidate lists are of words, and this task has level = {self.task.config.level!r}")
        source_ids, target_ids = (
            {p.strip(): i for i, p in enumerate(side.pieces(range(len(side))))} for side in (source, target)
        )
        table = translation_ids(lexicon or self.task.lexicon(), source_ids, target_ids, most)
        self._candidates = table, frequent

    def writer(self, model: Any) -> Any:
        return model if self._candidates is None else Candidates(model, *self._candidates)

    def write(self, items: Sequence[str], *, nbest: int = 1, size: int | None = None) -> list[list[Written]]:
        """As for every writer; an empty sentence has an empty answer."""
        written = iter(super().write([item for item in items if item.strip()], nbest=nbest, size=size))
        return [next(written) if item.strip() else [Written(Words([]), None, 0.0, 0.0, item=item)] for item in items]

    def _group(
        self,
        sentences: Sequence[str],
        nbest: int,
        alignments: bool,
        dictionary: Mapping[str, str] | None,
        generator: torch.Generator | None,
    ) -> list[list[Prediction]]:
        answers: list[list[Prediction]] = [[NOTHING] for _ in sentences]
        rows = [row for row, sentence in enumerate(sentences) if sentence.strip()]
        predictions = self._search(
            [sentences[row] for row in rows],
            partial(self._prediction, dictionary=dictionary),
            nbest=nbest,
            alignments=alignments,
            generator=generator,
        )
        for row, sentence_predictions in zip(rows, predictions, strict=True):
            answers[row] = sentence_predictions
        return answers

    def _prediction(
        self, sentence: str, hypothesis: decode.Hypothesis, dictionary: Mapping[str, str] | None = None
    ) -> Prediction:
        source, words = self.task.axes(sentence)["words"], self.task.write(hypothesis.tokens)
        weights, end, text, labels = None, None, words.text, list(words.labels)
        if hypothesis.alignment is not None:
            weights, end = merge(hypothesis.alignment, words, source).split([len(source) - 1, 1], 1)
            end = end[:, 0]
        if hypothesis.alignment is not None and dictionary is not None and UNKNOWN in hypothesis.tokens:
            tokens = hypothesis.tokens
            # A long sentence may have been cut.
            source_words = self.task.source.surfaces(sentence)[: hypothesis.alignment.shape[1]]
            replaced = decode.replace_unknown(hypothesis, source_words, self.task.target.pieces(tokens), dictionary)
            spelled = [" " + word if token == UNKNOWN else word for token, word in zip(tokens, replaced, strict=True)]
            text = "".join(spelled).strip()
            replacements = iter(word for token, word in zip(tokens, replaced, strict=True) if token == UNKNOWN)
            labels = [next(replacements) if word == "<unk>" else word for word in labels]
        return Prediction(text, hypothesis.score, hypothesis.log_prob, list(source.labels[:-1]), labels, weights, end)

    def evaluate(self, split: str = "test", *, limit: int | None = None) -> dict[str, float]:
        """The task's metrics of what the system writes (never of teacher-forced words), and its speed."""
        pairs, start = self.task.pairs(split), time.perf_counter()
        sources = pairs.source[:limit]
        answers = [best for best, *_ in track(self.predict(sources), len(sources))]
        seconds = time.perf_counter() - start
        texts = [answer.text for answer in answers]
        if limit is not None:
            metrics = self.task.compare(texts, pairs.target[:limit])
        elif answers[0].weights is not None and "weights" in inspect.signature(self.task.evaluate).parameters:
            metrics = self.task.evaluate(texts, split, [answer.weights for answer in answers])
        else:
            metrics = self.task.evaluate(texts, split)
        if limit is None and self.has_heads and hasattr(self.task, "head_errors"):
            errors = self.task.head_errors(self.looks(pairs.source, pairs.target), split)
            metrics |= {f"aer@{head_name(*place)}": error for place, error in errors.items()}
        self.signatures = self.task.signatures
        return {**metrics, "sentences_per_second": len(texts) / seconds}

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
        """An answer a line, in the order of the lines; an empty line stays empty.

        Args:
            nbest: answers a sentence, the best first, each with its score.
            alignments: also the strongest link of each word, 0-0 1-2.
            as_json: a JSON object a line, with the weights of each word.
            replace_unknown: a dictionary, word TAB word, for words that the system does not know.
            copy_unknown: copy such words from the source.
            workers: processes that answer side by side.
        """
        dictionary = _dictionary(replace_unknown) if replace_unknown else {} if copy_unknown else None
        sentences = lines(file, "Type a sentence and press Enter; Ctrl-D ends.")
        chunk = 1 if file is None and sys.stdin and sys.stdin.isatty() else CHUNK
        groups = iter(lambda: list(itertools.islice(sentences, chunk)), [])
        answer_group = partial(self._lines, nbest=nbest, alignments=alignments, as_json=as_json, dictionary=dictionary)
        yield from itertools.chain.from_iterable(
            spread(answer_group, groups, workers) if workers > 1 else map(answer_group, groups)
        )

    def _lines(
        self,
        sentences: Sequence[str],
        nbest: int,
        alignments: bool,
        as_json: bool,
        dictionary: Mapping[str, str] | None,
    ) -> list[str]:
        """The lines that answer some sentences."""
        output_lines = []
        predictions = self._group(sentences, nbest, alignments or as_json or dictionary is not None, dictionary, None)
        for sentence, answers in zip(sentences, predictions, strict=True):
            if as_json:
                answer_fields = [answer.as_dict() for answer in answers]
                output_lines.append(json.dumps({"source": sentence, "answers": answer_fields}, ensure_ascii=False))
                continue
            filler = MISSING if sentence.strip() else NOTHING
            for answer in [*answers, *[filler] * (nbest - len(answers))]:  # so that every sentence has N lines
                fields = [answer.text]
                if nbest > 1:
                    fields.append(f"{answer.score:.4f}")
                if alignments:
                    fields.append(answer.pharaoh())
                output_lines.append("\t".join(fields))
        return output_lines

    @torch.inference_mode()
    def own(self, sentence: str, explain: str | None = None) -> tuple[list[str], Tensor] | None:
        """The sentence in words, with its end, and where each of them looks among them, (L, H, T, T); None if the
        system does not look at its own words. ``explain`` is as in :meth:`look`, and then L = H = 1."""
        ((_, batch),) = self.task.batches([sentence])
        words = self.task.axes(sentence)["words"]
        with record(self.model) as tape:
            self.model.start(self.moved(batch))
        square = (1, len(words.groups), len(words.groups))
        looks = [tape[name].weights[0] for name in tape if (1, *tape[name].shape[-2:]) == square]
        if not looks:
            return None
        weights = torch.stack(looks)
        if explain is not None:
            weights = EXPLAIN[explain]([layer[None] for layer in looks])[None]  # (1, 1, T, T), through all layers
        return list(words.labels), merge(weights, words, words)

    def look(
        self,
        what: Sequence[str] = (),
        *,
        nbest: int = 5,
        own: bool = False,
        word: str | None = None,
        layer: int | None = None,
        explain: str | None = None,
    ) -> Iterator[tuple[str, Picture | None]]:
        """Where each word of the answer to each sentence came from.

        Args:
            nbest: hypotheses on the page.
            own: self-attention within the sentence instead.
            word: the same of one word, in all heads.
            layer: the layer in which that is drawn, from 1; the last if None.
            explain: ``rollout`` or ``flow``: self-attention through all layers instead.
        """
        if not what:
            raise ValueError("say which sentence to answer, for example: 'I love coffee.'")
        files = (lines(Path(one), "") if _questions.is_text_file(one) else [one] for one in what)
        sentences = itertools.chain.from_iterable(files)
        if explain is not None and explain not in EXPLAIN:
            raise ValueError(f"explain cannot be {explain!r}: {nearest(explain, list(EXPLAIN))}")
        if own or word is not None or explain is not None:
            yield from (self._own_picture(sentence, word, layer, explain) for sentence in sentences)
            return
        for sentence in sentences:
            if not sentence.strip():
                yield f"{sentence}\n→ \n  (nothing to answer)", None
                continue
            (written,) = self.write([sentence], nbest=nbest)
            picture = next(self._pictures(written), None)
            heading = f"{sentence}\n→ {written[0].text}"
            yield heading if picture else f"{heading}\n  (this system does not look at the source)", picture

    def _title(self, best: Written) -> str:
        return best.item

    def _own_picture(
        self, sentence: str, word: str | None, layer: int | None, explain: str | None
    ) -> tuple[str, Picture | None]:
        self_attention = self.own(sentence, explain) if sentence.strip() else None
        if self_attention is None:
            why = "this system has no self-attention" if sentence.strip() else "nothing to read"
            return f"{sentence}\n  ({why})", None
        words, weights = self_attention
        caption = f"the last of {len(weights)} layers, the mean of its {weights.shape[1]} heads"
        caption = caption if word is None else f"where {word!r} looks, layer.head"
        caption = caption if explain is None else f"self-attention through all layers, by {explain}"
        return f"{sentence}\n{caption}", heads.picture(weights, words, word=word, layer=layer, title=sentence)

    # Questions

    @classmethod
    def inputs(cls, task: Any) -> Mapping[str, Input]:
        """Those of every writer, and whether to show all heads."""
        about = "Encoder and decoder self-attention and cross-attention, every layer and head."
        all_heads = Flag(default=False, option=True, title="All layers and heads", about=about)
        aligned_by = TextInput(
            9, pattern=r"\d+\.(\d+|mean)", default=None, optional=True, hidden=True, title="Alignment by", about=ALIGNED
        )
        return {**super().inputs(task), "heads": all_heads, "aligned_by": aligned_by}

    @cached_property
    def Question(self) -> Any:
        """As for every writer; the heads of the cross-attention by name, where there are several."""
        fields = dict(self.inputs(self.task))
        if self.has_heads:
            config = self.model.config
            names = [
                head_name(*place) for place in itertools.product(range(config.decoder_layers), range(config.heads))
            ]
            names += [head_name(layer, -1) for layer in range(config.decoder_layers)]
            fields["aligned_by"] = Choice(
                tuple(sorted(names)), default=None, optional=True, title="Alignment by", about=ALIGNED
            )
        return form(self.task.verb, **fields)

    @contextmanager
    def _aligned_by(self, name: str | None) -> Iterator[None]:
        """With the cross-attention of another head as the alignment."""
        if name is None or not self.has_heads:
            yield
            return
        before: Any = self.model.config
        layer, _, head = name.partition(".")
        place = {"alignment_layer": int(layer) - 1, "alignment_head": -1 if head == "mean" else int(head) - 1}
        self.model.config = dataclasses.replace(before, **place)
        try:
            yield
        finally:
            self.model.config = before

    def ask(self, questions: Sequence[Any]) -> list[Answer | ValueError]:
        """As for every writer; with ``heads``, also all layers and heads of each attention."""
        answers: list[Any] = [None] * len(questions)
        for name in {question.aligned_by for question in questions}:
            rows = [row for row, question in enumerate(questions) if question.aligned_by == name]
            with self._aligned_by(name):
                for row, answer in zip(rows, self._ask([questions[row] for row in rows]), strict=True):
                    answers[row] = answer
        return answers

    def _ask(self, questions: Sequence[Any]) -> list[Answer | ValueError]:
        answers = super().ask(questions)
        for row, (question, answer) in enumerate(zip(questions, answers, strict=True)):
            if not (self.has_heads and question.pictures and isinstance(answer, Answer) and answer.text):
                continue
            config = self.model.config
            alignment_head = head_name(config.alignment_layer % config.decoder_layers, config.alignment_head).split(".")
            which = f"head {alignment_head[1]}" if alignment_head[1] != "mean" else "the mean of its heads"
            note = f"The alignment is the cross-attention of layer {alignment_head[0]}, {which}."
            if question.heads:
                pictures = [*answer.pictures, *self._all_heads(question.text, answer.text)]
                answers[row] = dataclasses.replace(answer, notes=[*answer.notes, note], pictures=pictures)
            else:
                more = ("Show all layers and heads", {"heads": True})
                answers[row] = dataclasses.replace(answer, notes=[*answer.notes, note], next=[*answer.next, more])
        return answers

    @torch.inference_mode()
    def _all_heads(self, source: str, target: str) -> Iterator[Picture]:
        """A picture of all layers and heads for each attention of a translation, between its tokens."""
        ((_, batch),) = self.task.batches([source])
        ids = self.task.target.encode(target)
        batch["target"] = torch.tensor([[BOS, *ids, EOS]])
        batch["target_lengths"] = torch.tensor([len(ids) + 1])
        with record(self.model) as tape:
            self.model(self.moved(batch))
        source_words = [*self.task.source.surfaces(source), "</s>"]
        target_words = self.task.target.surfaces(target)
        sides = {
            "encoder": (source_words, source_words, "Encoder self-attention"),
            "decoder": (["<s>", *target_words], ["<s>", *target_words], "Decoder self-attention"),
            "cross": ([*target_words, "</s>"], source_words, "Cross-attention"),
        }
        for side, (rows, columns, title) in sides.items():
            names = [name for name in tape if ("cross" if name.endswith("cross") else name.partition(".")[0]) == side]
            if not names:
                continue
            weights = torch.stack([tape[name].weights[0] for name in names]).cpu()
            if weights.shape[-2:] != (len(rows), len(columns)):  # a long sentence was cut
                continue
            word = "it" if side == "encoder" and "it" in rows else None
            yield Picture(
                title,
                partial(heads.terminal, weights, rows, columns, word=word),
                partial(heads.view, weights, rows, columns, word=word, title=title),
                partial(heads.figure, weights, rows, columns, title=title),
            )

    @property
    def title(self) -> str:
        """From which language into which."""
        names = [getattr(self.task.config, side, "") for side in ("src", "tgt")]
        source, target = (LANGUAGES.get(code, code) for code in names)
        if source and target:
            return f"Translate {source} into {target}"
        return "Translate a made-up language" if self.data() == "generated" else "Sentences to sentences"

    def examples(self) -> list[Any]:
        """English sentences for those who read English; else what the task itself makes up."""
        if self.recipe.sections["task"]["name"] != "translation":
            return [self.Question(text=text) for text in self.task.pairs("test").source[:3]]
        if self.task.config.src != "en":
            return []
        questions = [self.Question(text=text) for text in SENTENCES]
        return [*questions, self.Question(text=TIRED, heads=True)] if self.has_heads else questions

    def data(self) -> str:
        """The data set that the recipe names, or one's own."""
        if not hasattr(self.task.config, "data"):
            return "generated"
        return self.task.origin() if self.task.data or self.task.config.data else "its owner's text"

    def _answer(self, written: Sequence[Written], pictures: bool) -> Answer:
        drawn = list(self._pictures(written)) if pictures else []
        readings = [
            {
                "text": reading.text,
                "score": reading.score,
                "words": list(reading.words.labels),
                "alignment": "" if reading.weights is None else decode.pharaoh(reading.weights[:, :-1]),
                "end": None
                if reading.weights is None
                else [round(share, 4) for share in reading.weights[:, -1].tolist()],
            }
            for reading in written
        ]
        source = list(self.task.axes(written[0].item)["words"].labels[:-1])
        return Answer(written[0].text, pictures=drawn, fields={"source_words": source, "readings": readings})


ALIGNED = "Layer and head of the cross-attention."
LANGUAGES = {"de": "German", "en": "English", "es": "Spanish", "fr": "French", "it": "Italian", "pt": "Portuguese"}
TIRED = "The animal didn't cross the street because it was too tired."
SENTENCES = ("I love coffee.", "She didn't tell me where she was going.", "The red house is near the river.")


def _dictionary(path: str | Path) -> dict[str, str]:
    words = {}
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        source, tab, target = line.partition("\t")
        if line.strip() and not tab:
            raise ValueError(f"{path}, line {number}: a dictionary has word TAB word, but here is {line!r}")
        words[source.strip()] = target.strip()
    return words

"""Questions about stories: answers, and which sentences each hop looked at."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data.stories import Question as StoryQuestion
from regard.data.stories import read_babi, read_typed, words
from regard.data.worlds import WORLDS, generate
from regard.predictors.predictor import Answer, Predictor, lines, percent, track
from regard.questions import Choice, Text, form
from regard.views import hops
from regard.views.picture import Picture

SOLVED = 5.0
"""Percent of errors up to which a task counts as solved (Weston et al. 2015)."""


@dataclass(frozen=True, eq=False)
class Reply:
    """One answer.

    Attributes:
        text: the answer.
        task: the name of the task that was taken for it.
        story: the sentences that the memory held, the oldest first.
        weights: (hops, sentences), where each hop looked.
        probability: of the answer; None for a system without probabilities.
    """

    text: str
    task: str
    story: tuple[str, ...]
    weights: Tensor
    probability: float | None

    def as_dict(self) -> dict[str, Any]:
        """For JSON; weights to four places."""
        weights = [[round(weight, 4) for weight in hop] for hop in self.weights.tolist()]
        fields = {"answer": self.text, "task": self.task, "probability": self.probability}
        return {**fields, "story": list(self.story), "weights": weights}


class Stories(Predictor):
    """A memory network with its words; of many restarts, those that were chosen in training."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self._models = cache(self._pick)

    def to(self, device: str | torch.device) -> Any:
        """The same on another device."""
        self._models.cache_clear()
        return super().to(device)

    def _pick(self, home: int) -> Any:
        """The model of one task, where there are many."""
        if len(self.task.vocabularies) == 1 and getattr(self.model.config, "restarts", 1) == 1:
            return self.model
        return self.model.pick([home]).eval()

    def predict(self, story: str | Sequence[str], question: str, *, task: str | None = None) -> Reply:
        """Answer a question about a story, given as a text or as sentences, the oldest first."""
        texts = [*([story] if isinstance(story, str) else story), question]
        *_, parsed = read_typed(texts, "story")
        return self.replies([parsed], task=task)[0]

    def replies(self, questions: Sequence[StoryQuestion], *, task: str | None = None) -> list[Reply]:
        """Answers to questions with their stories. ``task`` names the model to ask; by default the one that has learned
        all the words from the fewest."""
        return [self._ask(question, task or self.choose(question)) for question in questions]

    @torch.inference_mode()
    def _ask(self, question: StoryQuestion, name: str) -> Reply:
        home = self.task.home(name)
        self.task.table([question], home, strict=True)  # unknown words end here, with the line that they stand in
        (batch,) = self.task.batches([question], home)
        out = self._models(home).predict(self.moved(batch))
        sentences = question.story[-self.task.memory[home] :]
        weights = out["weights"][0, 0, :, : len(sentences)].flip(-1).float().cpu()  # the newest came first
        text = self.task.vocabularies[home].known[int(out["answer"][0, 0]) - 1]
        probability = float(out["probability"][0, 0]) if "probability" in out else None
        return Reply(text, name, sentences, weights, probability)

    def choose(self, question: StoryQuestion) -> str:
        """The task whose words fit: the fewest unknown ones, then those that questions were made of, then the fewest of
        all."""
        story_words = {word for sentence in question.story for word in words(sentence)}
        question_words = set(words(question.question))

        def misfit(name: str) -> tuple[int, int, int]:
            vocabulary = self.task.vocabularies[self.task.home(name)]
            unknown = sum(word not in vocabulary.numbers for word in story_words | question_words)
            return unknown, len(question_words - vocabulary.asked), len(vocabulary)

        return min(self.task.names, key=misfit)

    @torch.inference_mode()
    def evaluate(self, split: str = "test", *, limit: int | None = None) -> dict[str, float]:
        """The error of each task in percent, their mean, and how many tasks are solved. ``limit``: only the first
        N questions of each.

        Where supporting facts are known, of questions that were answered right: ``support``, how much of the last
        hop's weight lies on them; and for each task with as many facts as hops ``chain``, how often the strongest
        sentence of hop k is fact k.
        """
        errors: dict[str, float] = {}
        support: list[float] = []
        chains: dict[str, list[float]] = {}
        groups = self.task.questions(split)
        for name in track(groups, len(groups)):
            questions, home = groups[name][:limit], self.task.home(name)
            mistakes = 0
            for batch in self.task.batches(questions, home):
                out = self._models(home).predict(self.moved(batch))
                correct = (out["answer"].cpu() == batch["answer"])[:, 0]
                mistakes += int((~correct).sum())
                facts, weights = batch["support"][correct, 0], out["weights"].cpu()[correct, 0]
                for padded, hop_weights in zip(facts.tolist(), weights):
                    places = [place for place in padded if place >= 0]
                    if places:
                        support.append(float(hop_weights[-1, places].sum()))
                    if len(places) == len(hop_weights) > 1:
                        chains.setdefault(name, []).append(float(hop_weights.argmax(-1).tolist() == places))
            errors[name] = 100.0 * mistakes / max(len(questions), 1)
        metrics = {"error": sum(errors.values()) / max(len(errors), 1)}
        if len(errors) > 1:
            task_errors = {f"error, task {name}": value for name, value in errors.items()}
            metrics = {
                **task_errors,
                **metrics,
                "tasks_solved": float(sum(value <= SOLVED for value in errors.values())),
            }
        shares = {"support": support} | {f"chain, task {name}": hits for name, hits in chains.items()}
        return metrics | {name: 100.0 * sum(values) / len(values) for name, values in shares.items() if values}

    def answer(self, file: Path | None = None, *, task: str | None = None, as_json: bool = False) -> Iterator[str]:
        """The answer to each question of a file: sentences, a line each, then a question that ends with "?".

        Args:
            task: whose model answers; the one that knows the words if not given.
            as_json: a JSON object a line, with the weights of each sentence.
        """
        typed = lines(file, "Type sentences, one a line, then a question that ends with '?'; Ctrl-D ends.")
        for question in read_typed(typed, str(file or "standard input")):
            reply = self.replies([question], task=task)[0]
            if as_json:
                yield json.dumps({"question": question.question, **reply.as_dict()}, ensure_ascii=False)
            else:
                yield reply.text

    def look(
        self, what: Sequence[str] = (), *, task: str | None = None, split: str = "test"
    ) -> Iterator[tuple[str, Picture | None]]:
        """The table of hops for stories in files or, by number from 1, for questions of a split (the first one, if
        nothing is named).

        Args:
            task: whose model answers; the one that knows the words if not given.
            split: whose questions have the numbers: train, valid or test.
        """
        questions = [pair for word in what for pair in self._questions_named(word, task, split)]
        for question, name in questions if what else self._first_question(task, split):
            reply = self._ask(question, name)
            dropped = len(question.story) - len(reply.story)
            support = [fact - dropped for fact in question.support if fact >= dropped]
            answer = None if question.answer is None else question.answer.lower()
            yield "", self._picture(question.question, reply, answer=answer, support=support)

    def _first_question(self, task: str | None, split: str) -> list[tuple[StoryQuestion, str]]:
        """The first question of a split or, where the data is not at hand, a generated one."""
        self.task.home(task or self.task.names[0])  # an unknown task is named as such
        try:
            return list(self._questions_named("1", task, split))
        except ValueError:
            generated = ((str(number), self._example(number)) for number in WORLDS)
            examples = [(question, name) for name, question in generated if question is not None]
            if not examples:
                raise
            return examples[:1]

    def _picture(self, question: str, reply: Reply, **about: Any) -> Picture:
        title = f"Task {reply.task}" if reply.task.isdigit() else reply.task
        about |= {"question": question, "prediction": reply.text}
        return hops.picture(reply.story, reply.weights, title=title, **about)

    # Questions

    title = "Tell a story and ask about it"

    @cached_property
    def Question(self) -> Any:
        """A story and a question, and whose model answers where there are several."""
        names, about = tuple(self.task.names), "Whose model answers; left open, the one that knows the words."
        task = Choice(names, default=None, optional=True, option=True, title="Task", about=about)
        return form(
            "Ask",
            story=Text(4000, 1, 7, title="Story", about="A sentence a line, in the words that it was trained on."),
            question=Text(200, 1, title="Question"),
            **({"task": task} if len(names) > 1 else {}),
        )

    def data(self) -> str:
        config = self.task.config
        return f"bAbI, tasks {config.tasks}" if config.data else f"generated stories like bAbI's, tasks {config.tasks}"

    def examples(self) -> list[Any]:
        """A short generated story for each task that it knows, in words that it knows."""
        questions: list[Any] = []
        for number in WORLDS:
            if (example := self._example(number)) is not None:
                questions.append(self.Question(story="\n".join(example.story), question=example.question))
        return questions

    def _example(self, number: int) -> StoryQuestion | None:
        if str(number) not in self.task.names:
            return None
        generated = read_babi(generate(number, 60, random.Random(f"explorer {number}")), "example")
        for question in sorted(generated, key=lambda question: abs(len(question.story) - 6)):
            try:
                self.task.table([question], self.task.home(str(number)), strict=True)
            except ValueError:  # a word that it has not learned
                continue
            return question
        return None

    def one(self, question: Any) -> Answer:
        text = question.question.strip()
        text += "" if text.endswith("?") else "?"
        reply = self.predict(question.story.split("\n"), text, task=getattr(question, "task", None))
        certainty = "" if reply.probability is None else f"{percent(reply.probability)} sure. "
        model_name = f"task {reply.task}" if reply.task.isdigit() else reply.task
        notes = [f"{certainty}Answered by the model of {model_name}, with {len(reply.weights)} hops over the story."]
        return Answer(reply.text, notes, pictures=[self._picture(text, reply)])

    def _questions_named(self, what: str, task: str | None, split: str) -> Iterator[tuple[StoryQuestion, str]]:
        if not what.isdigit():
            path = Path(what)
            if not path.is_file():
                raise ValueError(
                    f"{what}: neither a file with a story nor the number of a question of the {split} split"
                )
            for question in read_typed(lines(path, ""), what):
                yield question, task or self.choose(question)
            return
        name = task or self.task.names[0]
        self.task.home(name)  # an unknown task is named as such
        questions = self.task.questions(split)[name]
        if not 1 <= int(what) <= len(questions):
            raise ValueError(f"question {what} of task {name}: the {split} split has numbers 1 to {len(questions)}")
        yield questions[int(what) - 1], name

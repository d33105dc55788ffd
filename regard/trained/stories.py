"""Questions about stories: answers, and which sentences each hop looked at."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.tasks._stories import Question, read_typed, words
from regard.trained import Trained, lines, track
from regard.views import alignment, hops, page

SOLVED = 5.0
"""Percent of errors up to which a task counts as solved (Weston et al. 2015)."""


@dataclass(frozen=True, eq=False)
class Answer:
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
        looked = [[round(weight, 4) for weight in hop] for hop in self.weights.tolist()]
        found = {"answer": self.text, "task": self.task, "probability": self.probability}
        return {**found, "story": list(self.story), "weights": looked}


class Stories(Trained):
    """A memory network with its words; of many restarts, those that were chosen in training."""

    def __init__(self, *given: Any):
        super().__init__(*given)
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

    def predict(self, story: str | Sequence[str], question: str, *, task: str | None = None) -> Answer:
        """Answer a question about a story, given as a text or as sentences, the oldest first."""
        told = [*([story] if isinstance(story, str) else story), question]
        *_, asked = read_typed(told, "story")
        return self.ask([asked], task=task)[0]

    def ask(self, questions: Sequence[Question], *, task: str | None = None) -> list[Answer]:
        """Answers to questions with their stories. ``task`` names the model to ask; by default the one that has learned
        all the words from the fewest."""
        return [self._ask(question, task or self.choose(question)) for question in questions]

    @torch.inference_mode()
    def _ask(self, question: Question, name: str) -> Answer:
        home = self.task.home(name)
        self.task.table([question], home, strict=True)  # unknown words end here, with the line that they stand in
        (batch,) = self.task.batches([question], home)
        out = self._models(home).predict(self.moved(batch))
        held = question.story[-self.task.memory[home] :]
        weights = out["weights"][0, 0, :, : len(held)].flip(-1).float().cpu()  # the newest came first
        text = self.task.vocabularies[home].known[int(out["answer"][0, 0]) - 1]
        probability = float(out["probability"][0, 0]) if "probability" in out else None
        return Answer(text, name, held, weights, probability)

    def choose(self, question: Question) -> str:
        """The task whose words fit: the fewest unknown ones, then those that questions were made of, then the fewest of
        all."""
        said = {word for sentence in question.story for word in words(sentence)}
        asked = set(words(question.question))

        def misfit(name: str) -> tuple[int, int, int]:
            vocabulary = self.task.vocabularies[self.task.home(name)]
            unknown = sum(word not in vocabulary.numbers for word in said | asked)
            return unknown, len(asked - vocabulary.asked), len(vocabulary)

        return min(self.task.names, key=misfit)

    @torch.inference_mode()
    def evaluate(self, split: str = "test", *, limit: int | None = None) -> dict[str, float]:
        """The error of each task in percent, their mean, and how many tasks are solved. ``limit``: only so many
        questions of each.

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
            wrong = 0
            for batch in self.task.batches(questions, home):
                out = self._models(home).predict(self.moved(batch))
                right = (out["answer"].cpu() == batch["answer"])[:, 0]
                wrong += int((~right).sum())
                facts, weights = batch["support"][right, 0], out["weights"].cpu()[right, 0]
                for places, looked in zip(facts.tolist(), weights):
                    real = [place for place in places if place >= 0]
                    if real:
                        support.append(float(looked[-1, real].sum()))
                    if len(real) == len(looked) > 1:
                        chains.setdefault(name, []).append(float(looked.argmax(-1).tolist() == real))
            errors[name] = 100.0 * wrong / max(len(questions), 1)
        found = {"error": sum(errors.values()) / max(len(errors), 1)}
        if len(errors) > 1:
            each = {f"error, task {name}": value for name, value in errors.items()}
            found = {**each, **found, "tasks_solved": float(sum(value <= SOLVED for value in errors.values()))}
        seen = {"support": support} | {f"chain, task {name}": hits for name, hits in chains.items()}
        return found | {name: 100.0 * sum(values) / len(values) for name, values in seen.items() if values}

    def answer(self, file: Path | None = None, *, task: str | None = None, as_json: bool = False) -> Iterator[str]:
        """The answer to each question of a file: sentences, then a question that ends with "?"."""
        typed = lines(file, "Type sentences, one a line, then a question that ends with '?'; Ctrl-D ends.")
        for question in read_typed(typed, str(file or "standard input")):
            found = self.ask([question], task=task)[0]
            if as_json:
                yield json.dumps({"question": question.question, **found.as_dict()}, ensure_ascii=False)
            else:
                yield found.text

    def show(
        self, what: Sequence[str] = (), out: Path | None = None, *, task: str | None = None, split: str = "test"
    ) -> Iterator[str]:
        """The table of hops for stories in files or, by number from 1, for questions of a split (the first one, if
        nothing is named)."""
        shown = [pair for one in (what or ["1"]) for pair in self._shown(one, task, split)]
        views = []
        for number, (question, name) in enumerate(shown):
            found = self._ask(question, name)
            cut = len(question.story) - len(found.story)
            support = [fact - cut for fact in question.support if fact >= cut]
            answer = None if question.answer is None else question.answer.lower()
            about: dict[str, Any] = dict(
                question=question.question, prediction=found.text, answer=answer, support=support
            )
            if number:
                yield ""
            yield hops.terminal(found.story, found.weights, **about)
            if out is None:
                continue
            title = f"Task {found.task}" if found.task.isdigit() else found.task
            if out.suffix.lower() in (".html", ".htm"):
                views.append(hops.view(found.story, found.weights, title=question.question, text=found.text))
                continue
            path = out if len(shown) == 1 else out.with_stem(f"{out.stem}-{number + 1}")
            alignment.save(hops.figure(found.story, found.weights, title=title, **about), path)
            yield str(path)
        if views and out is not None:
            page.write(out, views, title=self.name)
            yield str(out)

    def _shown(self, what: str, task: str | None, split: str) -> Iterator[tuple[Question, str]]:
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

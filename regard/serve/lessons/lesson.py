"""What every lesson is, and its card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from regard.predictors.predictor import Answer, one_by_one
from regard.serve.card import About, Card
from regard.serve.sources import example


class Lesson:
    """A page that the library computes while it is looked at.

    Attributes:
        name: in addresses.
        part: of the lectures, see :data:`regard.serve.lecture.PARTS`.
        order: among the lessons.
        Question: what can be changed; see :func:`regard.questions.form`.
        tries: questions to start from, as fields.
        script: the name of the example that shows the same, if there is one.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    sentence: ClassVar[str]
    paper: ClassVar[str] = ""
    part: ClassVar[str]
    order: ClassVar[int]
    Question: ClassVar[Any]
    tries: ClassVar[Sequence[Mapping[str, Any]]] = ()
    script: ClassVar[str] = ""

    def examples(self) -> list[Any]:
        """Questions to start from."""
        return [self.Question(**fields) for fields in self.tries or [{}]]

    def ask(self, questions: Sequence[Any]) -> list[Answer | ValueError]:
        """An answer to each question, or what is wrong with it."""
        return one_by_one(self.one, questions)

    def one(self, question: Any) -> Answer:
        """The answer to one question."""
        raise NotImplementedError


class LessonCard(Card):
    """A lesson as the server asks it."""

    predictor: Any

    def __init__(self, lesson: Lesson):
        super().__init__(lesson)  # type: ignore[arg-type]

    @property
    def path(self) -> str:
        """The route of its answers."""
        return f"/api/lessons/{self.name}/answer"

    def about(self) -> About:
        """For the list of lessons."""
        lesson = self.predictor
        return About(
            name=self.name,
            kind=lesson.name,
            family=lesson.part,
            title=lesson.title,
            sentence=lesson.sentence,
            system="",
            paper=lesson.paper,
            examples=[example.model_dump(exclude_unset=True) for example in self.examples()],
            data="",
            compared=False,
            path=self.path,
            script=example(lesson.script),
        )

"""Scaled dot-product attention with its numbers: 112 and 96 become 0.88 and 0.12."""

from __future__ import annotations

from typing import Any, ClassVar

from regard.predictors.predictor import Answer
from regard.questions import Text, Vectors, form
from regard.serve.lessons import lesson
from regard.views import table, walkthrough


class Lesson(lesson.Lesson):
    """Query, keys and values to edit, and every number on the way to the sum."""

    name = "worked-numbers"
    title = "The worked numbers"
    sentence = "Score, divide by √d, softmax, sum: every number of one query, computed again as you edit the vectors."
    paper = "Vaswani et al. 2017, Attention Is All You Need (arXiv:1706.03762)"
    part = "The recipe"
    order = 1
    script = "scaled_dot"
    Question = form(
        "Compute",
        words=Text(200, default="Thinking Machines", title="Words", about="One for each key."),
        query=Vectors(
            1,
            64,
            default=[[14.0] + [0.0] * 63],
            title="Query of the first word",
            about="Sixty-four numbers, as in the lecture; √64 = 8.",
        ),
        keys=Vectors(8, 64, default=[[8.0] + [0.0] * 63, [96 / 14] + [0.0] * 63], title="Keys"),
        values=Vectors(8, 64, default=[[1.0, 0.0], [0.0, 1.0]], title="Values"),
    )
    tries: ClassVar[Any] = (
        {},
        {
            "words": "the animal it",
            "query": [[1.0, 2.0]],
            "keys": [[0.5, 0.0], [1.0, 2.0], [1.0, 0.5]],
            "values": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]],
        },
    )

    def one(self, question: Any) -> Answer:
        """The table of the steps."""
        walk = walkthrough.steps(question.query[0], question.keys, question.values)
        words = question.words.split()[: len(walk.key)]
        words += [f"key {number + 1}" for number in range(len(words), len(walk.key))]
        names, rows, total = walkthrough._table(walk, words, 0)
        cells = [[name, *("  ".join(row) for row in line)] for name, line in rows]
        cells.append([f"sum, for {names[0]}", "  ".join(total), *[""] * (len(names) - 1)])
        shades = [[None] * (len(names) + 1) for _ in cells]
        shades[5][1:] = walk.weights.tolist()
        shown = " and ".join(f"{weight:.2f}" for weight in walk.weights)
        scores = " and ".join(walkthrough._number(float(score)) for score in walk.scores)
        title = "Step by step"
        picture = table.picture(["", *names], cells, shades, title=title)
        return Answer(f"{scores} → {shown}", pictures=[picture])

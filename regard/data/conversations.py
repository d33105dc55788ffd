"""Questions that follow each other, about a text: CoQA's and QuAC's formats, FriendsQA's, and generated ones.

- CoQA (Reddy, Chen & Manning 2019, arXiv:1808.07042): ``data`` is a list of ``story``, ``questions`` and ``answers``
  with ``input_text`` and ``turn_id``, each answer with ``span_start`` and ``span_end`` of what supports it, and
  ``additional_answers``.
- QuAC (Choi et al. 2018, arXiv:1808.07036): as SQuAD's, the questions of a paragraph being one conversation; its
  ``context`` ends with CANNOTANSWER.
- FriendsQA (Yang & Choi 2019): as SQuAD's, but the text is ``utterances`` with their speakers, and an answer is words
  ``inner_start`` to ``inner_end`` of one of them, or its speaker.

Free answers of CoQA become spans as in its paper: that part of the support which has most words in common with the
answer. Every text is followed by the words yes, no and unknown, so that a span can be one of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.data import untrusted
from regard.data.passages import Question, Text
from regard.data.squad import list_in, text_in, words_in

TAIL = ("yes", "no", "unknown")
"""Answers that stand behind every text."""
LONGEST = 12
"""Words of the longest span that stands for a free answer."""


def document(story: str) -> Text:
    """A text followed by the answers that any may have: yes, no, unknown."""
    return Text.of(f"{story}\n{' '.join(TAIL)}")


def shorten(talk: Sequence[Question], most: int) -> list[Question]:
    """A conversation whose text is cut to ``most`` words, those of ``TAIL`` included. A span that was cut off becomes
    (−1, −1)."""
    whole = talk[0].document
    count, limit = len(whole.words), max(most - len(TAIL), 0)
    if count <= most:
        return list(talk)
    ending = count - len(TAIL)
    text = Text(whole.raw, whole.words[:limit] + whole.words[ending:], whole.places[:limit] + whole.places[ending:])

    def moved(first: int, last: int) -> tuple[int, int]:
        if first >= ending:
            return first - ending + limit, last - ending + limit
        return (first, last) if last < limit else (-1, -1)

    return [question._replace(document=text, span=moved(*question.span)) for question in talk]


def read(path: Path) -> list[list[Question]]:
    """The conversations of a file, each a list of questions."""
    return parse(untrusted.parse_json(untrusted.read(path), path), str(path))


def parse(content: Any, name: str) -> list[list[Question]]:
    """The conversations in one of the formats. An error says which conversation and turn it is in."""
    talks: list[list[Question]] = []
    entries = content if isinstance(content, list) else list_in(content, "data", name)
    for number, entry in enumerate(entries, 1):
        place = f"{name}, entry {number}"
        if isinstance(entry, dict) and "story" in entry:
            talks.append(list(_coqa(entry, place)))
            continue
        for count, paragraph in enumerate(list_in(entry, "paragraphs", place), 1):
            where = f"{place}, paragraph {count}"
            spoken = isinstance(paragraph, dict) and any(key in paragraph for key in _UTTERANCES)
            talks.append(list(_friends(paragraph, where) if spoken else _quac(paragraph, where)))
    if not any(talks):
        raise ValueError(f"{name}: there is no question in it")
    return [talk for talk in talks if talk]


def _coqa(entry: Any, place: str) -> Iterator[Question]:
    text = document(text_in(entry, "story", place))
    questions, answers = list_in(entry, "questions", place), list_in(entry, "answers", place)
    if len(questions) != len(answers):
        raise ValueError(f"{place}: {len(questions)} questions and {len(answers)} answers")
    others = entry.get("additional_answers", {})
    if not isinstance(others, dict) or any(
        not isinstance(extra, list) or len(extra) != len(answers) for extra in others.values()
    ):
        raise ValueError(f"{place}: 'additional_answers' must be lists with an answer for each question")
    before: tuple[tuple[str, str], ...] = ()
    for turn, (question, answer) in enumerate(zip(questions, answers)):
        where = f"{place}, turn {turn + 1}"
        for record in (question, answer):
            if not isinstance(record, dict) or record.get("turn_id") != turn + 1:
                raise ValueError(f"{where}: its 'turn_id' must be {turn + 1}")
        question_text, answer_text = text_in(question, "input_text", where), text_in(answer, "input_text", where)
        start, end = answer.get("span_start"), answer.get("span_end")
        if type(start) is not int or type(end) is not int or end > len(text.raw) or (start >= 0 and end <= start):
            raise ValueError(f"{where}: span_start and span_end are no part of the story: {start!s:.20}, {end!s:.20}")
        right = (answer_text, *(text_in(extra[turn], "input_text", where) for extra in others.values()))
        yield Question(
            text,
            Text.of(question_text),
            right,
            nearest_span(text, answer_text, start, end, where),
            place=where,
            history=before,
        )
        before = (*before, (question_text, answer_text))


def nearest_span(text: Text, answer: str, start: int, end: int, place: str) -> tuple[int, int]:
    """The words of a document that stand for an answer: yes, no or unknown behind the text, or that part of the support
    between two characters which has most words in common with it."""
    plain = answer.lower().strip(" .!")
    if plain in TAIL or start < 0:
        last = len(text.words) - len(TAIL) + TAIL.index(plain if plain in TAIL else "unknown")
        return last, last
    first, last = words_in(text, start, end, place)
    answer_words = [word.lower() for word in Text.of(answer).words]
    best, span = 0.0, (first, last)
    for begin in range(first, last + 1):
        common, left = 0, list(answer_words)
        for stop in range(begin, min(last, begin + LONGEST - 1) + 1):
            if (word := text.words[stop].lower()) in left:
                left.remove(word)
                common += 1
            score = 2 * common / (stop - begin + 1 + len(answer_words))
            if score > best:
                best, span = score, (begin, stop)
    return span


def _quac(paragraph: Any, place: str) -> Iterator[Question]:
    text = document(text_in(paragraph, "context", place))
    before: tuple[tuple[str, str], ...] = ()
    for turn, entry in enumerate(list_in(paragraph, "qas", place), 1):
        where = f"{place}, turn {turn}"
        question_text = text_in(entry, "question", where)
        answers = list_in(entry, "answers", where)
        if not answers:
            raise ValueError(f"{where}: no answers")
        first = entry.get("orig_answer", answers[0])
        texts = [text_in(answer, "text", where) for answer in (first, *answers)]
        start = first.get("answer_start")
        if type(start) is not int or text.raw[max(start, 0) : max(start, 0) + len(texts[0])] != texts[0]:
            raise ValueError(f"{where}: answer_start is {start!s:.20}, but {texts[0][:40]!r} does not stand there")
        span = words_in(text, start, start + len(texts[0]), where)
        yield Question(text, Text.of(question_text), tuple(dict.fromkeys(texts)), span, place=where, history=before)
        before = (*before, (question_text, texts[0]))


_UTTERANCES = ("utterances", "utterances:")  # the published files have the colon


def _friends(paragraph: Any, place: str) -> Iterator[Question]:
    utterances = list_in(paragraph, next(key for key in _UTTERANCES if key in paragraph), place)
    raw, starts = "", []
    for number, utterance in enumerate(utterances, 1):
        where = f"{place}, utterance {number}"
        speakers = " and ".join(str(name) for name in list_in(utterance, "speakers", where)) or "Nobody"
        speech = utterance.get("utterance")
        if not isinstance(speech, str):
            raise ValueError(f"{where}: 'utterance' must be a text")
        starts.append((len(raw), len(raw) + len(speakers), len(raw) + len(speakers) + 2))
        raw += f"{speakers}: {speech}\n"
    text = document(raw)
    for turn, entry in enumerate(list_in(paragraph, "qas", place), 1):
        where = f"{place}, question {turn}"
        answers = list_in(entry, "answers", where)
        if not answers:
            raise ValueError(f"{where}: no answers")
        texts, spans = [], []
        for answer in answers:
            texts.append(text_in(answer, "answer_text", where))
            number = answer.get("utterance_id")
            if type(number) is not int or not 0 <= number < len(starts):
                raise ValueError(f"{where}: utterance_id is {number!s:.20}, and there are {len(starts)} utterances")
            begin, end, speech_start = starts[number]
            if answer.get("is_speaker") is True:
                spans.append(_verified_span(texts[-1], text, begin, end, where))
                continue
            words = utterances[number]["utterance"].split(" ")
            first, last = answer.get("inner_start"), answer.get("inner_end")
            if type(first) is not int or type(last) is not int or not 0 <= first <= last < len(words):
                raise ValueError(f"{where}: words {first!s:.9} to {last!s:.9} of an utterance of {len(words)} words")
            begin = speech_start + len(" ".join([*words[:first], ""]))
            spans.append(_verified_span(texts[-1], text, begin, begin + len(" ".join(words[first : last + 1])), where))
        yield Question(text, Text.of(text_in(entry, "question", where)), tuple(texts), spans[0], place=where)


def _verified_span(answer: str, text: Text, start: int, end: int, place: str) -> tuple[int, int]:
    """The words between two characters; an error if they are not the answer."""
    passage = text.raw[start:end]
    expected, actual = ([sign for sign in string.lower() if sign.isalnum()] for string in (answer, passage))
    if expected != actual:
        raise ValueError(f"{place}: the answer {answer[:40]!r} does not stand there, but {passage[:40]!r}")
    return words_in(text, start, end, place)


# ---------------------------------------------------------------------------------------------------------------------
# Generated conversations

JESSICA = (
    "Jessica sat down in her chair. Today was her birthday and she was turning 80. Three visitors were coming to see "
    "her: Annie, Melanie and Josh. Melanie lives in Bristol. She is 52 years old. Annie works as a nurse."
)
"""After the lectures' example of a conversation: who had a birthday, how old would she be, any visitors, how many, who?
Its answers are words of the text."""
TALK = ("Who had a birthday?", "How old would she be?", "Did she plan to have any visitors?", "How many?", "Who?")
_WOMEN = [
    "Anna",
    "Bella",
    "Clara",
    "Diana",
    "Emma",
    "Fiona",
    "Grace",
    "Helen",
    "Irene",
    "Julia",
    "Karen",
    "Laura",
    "Maria",
    "Nora",
    "Olga",
    "Paula",
    "Rosa",
    "Sara",
]
_MEN = [
    "Adam",
    "Boris",
    "Carl",
    "David",
    "Erik",
    "Frank",
    "Georg",
    "Hugo",
    "Ivan",
    "Jonas",
    "Kevin",
    "Lukas",
    "Martin",
    "Nils",
    "Oscar",
    "Peter",
    "Robert",
    "Simon",
]
_TOWNS = [
    "Paris",
    "London",
    "Rome",
    "Berlin",
    "Oslo",
    "Madrid",
    "Vienna",
    "Lisbon",
    "Dublin",
    "Prague",
    "Athens",
    "Bristol",
]
_JOBS = ["nurse", "teacher", "baker", "pilot", "painter", "farmer", "lawyer", "singer", "gardener", "doctor"]
_BEGINS = ("a", "be", "co", "da", "el", "fa", "ga", "hi", "jo", "ka", "lu", "mi", "no", "o", "pe", "ri", "su", "ta")
_MIDDLES = ("b", "dd", "g", "k", "l", "ll", "m", "nn", "nd", "p", "r", "rr", "ss", "st", "t", "v", "x", "z")
_ENDS = ("a", "an", "as", "e", "ek", "el", "en", "er", "i", "ia", "in", "is", "o", "on", "or", "u", "um", "us", "y")
_COUNTS = ("Two", "Three", "Four")
_PLACES = ("chair", "garden", "kitchen", "room")


def make(count: int, dice: random.Random) -> dict[str, Any]:
    """Stories about three people, each with a conversation of 4 to 6 turns, in CoQA's format."""
    return {"version": "made", "data": [_story(number, dice) for number in range(count)]}


def _story(number: int, dice: random.Random) -> dict[str, Any]:
    women = dice.random() < 0.5
    she, her = ("she", "her") if women else ("he", "his")
    him = "her" if women else "him"
    names = [_renamed(name, dice) for name in dice.sample(_WOMEN if women else _MEN, 3)]
    towns, jobs = dice.sample(_TOWNS, 3), dice.sample(_JOBS, 3)
    ages = dice.sample(range(18, 96), 3)
    born = dice.randrange(3)
    story = ""
    answers: list[dict[str, tuple[int, int]]] = [{} for _ in names]

    def tell(person: int, sentence: str, **parts: str) -> None:
        """Add a sentence; note where its parts stand, and with each part the last mention of the name before it."""
        nonlocal story
        story += " " if story else ""
        for kind, part in parts.items():
            before, _, after = sentence.partition(f"<{kind}>")
            start = len(story) + len(before)
            answers[person][kind] = (start, start + len(part))
            sentence = before + part + after
        for kind in parts.keys() - {"name"}:
            answers[person][f"{kind}, whose"] = answers[person]["name"]
        story += sentence

    for person in dice.sample(range(3), 3):
        name = names[person]
        if dice.random() < 0.5 or person == born:
            opening = dice.choice(("{} sat down in {} {}.", "{} was in {} {}.")).format(
                "<name>", her, dice.choice(_PLACES)
            )
            tell(person, opening, name=name)
        facts = ["age", "town", "job", *(["guests"] if person == born or dice.random() < 0.6 else ["nobody"])]
        for kind in dice.sample(facts, len(facts)):
            who = she if "name" in answers[person] and dice.random() < 0.5 else "<name>"
            parts = {} if who == she else {"name": name}
            if kind == "age":
                if person == born:
                    whose = her if who == she else "<name>'s"
                    sentence = f"Today was {whose} birthday and {she} was turning <age>."
                else:
                    sentence = f"{who} is <age> years old."
                parts["age"] = str(ages[person])
            elif kind == "town":
                sentence, parts["town"] = f"{who} {dice.choice(('lives', 'has a house'))} in <town>.", towns[person]
            elif kind == "job":
                sentence, parts["job"] = f"{who} works as a <job>.", jobs[person]
            elif kind == "guests":
                extra = dice.randrange(3)
                others = dice.sample([candidate for candidate in (*_WOMEN, *_MEN) if candidate not in names], extra + 2)
                others = [_renamed(name, dice) for name in others]
                parts |= {"many": _COUNTS[extra], "guests": f"{', '.join(others[:-1])} and {others[-1]}"}
                end = him if who == she else "<name>"
                sentence = f"<many> visitors were coming to see {end}: <guests>."
            else:
                sentence = f"Nobody was coming to see {him if who == she else '<name>'}."
            # Parts are filled in the order in which they stand.
            order = sorted(parts, key=lambda part: sentence.index(f"<{part}>"))
            sentence = sentence[0].upper() + sentence[1:] if sentence[0] != "<" else sentence
            tell(person, sentence, **{part: parts[part] for part in order})
    questions: list[dict[str, Any]] = []
    replies: list[dict[str, Any]] = []
    for turn, (question, answer, span) in enumerate(_talk(dice, names, towns, jobs, answers, story, born, she), 1):
        questions.append({"input_text": question, "turn_id": turn})
        replies.append({"input_text": answer, "span_start": span[0], "span_end": span[1], "turn_id": turn})
    return {"id": str(number), "story": story, "questions": questions, "answers": replies}


def _renamed(name: str, dice: random.Random) -> str:
    """A name, or in a third of the cases a made-up one that hardly any other story has, so that names must be
    recognized by their place."""
    if dice.random() < 2 / 3:
        return name
    return (dice.choice(_BEGINS) + dice.choice(_MIDDLES) + dice.choice(_ENDS)).capitalize()


_ABOUT = {
    "age": ("How old is {}?", "How old would {} be?", "What is the age of {}?"),
    "town": ("Where does {} live?", "In which town does {} live?"),
    "job": ("What does {} work as?", "Which job does {} have?"),
    "any": ("Did {} plan to have any visitors?", "Was anybody coming to see {}?"),
}


def _talk(
    dice: random.Random,
    names: list[str],
    towns: list[str],
    jobs: list[str],
    answers: list[dict[str, tuple[int, int]]],
    story: str,
    born: int,
    she: str,
) -> Iterator[tuple[str, str, tuple[int, int]]]:
    """Question, answer and where it stands: the first turn names somebody, the others mostly do not."""
    person = dice.randrange(3)
    opening = dice.choice(
        (
            (f"Who lives in {towns[person]}?", person, "town"),
            (f"Who works as a {jobs[person]}?", person, "job"),
            ("Who had a birthday?", born, "age"),
        )
    )
    person = opening[1]
    yield opening[0], names[person], answers[person][f"{opening[2]}, whose"]
    named_turn, last = 0, ""
    him = "her" if she == "she" else "him"
    left = ["age", "town", "job", "any"]
    for turn in range(1, dice.randint(4, 6)):
        again = turn - named_turn > 2  # the name would be out of sight
        if last == "any" and "many" in answers[person] and not again:
            kind, question = "many", dice.choice(("How many?", "How many visitors?"))
        elif last == "many" and not again:
            kind, question = "guests", dice.choice(("Who?", "Who were they?"))
        elif last in _ABOUT and dice.random() < 0.35:
            person = dice.choice([other for other in range(3) if other != person])
            kind, question, named_turn = last, f"And {names[person]}?", turn
        else:
            kind = dice.choice([topic for topic in left if topic != last] or ["age"])
            form = dice.choice(_ABOUT[kind])
            who = names[person] if again else him if form.endswith(("of {}?", "see {}?")) else she
            question, named_turn = form.format(who), turn if again else named_turn
        last = kind
        if kind == "any":
            has = "many" in answers[person]
            yield question, "yes" if has else "no", answers[person]["many" if has else "name"]
        else:
            start, end = answers[person][kind]
            yield question, story[start:end], (start, end)

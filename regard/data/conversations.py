"""Questions that follow each other, about a text: CoQA's and QuAC's formats, FriendsQA's, and generated ones.

- CoQA (Reddy, Chen & Manning 2019, arXiv:1808.07042): ``data`` is a list of ``story``, ``questions`` and ``answers``
  with ``input_text`` and ``turn_id``, each answer with ``span_start`` and ``span_end`` of what supports it, and
  ``additional_answers``.
- QuAC (Choi et al. 2018, arXiv:1808.07036): as SQuAD's, the questions of a paragraph being one conversation; its
  ``context`` ends with CANNOTANSWER.
- FriendsQA (Yang & Choi 2019): as SQuAD's, but the text is ``utterances`` with their speakers, and an answer is words
  ``inner_start`` to ``inner_end`` of one of them, or its speaker.

Free answers of CoQA become spans as in its paper: that part of the support which has most words in common with the
answer. Behind every text stand the words yes, no and unknown, which can be pointed at, too.
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
    """A text with what can be answered about any."""
    return Text.of(f"{story}\n{' '.join(TAIL)}")


def shorten(talk: Sequence[Question], most: int) -> list[Question]:
    """A conversation about the first words of its text, ``most`` with what stands behind it. A span that was cut off is
    none."""
    whole = talk[0].document
    count, kept = len(whole.words), max(most - len(TAIL), 0)
    if count <= most:
        return list(talk)
    ending = count - len(TAIL)
    text = Text(whole.raw, whole.words[:kept] + whole.words[ending:], whole.places[:kept] + whole.places[ending:])

    def moved(first: int, last: int) -> tuple[int, int]:
        if first >= ending:
            return first - ending + kept, last - ending + kept
        return (first, last) if last < kept else (-1, -1)

    return [one._replace(document=text, span=moved(*one.span)) for one in talk]


def read(path: Path) -> list[list[Question]]:
    """The conversations of a file, each a list of questions."""
    return parse(untrusted.parse_json(untrusted.read(path), path), str(path))


def parse(found: Any, name: str) -> list[list[Question]]:
    """The conversations in one of the formats. An error says which conversation and turn it is in."""
    talks: list[list[Question]] = []
    entries = found if isinstance(found, list) else list_in(found, "data", name)
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
        not isinstance(each, list) or len(each) != len(answers) for each in others.values()
    ):
        raise ValueError(f"{place}: 'additional_answers' must be lists with an answer for each question")
    before: tuple[tuple[str, str], ...] = ()
    for turn, (question, answer) in enumerate(zip(questions, answers)):
        where = f"{place}, turn {turn + 1}"
        for each in (question, answer):
            if not isinstance(each, dict) or each.get("turn_id") != turn + 1:
                raise ValueError(f"{where}: its 'turn_id' must be {turn + 1}")
        asked, said = text_in(question, "input_text", where), text_in(answer, "input_text", where)
        start, end = answer.get("span_start"), answer.get("span_end")
        if type(start) is not int or type(end) is not int or end > len(text.raw) or (start >= 0 and end <= start):
            raise ValueError(f"{where}: span_start and span_end are no part of the story: {start!s:.20}, {end!s:.20}")
        right = (said, *(text_in(each[turn], "input_text", where) for each in others.values()))
        yield Question(
            text, Text.of(asked), right, nearest_span(text, said, start, end, where), place=where, history=before
        )
        before = (*before, (asked, said))


def nearest_span(text: Text, answer: str, start: int, end: int, place: str) -> tuple[int, int]:
    """The words of a document that stand for an answer: yes, no or unknown behind the text, or that part of the support
    between two characters which has most words in common with it."""
    plain = answer.lower().strip(" .!")
    if plain in TAIL or start < 0:
        last = len(text.words) - len(TAIL) + TAIL.index(plain if plain in TAIL else "unknown")
        return last, last
    first, last = words_in(text, start, end, place)
    wanted = [word.lower() for word in Text.of(answer).words]
    best, found = 0.0, (first, last)
    for begin in range(first, last + 1):
        common, left = 0, list(wanted)
        for stop in range(begin, min(last, begin + LONGEST - 1) + 1):
            if (word := text.words[stop].lower()) in left:
                left.remove(word)
                common += 1
            score = 2 * common / (stop - begin + 1 + len(wanted))
            if score > best:
                best, found = score, (begin, stop)
    return found


def _quac(paragraph: Any, place: str) -> Iterator[Question]:
    text = document(text_in(paragraph, "context", place))
    before: tuple[tuple[str, str], ...] = ()
    for turn, entry in enumerate(list_in(paragraph, "qas", place), 1):
        where = f"{place}, turn {turn}"
        asked = text_in(entry, "question", where)
        answers = list_in(entry, "answers", where)
        if not answers:
            raise ValueError(f"{where}: no answers")
        first = entry.get("orig_answer", answers[0])
        texts = [text_in(each, "text", where) for each in (first, *answers)]
        start = first.get("answer_start")
        if type(start) is not int or text.raw[max(start, 0) : max(start, 0) + len(texts[0])] != texts[0]:
            raise ValueError(f"{where}: answer_start is {start!s:.20}, but {texts[0][:40]!r} does not stand there")
        span = words_in(text, start, start + len(texts[0]), where)
        yield Question(text, Text.of(asked), tuple(dict.fromkeys(texts)), span, place=where, history=before)
        before = (*before, (asked, texts[0]))


_UTTERANCES = ("utterances", "utterances:")  # the published files have the colon


def _friends(paragraph: Any, place: str) -> Iterator[Question]:
    utterances = list_in(paragraph, next(key for key in _UTTERANCES if key in paragraph), place)
    raw, starts = "", []
    for number, one in enumerate(utterances, 1):
        where = f"{place}, utterance {number}"
        speakers = " and ".join(str(name) for name in list_in(one, "speakers", where)) or "Nobody"
        said = one.get("utterance")
        if not isinstance(said, str):
            raise ValueError(f"{where}: 'utterance' must be a text")
        starts.append((len(raw), len(raw) + len(speakers), len(raw) + len(speakers) + 2))
        raw += f"{speakers}: {said}\n"
    text = document(raw)
    for turn, entry in enumerate(list_in(paragraph, "qas", place), 1):
        where = f"{place}, question {turn}"
        answers = list_in(entry, "answers", where)
        if not answers:
            raise ValueError(f"{where}: no answers")
        texts, spans = [], []
        for each in answers:
            texts.append(text_in(each, "answer_text", where))
            number = each.get("utterance_id")
            if type(number) is not int or not 0 <= number < len(starts):
                raise ValueError(f"{where}: utterance_id is {number!s:.20}, and there are {len(starts)} utterances")
            begin, end, said = starts[number]
            if each.get("is_speaker") is True:
                spans.append(_said(texts[-1], text, begin, end, where))
                continue
            words = utterances[number]["utterance"].split(" ")
            first, last = each.get("inner_start"), each.get("inner_end")
            if type(first) is not int or type(last) is not int or not 0 <= first <= last < len(words):
                raise ValueError(f"{where}: words {first!s:.9} to {last!s:.9} of an utterance of {len(words)} words")
            begin = said + len(" ".join([*words[:first], ""]))
            spans.append(_said(texts[-1], text, begin, begin + len(" ".join(words[first : last + 1])), where))
        yield Question(text, Text.of(text_in(entry, "question", where)), tuple(texts), spans[0], place=where)


def _said(answer: str, text: Text, start: int, end: int, place: str) -> tuple[int, int]:
    """The words between two characters, which must be the answer."""
    there = text.raw[start:end]
    one, other = ([sign for sign in each.lower() if sign.isalnum()] for each in (answer, there))
    if one != other:
        raise ValueError(f"{place}: the answer {answer[:40]!r} does not stand there, but {there[:40]!r}")
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
        """Add a sentence; where its parts stand is remembered, and with each the last mention of the name by then."""
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
                many = dice.randrange(3)
                others = dice.sample([each for each in (*_WOMEN, *_MEN) if each not in names], many + 2)
                others = [_renamed(name, dice) for name in others]
                parts |= {"many": _COUNTS[many], "guests": f"{', '.join(others[:-1])} and {others[-1]}"}
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
    for turn, (asked, said, place) in enumerate(_talk(dice, names, towns, jobs, answers, story, born, she), 1):
        questions.append({"input_text": asked, "turn_id": turn})
        replies.append({"input_text": said, "span_start": place[0], "span_end": place[1], "turn_id": turn})
    return {"id": str(number), "story": story, "questions": questions, "answers": replies}


def _renamed(name: str, dice: random.Random) -> str:
    """A name, or in a third of the cases one that hardly any other story has, so that names are known by where they
    stand."""
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
    named, last = 0, ""
    him = "her" if she == "she" else "him"
    left = ["age", "town", "job", "any"]
    for turn in range(1, dice.randint(4, 6)):
        again = turn - named > 2  # the name would be out of sight
        if last == "any" and "many" in answers[person] and not again:
            kind, asked = "many", dice.choice(("How many?", "How many visitors?"))
        elif last == "many" and not again:
            kind, asked = "guests", dice.choice(("Who?", "Who were they?"))
        elif last in _ABOUT and dice.random() < 0.35:
            person = dice.choice([each for each in range(3) if each != person])
            kind, asked, named = last, f"And {names[person]}?", turn
        else:
            kind = dice.choice([each for each in left if each != last] or ["age"])
            form = dice.choice(_ABOUT[kind])
            who = names[person] if again else him if form.endswith(("of {}?", "see {}?")) else she
            asked, named = form.format(who), turn if again else named
        last = kind
        if kind == "any":
            has = "many" in answers[person]
            yield asked, "yes" if has else "no", answers[person]["many" if has else "name"]
        else:
            start, end = answers[person][kind]
            yield asked, story[start:end], (start, end)

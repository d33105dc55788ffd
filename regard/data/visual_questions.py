"""Questions about photographs with their answers, as they lie on disk.

==========  ===========================================================================================================
DAQUAR      ``qa_pairs.txt``: a question that names its image (``what is on the desk in the image3 ?``), and below it
            the answer, sometimes several with commas between; ``image3.png`` or the like in a folder or zip archive
VQA         ``OpenEnded_mscoco_train2014_questions.json`` and ``mscoco_train2014_annotations.json``, also in
            ``annotations/``, ten answers to a question; the images, ``COCO_train2014_000000000001.jpg``, in
            ``train2014/`` or ``train2014.zip``; the same for ``val2014``, and for VQA v2, ``v2_…``
folder      ``questions.tsv``: a file, a tab, a question, a tab, an answer
==========  ===========================================================================================================

:func:`read` finds out which it is. DAQUAR's and a folder's questions are divided by image, by their names: of each
1,000 images 195 are for test and 80 for validation, of DAQUAR's 795 thus 155 and 63. VQA has its own splits. A line
that cannot be read and a missing image are named with file and line.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from regard.data import untrusted
from regard.data.lines import BadLines, clean, numbered_lines
from regard.data.photographs import Album, Photograph, divided

PAIRS = "qa_pairs.txt"
TABLE = "questions.tsv"
TEST, VALID = 0.195, 0.08
_VQA = "*OpenEnded_*_questions.json"
_IMAGE = re.compile(r"\bimage\s?\d+\b")
_END = re.compile(r"(?:\s+(?:in|on|of|from)\s+(?:the|this)?\s*image)?\s*\?*\s*$")


class Asked(NamedTuple):
    """A question about a photograph, and the answers that people gave."""

    photograph: Photograph
    question: str
    answers: list[str]


Splits = dict[str, list[Asked]]


def read(folder: Path, bad: BadLines | None = None) -> Splits:
    """The questions by split."""
    bad = bad or BadLines()
    if not folder.is_dir():
        raise ValueError(f"{folder}: a folder with photographs and questions was expected")
    if (folder / PAIRS).exists():
        splits = divided(_pairs(folder, bad), folder, TEST, VALID)
    elif any(folder.glob(_VQA)) or any(folder.glob(f"annotations/{_VQA}")):
        splits = _vqa(folder, bad)
    elif (folder / TABLE).exists():
        splits = divided(_table(folder, bad), folder, TEST, VALID)
    else:
        raise ValueError(
            f"{folder}: no questions are in it; {TABLE} with a file, a question and an answer on each line, tabs "
            f"between, was expected, or {PAIRS} of DAQUAR, or the JSON files of VQA"
        )
    for split, questions in splits.items():
        if not questions:
            raise ValueError(f"{folder}: no question is in the split {split!r}")
    return splits


def _album(folder: Path) -> Album:
    folders = sorted(path for path in folder.iterdir() if path.is_dir())
    return Album(folder, [folder, *folders, *sorted(folder.glob("*.zip"))])


def _missing(album: Album) -> str:
    return f"is not in {', '.join(str(place) for place in album.places)}"


# ---------------------------------------------------------------------------------------------------------------------
# DAQUAR


def plain(question: str) -> str:
    """A question of DAQUAR without the name of its image: ``what is on the desk``."""
    return _END.sub("", _IMAGE.sub("image", question)).strip()


def _pairs(folder: Path, bad: BadLines) -> list[Asked]:
    path, album = folder / PAIRS, _album(folder)
    lines = [(number, clean(line)) for number, line in numbered_lines(path) if clean(line)]
    questions: list[Asked] = []
    place = 0
    while place < len(lines):
        number, question = lines[place]
        images = _IMAGE.findall(question)
        if not images or place + 1 == len(lines) or _IMAGE.search(lines[place + 1][1]):
            what = "a question that names no image" if not images else "a question without an answer below it"
            bad.add("unreadable", path, number, f"{what}: {question[:60]!r}")
            place += 1
            continue
        answer = ", ".join(part.strip() for part in lines[place + 1][1].lower().split(",") if part.strip())
        photograph = album.find(f"{images[-1].replace(' ', '')}.png")
        if photograph is None:
            bad.add("without an image", path, number, f"{images[-1]} {_missing(album)}")
        else:
            questions.append(Asked(photograph, plain(question), [answer]))
        place += 2
    return questions


# ---------------------------------------------------------------------------------------------------------------------
# VQA


def _vqa(folder: Path, bad: BadLines) -> Splits:
    splits: Splits = {}
    for path in sorted([*folder.glob(_VQA), *folder.glob(f"annotations/{_VQA}")]):
        part = path.stem.replace("OpenEnded_", "", 1).removesuffix("_questions")  # mscoco_train2014, v2_mscoco_…
        year = part.rpartition("_")[2]
        split = "train" if year.startswith("train") else "valid" if year.startswith("val") else None
        answers = path.with_name(f"{part}_annotations.json")
        if split is None:
            continue
        if not answers.exists():
            raise ValueError(f"{path}: the answers, {answers.name}, are not beside it")
        album = Album(folder, [folder / year, folder / f"{year}.zip", folder / "images", folder])
        splits.setdefault(split, []).extend(_joined(path, answers, year, album, bad))
    if not splits:
        raise ValueError(f"{folder}: no OpenEnded_…train…_questions.json or …val… is in it")
    return splits if set(splits) != {"train"} else divided(splits["train"], folder, TEST, VALID)


def _joined(path: Path, answers: Path, year: str, album: Album, bad: BadLines) -> list[Asked]:
    """Questions with their answers and images."""

    def questions(content: Any) -> list[tuple[str, Any, str]]:
        entries = content["questions"]
        return [(str(entry["question_id"]), entry["image_id"], str(entry["question"])) for entry in entries]

    def annotations(content: Any) -> dict[str, list[str]]:
        notes = content["annotations"]
        return {str(note["question_id"]): [str(answer["answer"]) for answer in note["answers"]] for note in notes}

    entries, answers_of = _parsed(path, questions), _parsed(answers, annotations)
    joined = []
    for number, (key, image, question) in enumerate(entries, 1):
        name = f"COCO_{year}_{image:012d}.jpg" if isinstance(image, int) else str(image)
        photograph = album.find(name)
        if photograph is None:
            bad.add("without an image", path, number, f"question {number} is about {name}, which {_missing(album)}")
        elif not answers_of.get(key):
            bad.add("without an answer", path, number, f"question {number} ({key}) has no answer in {answers.name}")
        else:
            joined.append(Asked(photograph, clean(question), [clean(answer.lower()) for answer in answers_of[key]]))
    return joined


def _parsed(path: Path, extract: Any) -> Any:
    content = untrusted.parse_json(untrusted.read(path), path)
    try:
        return extract(content)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: not as VQA has it, questions or annotations ({error!r})") from None


# ---------------------------------------------------------------------------------------------------------------------
# A folder with questions.tsv


def _table(folder: Path, bad: BadLines) -> list[Asked]:
    path, album = folder / TABLE, _album(folder)
    questions = []
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        parts = [clean(part) for part in line.split("\t")]
        photograph = album.find(parts[0])
        if len(parts) != 3 or not all(parts):
            bad.add("unreadable", path, number, "not a file, a question and an answer with tabs between")
        elif photograph is None:
            bad.add("without an image", path, number, f"{parts[0]} {_missing(album)}")
        else:
            questions.append(Asked(photograph, parts[1], [parts[2].lower()]))
    return questions

"""Train and measure the tables of docs/results.md on language: pre-training, tagging, summaries, conversation.

    .venv/bin/python tools/results_language.py                     # all; the data must be at hand
    .venv/bin/python tools/results_language.py chat readers        # these
    .venv/bin/python tools/results_language.py --list              # what is done, and how many minutes are left
    .venv/bin/python tools/results_language.py --jobs 2            # two trainings side by side, of one thread each

Every training is a run of its own under --runs, made by `regard train` and taken up where it stopped. Numbers are those
of the test split; where a data set has no test file at hand, its development file is the test, and validation is held
out from training.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import results_translate
from lab import Cell, Measured, Table, cells, facts, lines, print_tables, row, write
from results_translate import Translations

RUNS = "RUNS"
"""In a change: the folder of all runs, where a training finds the one that it starts from."""


@dataclass
class Language(Measured):
    """Trainings on text, and what they are measured by."""

    def train(self, cells: Sequence[Cell]) -> None:
        """First those that no other must wait for."""
        waits = [cell for cell in cells if any(RUNS in change for change in cell.changes)]
        super().train([cell for cell in cells if cell not in waits])
        super().train(waits)

    def _changes(self, cell: Cell) -> list[str]:
        return [change.replace(RUNS, str(self.root.absolute())) for change in super()._changes(cell)]

    def losses(self, cell: Cell) -> dict[str, float]:
        """What the system itself reports over the test split, such as ``nll``. It is stored beside the run."""
        from regard import runs

        path, created = self.folder(cell) / "losses.json", facts(self.folder(cell))["created"]
        if not path.exists() or json.loads(path.read_text())["made"] != created:
            write(path, json.dumps({"made": created, **runs.load(self.folder(cell)).means("test")}))
        losses: dict[str, Any] = json.loads(path.read_text())
        return losses


def named(name: str, cells: Sequence[Cell]) -> list[Cell]:
    """Trainings in folders of another name, where their changes make a poor one."""
    return [dataclasses.replace(cell, name=name) for cell in cells]


# ---------------------------------------------------------------------------------------------------------------------
# Language models and pre-training

GPT = {"GPT, characters of Shakespeare": row("gpt-shakespeare", 45)}


def gpt(lab: Language) -> Iterator[str]:
    """The last tenth of Shakespeare, character by character."""
    yield from lines(lab, GPT, {"nats a character": "nats_per_character", "bits": "bits_per_character"})


BERT = row("bert-text", 60)
START = (f"init={RUNS}/bert-text-0", f"tokens={RUNS}/bert-text-0")
SETS = {
    "SST-2": (),
    "CoLA": ("task.data=text/cola", "files=in_domain", "names=unacceptable,acceptable"),
    "TREC": ("files=TREC", "names="),
}
SHARES = (0.1, 0.3, 1.0)


def tuned(title: str, share: float, start: bool) -> list[Cell]:
    """A set with a share of its labels, from BERT or from scratch."""
    name = f"bert-{title.lower()}-{share:g}" + ("" if start else "-scratch")
    changes = (*SETS[title], f"share={share:g}", *(START if start else ()))
    return named(name, row("bert-sst", max(1, 6 * share), *changes))


def bert(lab: Language) -> Iterator[str]:
    """A small BERT, fine-tuned with a share of the labels, against the same network from scratch; percent right."""
    yield "| set | labels | from scratch | pre-trained | most frequent class |\n|---|---|---|---|---|"
    for title in SETS:
        for share in SHARES:
            scratch, trained = (lab.measure(tuned(title, share, start)[0]) for start in (False, True))
            values = (scratch["accuracy"], trained["accuracy"], trained["majority"])
            yield f"| {title} | {100 * share:.0f} % | " + " | ".join(f"{value:.1f}" for value in values) + " |"


def bert_cells() -> list[Cell]:
    """Pre-training, then each set with each share of labels, both ways."""
    return [*BERT, *(cell for t in SETS for s in SHARES for start in (False, True) for cell in tuned(t, s, start))]


LSTMN = {
    "SST-2, LSTMN": row("lstmn-sst", 3, seeds=3),
    "SST in five degrees, LSTMN": named("lstmn-sst-fine", row("lstmn-sst", 3, "files=stsa.fine", "names=", seeds=3)),
    "agreement, LSTMN": row("lstmn-agreement", 1),
}


def lstmn(lab: Language) -> Iterator[str]:
    """Sentences by LSTMN, percent right."""
    yield from lines(lab, LSTMN, {"accuracy": "accuracy", "majority": "majority", "on the subject": "subject"})


MODELS = {  # 1.21 million parameters each
    "LSTMN, 160 units": row("lstmn-lm", 12),
    "LSTM, 165 units": row("lstmn-lm", 8, "intra=false", "embedding=165", "hidden=165"),
}


def models(lab: Language) -> Iterator[str]:
    """Words of WikiText-2's test file after training on its validation file: LSTMN against an LSTM of equal size."""
    yield from lines(lab, MODELS, {"perplexity": "perplexity"})


# ---------------------------------------------------------------------------------------------------------------------
# Tags, summaries, keyphrases

BY_BERT = ("encoder=transformer", *START, "max_length=99", "dropout=0.1", "hidden=768", "lr=0.0005")
TAGS = {
    "parts of speech (EWT), BiLSTM tagger": row("pos-ewt", 5),
    "wikigold, BiLSTM tagger": row("ner-wikigold", 2, seeds=3),
    "wikigold, encoder-decoder": row("ner-aligned", 4, seeds=3),
    "wikigold, tagger on BERT": named("ner-wikigold-bert", row("ner-wikigold", 6, *BY_BERT, seeds=3)),
    "WNUT17, BiLSTM tagger": row("ner-wnut", 3, seeds=3),
    "WNUT17, encoder-decoder": named(
        "ner-aligned-wnut", row("ner-aligned", 6, "task.data=text/wnut17", "files=", "epochs=14", "margin=2.0", seeds=3)
    ),
    "WNUT17, tagger on BERT": named("ner-wnut-bert", row("ner-wnut", 8, *BY_BERT, seeds=3)),
}


def tags(lab: Language) -> Iterator[str]:
    """Parts of speech and names; strict F1 of entities. WNUT17's development file is the test."""
    columns = {"accuracy": "accuracy", "F1": "f1", "precision": "precision", "recall": "recall"}
    baselines = {"each word's most frequent, accuracy": "unigram", "F1 of that": "unigram_f1"}
    yield from lines(lab, TAGS, {**columns, **baselines})


SUMMARIES = {
    "headlines (Reuters), pointer-generator": row("headline-reuters", 30),
    "headlines (Reuters), ABS": row("headline-reuters-abs", 15),
    "SciTLDR, pointer-generator": row("summary-scitldr", 20),
    "made reports, pointer-generator": row("summary-made", 4),
    "made reports, without the pointer": row("summary-made", 4, "pointer=false"),
    "CANARD, questions rewritten": row("rewrite-canard", 12),
}


def summaries(lab: Language) -> Iterator[str]:
    """Summaries; *lead* is the first sentence, or the question as it is."""
    columns = {"ROUGE-L": "rouge_l", "lead": "lead_rouge_l", "BLEU-4": "bleu4", "lead's": "lead_bleu4"}
    yield from lines(lab, SUMMARIES, {**columns, "unseen names written": "unseen", "copying": "copying"})


KEYPHRASES = {"Inspec, pointer-generator": row("keyphrase-inspec", 15)}


def keyphrases(lab: Language) -> Iterator[str]:
    """Keyphrases of abstracts."""
    yield from lines(lab, KEYPHRASES, {"F1@5 present": "f1_5", "first runs of words": "runs_f1_5", "absent": "absent"})


# ---------------------------------------------------------------------------------------------------------------------
# Conversation

DIALOGS = {"with match types": row("dialog-babi", 6), "without": row("dialog-babi", 6, "match=false")}
PAPER = {"with match types": (100.0, 98.3, 74.9, 100.0, 93.4), "without": (99.9, 100.0, 74.9, 59.5, 96.1)}


def dialog(lab: Language) -> Iterator[str]:
    """dialog-bAbI: right responses, and dialogues all of whose responses are right, in percent."""
    yield "| | " + " | ".join(f"task {task}" for task in range(1, 6)) + " | minutes |\n|---|" + "---|" * 6
    for title, (cell,) in DIALOGS.items():
        measured = lab.measure(cell)
        for kind in ("response", "dialog"):
            accuracies = " | ".join(f"{measured[f'{kind}, task {task}']:.1f}" for task in range(1, 6))
            yield f"| {title}, per {kind} | {accuracies} | {measured['minutes']:.0f} |"
        yield f"| {title}, the paper per response | {' | '.join(f'{value:.1f}' for value in PAPER[title])} | |"


CHAT = {
    "with attention": row("chat-dailydialog", 10),
    "without (Vinyals & Le)": row("chat-dailydialog-seq2seq", 8),
}


def chat(lab: Language) -> Iterator[str]:
    """Replies of DailyDialog: perplexity of a token beside a 5-gram's (Kneser-Ney)."""
    columns = {"perplexity": "perplexity", "5-gram": "5-gram_perplexity", "different replies": "different"}
    yield from lines(lab, CHAT, columns)


READERS = {
    "made conversations, two turns of history": row("coqa-made", 2),
    "made conversations, one turn": row("coqa-made", 2, "turns=1"),
    "made conversations, none": row("coqa-made", 2, "turns=0"),
    "FriendsQA": row("friendsqa", 2, seeds=3),
}


def readers(lab: Language) -> Iterator[str]:
    """Answers that are spans; *window* is the sliding window, which learns nothing."""
    columns = {"F1": "f1", "exact": "exact_match", "first turn": "f1_first", "later turns": "f1_later"}
    yield from lines(lab, READERS, {**columns, "window, F1": "window_f1", "window, exact": "window_exact_match"})


DREAM = {"DREAM": row("dream", 3, seeds=3), "made dialogues": row("dream", 1, "data=")}


def dream(lab: Language) -> Iterator[str]:
    """Questions about dialogues with three choices, percent right, beside ways that learn nothing."""
    simple = {"overlap": "overlap", "sliding window": "window", "with distance": "window_distance"}
    variants = {"of the speaker asked about": "window_speaker", "one position": "position"}
    yield from lines(lab, DREAM, {"accuracy": "accuracy", **simple, **variants})


# ---------------------------------------------------------------------------------------------------------------------
# Translation

NNJM = {"self-normalized": row("nnjm-toy", 1, seeds=3), "not": row("nnjm-toy", 1, "normalize=0", seeds=3)}


def nnjm(lab: Language) -> Iterator[str]:
    """NNJM on the toy grammar: nats a word, how far log Z is from 0, and sentences that are wholly right."""
    yield "| | nats a word | mean abs(log Z) | exact, % | minutes |\n|---|---|---|---|---|"
    for title, row_cells in NNJM.items():
        losses = [lab.losses(cell) for cell in row_cells]
        nll, log_z = (sum(loss[name] for loss in losses) / len(losses) for name in ("nll", "log_z"))
        exact, minutes = lab.mean(row_cells, "exact_match")
        yield f"| {title} | {nll:.4f} | {log_z:.3f} | {exact} | {minutes} |"


LONG = ("local=none", "longest=20", "test_longest=20")
BRITZ = {
    f"{title}, {units} units": row("translate-toy-luong", 4, *LONG, *changes, f"system.hidden={units}", seeds=3)
    for units in (64, 128)
    for title, changes in {
        "no attention": ("attention=false",),
        "dot": ("score=dot",),
        "general": ("score=general",),
        "additive": ("score=additive",),
    }.items()
}


def britz(lab: Language) -> Iterator[str]:
    """Luong's model on the toy grammar up to 20 words, wholly right sentences by length, in percent."""
    yield from lines(lab, BRITZ, {f"up to {top} words": f"exact_match@{top}" for top in (8, 12, 16, 20)})


def jean(lab: Language) -> Iterator[str]:
    """Jean's ladder: Tatoeba en→de by words, RNNsearch, 30,000 words against 3,000."""
    yield from results_translate.jean(Translations(lab.root, lab.changes, lab.jobs))


def adaptation(lab: Language) -> Iterator[str]:
    """From Tatoeba to Multi30k en→de, as Luong & Manning 2015."""
    yield from results_translate.adaptation(Translations(lab.root, lab.changes, lab.jobs))


TABLES = {
    "dialog": Table(lambda: cells(DIALOGS), dialog),
    "readers": Table(lambda: cells(READERS), readers),
    "dream": Table(lambda: cells(DREAM), dream),
    "chat": Table(lambda: cells(CHAT), chat),
    "nnjm": Table(lambda: cells(NNJM), nnjm),
    "lstmn": Table(lambda: cells(LSTMN), lstmn),
    "models": Table(lambda: cells(MODELS), models),
    "gpt": Table(lambda: cells(GPT), gpt),
    "bert": Table(bert_cells, bert),
    "tags": Table(lambda: [*BERT, *cells(TAGS)], tags),
    "summaries": Table(lambda: cells(SUMMARIES), summaries),
    "keyphrases": Table(lambda: cells(KEYPHRASES), keyphrases),
    "britz": Table(lambda: cells(BRITZ), britz),
    "jean": Table(results_translate.jean_cells, jean),
    "adaptation": Table(results_translate.general_cells, adaptation),
}


def main() -> None:
    """Train what is missing, and print Markdown tables."""
    print_tables(__doc__, TABLES, Language)


if __name__ == "__main__":
    main()

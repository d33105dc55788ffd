"""Train and measure the translation tables of docs/results.md. What is done is not done again.

    .venv/bin/python tools/results_translate.py                      # all tables; Multi30k and Tatoeba must be at hand
    .venv/bin/python tools/results_translate.py ladder scores        # these
    .venv/bin/python tools/results_translate.py --list               # what is done, and how many minutes are left
    .venv/bin/python tools/results_translate.py --jobs 2             # two trainings side by side, of one thread each
    .venv/bin/python tools/results_translate.py ladder steps=20 --runs /tmp/look      # every training changed

Every training is a run of its own under --runs, made by `regard train` and taken up where it stopped, however it
stopped. Minutes are those of a training on one core; perplexity is that of a token of the test split, given the right
ones before it. BLEU is of what the system writes with the recipe's beam; ± is half of the 95 % interval of 1,000
bootstrap samples, and a difference is judged by the same samples for both (a paired bootstrap, Koehn 2004).
"""

from __future__ import annotations

import gzip
import itertools
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lab import HERE, Cell, Lab, Table, facts, print_tables, say, write
from measured import Measured, perplexity, signature

from regard.data.lexicon import best
from regard.views.curves import draw


@dataclass
class Translations(Lab):
    """Trainings on Multi30k, and what they write."""

    figure: Path = HERE / "docs" / "images" / "bleu_by_length.png"
    dictionaries: dict[tuple[str, ...], dict[str, list[tuple[str, float]]]] = field(default_factory=dict)

    def data(self, cell: Cell) -> list[str]:
        return ["--data", str(self.subset(cell.examples))] if cell.examples else []

    def subset(self, count: int) -> Path:
        """A folder like Multi30k's with only the first pairs to train on."""
        from regard.data.download import locate

        folder = self.root / f"multi30k-{count}"
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(locate("multi30k").iterdir()):
            out = folder / path.name.removesuffix(".gz")
            if out.exists() or not path.name.startswith(("train.", "val.", "test")):
                continue
            with (
                gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file
            ):
                lines = list(itertools.islice(file, count if path.name.startswith("train.") else None))
            write(out, "".join(lines))
        return folder

    def measure(
        self,
        *cells: Cell,
        which: str | None = None,
        copy: bool = False,
        split: str = "test",
        decode: Sequence[str] = (),
        cased: bool = False,
        listed: tuple[int, int] | None = None,
    ) -> Measured:
        """A split, written by a cell or by several together; with ``copy``, unknown words copied from where the system
        looked. ``which`` weights: see `regard evaluate`. ``decode`` changes how it searches; ``listed`` limits it to
        candidates, and replaces unknown words by a dictionary."""
        name = "+".join(self.folder(cell).name for cell in cells)
        folders = [self.folder(cell) for cell in cells]
        return self.written(folders, name, which, copy, cased, split=split, decode=decode, listed=listed)

    def on_domain(self, cell: Cell, data: str = "multi30k") -> Measured:
        """A cell on the test split of other data than it was trained on."""
        return self.written([self.folder(cell)], f"{self.folder(cell).name}-on-{data}", data=data)

    def dictionary(self, task: Any) -> dict[str, list[tuple[str, float]]]:
        """Learned from the training text of a task; once for all tables."""
        if (key := (task.config.data, task.config.src, task.config.tgt)) not in self.dictionaries:
            say("learning a dictionary …")
            self.dictionaries[key] = task.lexicon()
        return self.dictionaries[key]

    def written(
        self,
        folders: Sequence[str | Path],
        name: str,
        which: str | None = None,
        copy: bool = False,
        cased: bool = False,
        split: str = "test",
        decode: Sequence[str] = (),
        listed: tuple[int, int] | None = None,
        data: str | None = None,
    ) -> Measured:
        """The same of any runs, or shipped models."""
        from regard.predictors.predictor import Predictor

        words = (which, "copied" if copy else None, None if split == "test" else split, *decode)
        words += () if listed is None else ("listed", *map(str, listed))
        options = "".join(f"-{word}" for word in words if word)
        path = self.root / "measured" / f"{name}{options}.json"
        runs_facts = [facts(_place(folder)) for folder in folders]
        created = [fact["created"] for fact in runs_facts]
        if not path.exists() or json.loads(path.read_text())["made"] != created:
            say(f"measuring {name}{options} …")
            model = Predictor.open(*folders, which=which, data=data)
            if decode:
                model = type(model)(model.model, model.task, model.recipe.change(decode), model.name)
            pairs = model.task.pairs(split)
            dictionary: dict[str, str] | None = {} if copy else None
            if listed is not None:
                learned = self.dictionary(model.task)
                model.list_candidates(*listed, learned)
                dictionary = best(learned) if copy else None
            answers = model.predict(pairs.source, alignments=copy, dictionary=dictionary)
            texts = [best.text for best, *_ in answers]
            answers_of_model = {
                "texts": texts,
                "source": pairs.source,
                "target": pairs.target,
                "perplexity": perplexity(model, split),
            }
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path, json.dumps({"made": created, **answers_of_model}, ensure_ascii=False))
        saved = json.loads(path.read_text(encoding="utf-8"))
        minutes = sum(fact["summary"]["minutes"] for fact in runs_facts)
        return Measured(saved["texts"], saved["source"], saved["target"], saved["perplexity"], minutes, cased)


# ---------------------------------------------------------------------------------------------------------------------
# The tables: which trainings each needs, and its lines

HEADER = "| {} | BLEU | chrF | perplexity | minutes |{}\n|---|---|---|---|---|{}"

SYSTEMS = {  # minutes on one core
    "transformer": ("Transformer", 45),
    "rnnsearch": ("RNNsearch", 36),
    "luong": ("Luong", 50),
    "seq2seq": ("LSTM without attention", 28),
}


def systems_cells() -> list[Cell]:
    """The recipes as they are."""
    return [Cell(name, f"translate-multi30k-{name}", minutes) for name, (_, minutes) in SYSTEMS.items()]


def systems(lab: Translations) -> Iterator[str]:
    """Multi30k en→de, test_2016_flickr."""
    yield HEADER.format("system", "", "")
    for (title, _), cell in zip(SYSTEMS.values(), systems_cells()):
        yield f"| {title} | {lab.measure(cell).row()} |"
    yield f"\n{signature()}"


LUONG = "translate-multi30k-luong"
LADDER = (
    "level=word", "vocab=10000", "shared=false", "embedding=256", "system.hidden=256", "layers=2", "label_smoothing=0",
    "batch_tokens=1024", "spread=1", "epochs=5", "lr=0.006", "warmup=100", "keep=0", "average=0",
)  # fmt: skip
RUNGS: tuple[tuple[str, float, dict[str, object]], ...] = (  # title, minutes on one core, what changes
    ("base", 8, {"attention": "false", "reverse": "false", "dropout": 0.0, "feed": "false"}),
    ("+ reverse", 8, {"reverse": "true"}),
    ("+ dropout", 8, {"dropout": 0.2}),
    ("+ global attention (location)", 9, {"attention": "true", "local": "none", "score": "location"}),
    ("+ feed input", 12, {"feed": "true"}),
    ("local-p attention (general) instead", 14, {"local": "p", "score": "general"}),
)
MEMBERS = 4


def ladder_cells() -> list[Cell]:
    """Each rung once, and the last with all seeds of the ensemble."""
    cells: list[Cell] = []
    chosen: dict[str, object] = {}
    for number, (_, minutes, settings) in enumerate(RUNGS):
        chosen = chosen | settings
        changes = (*LADDER, *(f"system.{name}={value}" for name, value in chosen.items()))
        seeds = MEMBERS if number == len(RUNGS) - 1 else 1
        cells += [Cell(f"ladder-{number}", LUONG, minutes, changes, seed) for seed in range(seeds)]
    return cells


def ladder(lab: Translations) -> Iterator[str]:
    """Luong's ladder: Multi30k en→de by words, 10,000 of them, two layers of 256."""
    yield HEADER.format("rung", " against the rung before |", "---|")
    cells = ladder_cells()
    members = cells[len(RUNGS) - 1 :]
    rungs = [(title, lab.measure(cell)) for (title, _, _), cell in zip(RUNGS, cells)]
    rungs.append(("+ unknown words replaced", lab.measure(members[0], copy=True)))
    for count in range(2, len(members) + 1):
        rungs.append((f"ensemble of {count} seeds", lab.measure(*members[:count], copy=True)))
    for number, (title, measured) in enumerate(rungs):
        yield f"| {title} | {measured.row()} | {measured.against(rungs[number - 1][1]) if number else ''} |"
    alone = [lab.measure(member, copy=True) for member in members]
    best = max(alone, key=lambda seed: seed.bleu()[0])
    scores = ", ".join(f"{seed.bleu()[0]:.1f}" for seed in alone)
    yield f"\nThe {len(alone)} seeds alone: {scores}. Together against the best of them: {rungs[-1][1].against(best)}."
    yield f"\n{signature()}"


CHOICES = {  # title: what changes
    "dot": ("score=dot",),
    "general": ("score=general",),
    "additive": ("score=additive",),
    "cosine, learned gain": ("score=cosine",),
    "location": ("score=location",),
    "general, local-m": ("score=general", "local=m"),
    "general, local-p": ("score=general", "local=p"),
    "general, sparsemax": ("score=general", "normalizer=sparsemax"),
    "general, hard (straight-through)": ("score=general", "normalizer=hard"),
}
SEEDS = 3
SMALL = (
    "vocab=2000", "embedding=128", "system.hidden=128", "layers=1", "local=none", "label_smoothing=0", "dropout=0.1",
    "batch_tokens=1024", "spread=1", "epochs=2", "lr=0.008", "warmup=100", "keep=0", "average=0",
)  # fmt: skip


def scores_cells() -> list[Cell]:
    """Every choice with all seeds."""
    return [
        Cell("scores-" + "-".join(change.partition("=")[2] for change in choice), LUONG, 4, (*SMALL, *choice), seed)
        for choice in CHOICES.values()
        for seed in range(SEEDS)
    ]


def scores(lab: Translations) -> Iterator[str]:
    """Score functions, windows and normalizers in one model: Luong's, one layer of 128, 2,000 subwords."""
    yield f"| attention | BLEU, mean of {SEEDS} seeds | smallest to largest | perplexity | minutes each |"
    yield "|---|---|---|---|---|"
    cells = scores_cells()
    for number, title in enumerate(CHOICES):
        seeds = [lab.measure(cell) for cell in cells[SEEDS * number :][:SEEDS]]
        values = [seed.bleu()[0] for seed in seeds]
        unsure, spent = (statistics.mean(getattr(seed, name) for seed in seeds) for name in ("perplexity", "minutes"))
        spread = f"{min(values):.1f} to {max(values):.1f}"
        yield f"| {title} | {statistics.mean(values):.1f} | {spread} | {unsure:.2f} | {spent:.1f} |"
    yield f"\n{signature()}"


FIRST = (  # the Transformer that the changes start from
    "dim=128", "system.hidden=256", "encoder_layers=4", "decoder_layers=4", "dropout=0.2", "label_smoothing=0.1",
    "vocab=6000", "batch_tokens=1024", "epochs=3", "lr=0.003", "warmup=400", "keep=3", "average=3",
)  # fmt: skip
TUNING: dict[str, tuple[str, ...]] = {  # title: what changes
    "a Transformer of 4 + 4 layers": (),
    "batches of 2,048 tokens": ("batch_tokens=2048",),
    "warm-up of 100 steps": ("warmup=100",),
    "dropout 0.1": ("dropout=0.1",),
    "no label smoothing": ("label_smoothing=0",),
    "2 + 2 layers": ("encoder_layers=2", "decoder_layers=2"),
    "2,000 subwords": ("vocab=2000",),
    "12,000 subwords": ("vocab=12000",),
}
SEARCHES: dict[str, dict[str, Any]] = {  # of the first, trained as before
    "a mean of the weights after each epoch": {"which": "average"},
    "greedy": {"decode": ("decode.method=greedy",)},
    "a beam of 10": {"decode": ("decode.size=10",)},
    "length penalty 0": {"decode": ("decode.length_penalty=0",)},
    "length penalty 1": {"decode": ("decode.length_penalty=1",)},
}


def tuning_cells() -> list[Cell]:
    """A few epochs of each change."""
    return [
        Cell(f"tuning-{number}", "translate-multi30k-transformer", 6, (*FIRST, *changes))
        for number, changes in enumerate(TUNING.values())
    ]


def tuning(lab: Translations) -> Iterator[str]:
    """What moves the number: Multi30k en→de, three epochs of a Transformer, the best weights, the validation split."""
    cells, best = tuning_cells(), {"split": "valid", "which": "best"}
    measured = {title: lab.measure(cell, **best) for title, cell in zip(TUNING, cells)}
    measured |= {title: lab.measure(cells[0], **best | search) for title, search in SEARCHES.items()}
    yield from changed(measured)


RECURRENT: dict[str, tuple[str, ...]] = {  # title: what changes
    "Luong, as in `scores`": (),
    "words begin at 0.06": ("spread=0.06",),
    "lr 0.002": ("lr=0.002",),
    "batches of 2,048 tokens": ("batch_tokens=2048",),
    "dropout 0.3": ("dropout=0.3",),
}


def recurrent_cells() -> list[Cell]:
    """The same for the model of `scores` with the general score."""
    first = next(cell for cell in scores_cells() if cell.name == "scores-general")
    return [
        replace(first, name=f"recurrent-{number}", changes=(*first.changes, *changes)) if changes else first
        for number, changes in enumerate(RECURRENT.values())
    ]


def recurrent(lab: Translations) -> Iterator[str]:
    """What moves the number of a recurrent system: two epochs of `scores`' model, the validation split."""
    cells = zip(RECURRENT, recurrent_cells())
    yield from changed({title: lab.measure(cell, split="valid") for title, cell in cells})


def changed(measured: Mapping[str, Measured]) -> Iterator[str]:
    """A row for each change, against the first."""
    yield HEADER.format("change", " against the first |", "---|")
    first, *_ = measured.values()
    for title, variant in measured.items():
        yield f"| {title} | {variant.row()} | {'' if variant is first else variant.against(first)} |"
    yield f"\n{signature()}"


SIZES = {500: (80, 4), 2000: (32, 5), 8000: (10, 6)}
"""Pairs: epochs, and the minutes of either system on one core. All pairs are the recipes themselves."""


def data_cells() -> list[Cell]:
    """Both systems for each size."""
    rates = {"transformer": 0.003, "rnnsearch": 0.004}
    changes = ("batch_tokens=1024", "dropout=0.2", "warmup=100", "validate_every=60", "keep=0", "average=0")
    few = [
        Cell(
            f"data-{name}-{size}",
            f"translate-multi30k-{name}",
            minutes,
            (*changes, f"lr={rate}", f"epochs={epochs}"),
            examples=size,
        )
        for size, (epochs, minutes) in SIZES.items()
        for name, rate in rates.items()
    ]
    return few + [cell for cell in systems_cells() if cell.name in rates]


def data(lab: Translations) -> Iterator[str]:
    """Who needs more data? Multi30k en→de with the first N pairs, the weights of the best validation."""
    yield "| pairs | Transformer | RNNsearch | Transformer against RNNsearch |\n|---|---|---|---|"
    cells = data_cells()
    for number, size in enumerate([*SIZES, 29000]):
        pair = [lab.measure(cell, which="best") for cell in cells[2 * number : 2 * number + 2]]
        bleus = " | ".join("{:.1f} ± {:.1f}".format(*measured.bleu()) for measured in pair)
        yield f"| {size:,} | {bleus} | {pair[0].against(pair[1])} |"
    yield f"\n{signature()}"


BINS = ((1, 8), (9, 11), (12, 14), (15, 18), (19, 99))


def length(lab: Translations) -> Iterator[str]:
    """BLEU against the words of the source, with and without attention."""
    measured = {title: lab.measure(cell) for (title, _), cell in zip(SYSTEMS.values(), systems_cells())}
    source = next(iter(measured.values())).source
    yield f"| words | sentences | {' | '.join(measured)} |\n|---|---|{'---|' * len(measured)}"
    curves: dict[str, list[tuple[float, float]]] = {title: [] for title in measured}
    names = []
    for low, high in BINS:
        rows = [row for row, line in enumerate(source) if low <= len(line.split()) <= high]
        if not rows:
            continue
        names.append(f"{low} to {high}" if high < 99 else f"{low} and more")
        for title, system in measured.items():
            curves[title].append(system.bleu(rows))
        shown = " | ".join("{:.1f} ± {:.1f}".format(*curve[-1]) for curve in curves.values())
        yield f"| {names[-1]} | {len(rows)} | {shown} |"
    lab.figure.parent.mkdir(parents=True, exist_ok=True)
    draw(curves, names, lab.figure, along="words of the source", metric="BLEU", bottom=0)
    yield f"\n{signature()}\n\nFigure: {lab.figure}"


SHIPPED = {"Transformer": "translate-en-es", "RNNsearch": "translate-en-es-rnn"}


def tatoeba(lab: Translations) -> Iterator[str]:
    """Tatoeba en→es, the held-out sentences, by the models that ship."""
    from sacrebleu.metrics import TER

    yield "| model | BLEU | chrF | TER | perplexity | against the best alone |\n|---|---|---|---|---|---|"
    rows = [(title, [name]) for title, name in SHIPPED.items()]
    rows.append(("both together", list(SHIPPED.values())))
    best: Measured | None = None
    for title, names in rows:
        measured = lab.written(names, "+".join(names), cased=True)
        ter = TER().corpus_score(measured.texts, [measured.target]).score
        scores = "{:.1f} ± {:.1f} | {:.1f} | {:.1f} | {:.2f}".format(
            *measured.bleu(), measured.chrf, ter, measured.perplexity
        )
        versus = measured.against(best) if best and len(names) > 1 else ""
        yield f"| {title} | {scores} | {versus} |"
        best = measured if best is None or measured.bleu()[0] > best.bleu()[0] else best
    yield f"\n{signature(cased=True, TER=TER())}"


JEAN = "translate-tatoeba-jean"
JEAN_SEEDS = 2


def jean_cells() -> list[Cell]:
    """Few words, all words by the whole softmax, and all words by the sampled one with every seed."""
    few, full = Cell("jean-few", f"{JEAN}-few", 25), Cell("jean-full", JEAN, 100, ("sampled=0",))
    return [few, full, *(Cell("jean", JEAN, 45, (), seed) for seed in range(JEAN_SEEDS))]


def jean(lab: Translations) -> Iterator[str]:
    """Jean's ladder: Tatoeba en→de by words, RNNsearch, 30,000 words against 3,000."""
    yield HEADER.format("rung", " against the rung before |", "---|")
    few, full, *members = jean_cells()
    listed, cased = (10_000, 10), {"cased": True}
    rungs = [
        ("3,000 words", lab.measure(few, **cased)),
        ("30,000 words, the whole softmax", lab.measure(full, **cased)),
        ("30,000 words, 3,000 scored in a step", lab.measure(members[0], **cased)),
        ("+ candidate lists", lab.measure(members[0], listed=listed, **cased)),
        ("+ unknown words replaced", lab.measure(members[0], copy=True, listed=listed, **cased)),
        (f"ensemble of {len(members)} seeds", lab.measure(*members, copy=True, listed=listed, **cased)),
    ]
    for number, (title, measured) in enumerate(rungs):
        yield f"| {title} | {measured.row()} | {measured.against(rungs[number - 1][1]) if number else ''} |"
    ratio = rungs[2][1].perplexity / rungs[1][1].perplexity
    yield f"\nPerplexity of the sampled softmax against the whole one: {100 * (ratio - 1):+.1f} %."
    yield f"\n{signature(cased=True)}"


GENERAL, ADAPTED = "translate-tatoeba-ende", "translate-multi30k-adapted"


def general_cells() -> list[Cell]:
    """The general model, and the domain alone with all seeds."""
    return [
        Cell("adaptation-general", GENERAL, 75),
        *(Cell("adaptation-alone", ADAPTED, 35, ("lr=0.002",), s) for s in (0, 1)),
    ]


def adaptation_cells(lab: Translations) -> list[Cell]:
    """The general model, fine-tuned with all seeds."""
    start = lab.folder(general_cells()[0])
    changes = (f"init={start}", f"tokens={start}")
    return [Cell("adaptation-tuned", ADAPTED, 35, changes, seed) for seed in (0, 1)]


def adaptation(lab: Translations) -> Iterator[str]:
    """From Tatoeba to Multi30k en→de, test_2016_flickr, as Luong & Manning 2015: fine-tuning and ensembles."""
    from sacrebleu.metrics import TER

    general, *alone = general_cells()
    tuned = adaptation_cells(lab)
    lab.train(tuned)  # they begin with what the general model has learned
    yield "| system | BLEU | chrF | TER | perplexity | TER against the general model |\n|---|---|---|---|---|---|"
    rows = [
        ("Tatoeba alone", lab.on_domain(general)),
        ("Multi30k alone", lab.measure(alone[0])),
        ("Multi30k alone, both seeds together", lab.measure(*alone)),
        ("Tatoeba, then Multi30k", lab.measure(tuned[0])),
        ("Tatoeba, then Multi30k, both seeds together", lab.measure(*tuned)),
    ]
    first = 0.0
    for title, measured in rows:
        ter = TER(normalized=True).corpus_score(measured.texts, [measured.target]).score
        first = first or ter
        scores = "{:.1f} ± {:.1f} | {:.1f} | {:.1f} | {:.2f}".format(
            *measured.bleu(), measured.chrf, ter, measured.perplexity
        )
        yield f"| {title} | {scores} | {100 * (ter / first - 1):+.0f} % |"
    yield f"\n{signature(TER=TER(normalized=True))}"


def alignment_cells() -> list[Cell]:
    """With names that are in no vocabulary."""
    kinds = {"rnnsearch": ("translate-toy", 4), "transformer": ("translate-toy-transformer", 3)}
    return [Cell(f"toy-{name}", recipe, minutes, ("names=200",)) for name, (recipe, minutes) in kinds.items()]


def alignment(lab: Translations) -> Iterator[str]:
    """Who knows where a word came from? The toy grammar with names; heads are chosen on the validation split."""
    from regard.metrics import alignment
    from regard.predictors._heads import head_name
    from regard.predictors.predictor import Predictor
    from regard.training import Run

    yield "| attention | layer.head | alignment error | unknown names copied right |\n|---|---|---|---|"

    def row(model: Any, title: str, place: tuple[int, int]) -> str:
        names = model.task.evaluate([best.text for best, *_ in model.predict(source, dictionary={})])["names"]
        return f"| {title} | {head_name(*place)} | {100 * errors[place]:.1f} % | {names:.1f} % |"

    rnnsearch, transformer = (Predictor.open(lab.folder(cell)) for cell in alignment_cells())
    source, target, _ = rnnsearch.task.pairs("test")
    errors = rnnsearch.task.head_errors(rnnsearch.looks(source, target))
    yield row(rnnsearch, "RNNsearch", (0, 0))
    errors = transformer.task.head_errors(transformer.looks(source, target))
    last = max(layer for layer, _ in errors)
    transformer.model.config = replace(transformer.model.config, alignment_layer=last, alignment_head=-1)
    yield row(transformer, "Transformer, the last layer's mean", (last, -1))
    for by, title in (("copied", "by the names of the validation split"), ("gold", "by its gold alignments")):
        chosen = transformer.choose_head(by=by)
        yield row(transformer, f"Transformer, chosen {title}", (chosen["layer"], chosen["head"]))
    Run.open(lab.folder(alignment_cells()[1])).note(alignment=chosen)
    gold = [example.alignment for example in rnnsearch.task.examples("test")]
    floor = alignment.alignment_error([{t: (s, t) for s, t in links}.values() for links in gold], gold)
    yield f"| the least possible with one link a word | | {100 * floor:.1f} % | |"

    model = Predictor.open(SHIPPED["Transformer"])
    chosen = model.choose_head(by="copied")
    shares, of = model.copied("test")
    last = max(layer for layer, _ in shares)
    yield f"\nOf {of:,} copied words of Tatoeba's test split, `{SHIPPED['Transformer']}` looks at the same word in:\n"
    yield "| layer.head | |\n|---|---|"
    for title, place in (
        ("the last layer's mean", (last, -1)),
        ("chosen on the validation split", (chosen["layer"], chosen["head"])),
    ):
        yield f"| {title}, {head_name(*place)} | {100 * shares[place]:.1f} % |"


TABLES = {
    "alignment": Table(alignment_cells, alignment),
    "tatoeba": Table(list, tatoeba),
    "scores": Table(scores_cells, scores),
    "ladder": Table(ladder_cells, ladder),
    "jean": Table(jean_cells, jean),
    "adaptation": Table(general_cells, adaptation),
    "tuning": Table(tuning_cells, tuning),
    "recurrent": Table(recurrent_cells, recurrent),
    "systems": Table(systems_cells, systems),
    "length": Table(systems_cells, length),
    "data": Table(data_cells, data),
}


def _place(folder: str | Path) -> Path:
    from regard import registry

    return Path(folder) if Path(folder).exists() else registry.PRETRAINED / folder


def main() -> None:
    """Train what is missing, and print Markdown tables."""
    print_tables(__doc__, TABLES, Translations)


if __name__ == "__main__":
    main()

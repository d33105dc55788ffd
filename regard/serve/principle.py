"""Same principle, different query, key, value, score and normalizer: the table of all systems of the lectures."""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, NamedTuple

from pydantic import BaseModel, Field

from regard import registry
from regard.serve import sources
from regard.serve.card import described
from regard.serve.lecture import PARTS, part_of, year_of

TITLE = 7
"""Words of a title at most; a system whose description begins with more is called by its paper."""


class Looked(BaseModel):
    """One attention of a system, as the system declares it."""

    where: str
    query: str
    key: str
    value: str
    score: str
    normalizer: str
    rows: str
    columns: str


class System(BaseModel):
    """A system and all its attentions."""

    name: str
    title: Annotated[str, Field(description="What people call it.")]
    part: Annotated[str, Field(description="Of the lectures.")]
    sentence: str
    paper: str
    file: Annotated[str, Field(description="Its code; empty if it is not built.")]
    source: Annotated[str, Field(description="Where this server shows that code.")]
    recipes: list[str]
    like: Annotated[str, Field(description="Of a paper that is another system with other settings: its attention.")] = (
        ""
    )
    looks: list[Looked]


class Principle(BaseModel):
    """All systems, by the parts of the lectures and by year."""

    systems: list[System]


class Variant(NamedTuple):
    """A paper of the lectures that is another system with other settings; without a system, it is not built."""

    title: str
    sentence: str
    paper: str
    system: str
    recipes: tuple[str, ...]


VARIANTS = (
    Variant(
        "Sequence to sequence",
        "A deep LSTM reads the source backwards into one vector, and another writes from it.",
        "Sutskever, Vinyals & Le 2014, Sequence to Sequence Learning with Neural Networks (arXiv:1409.3215)",
        "seq2seq",
        ("translate-multi30k-seq2seq",),
    ),
    Variant(
        "RNNsearch-LV",
        "A large vocabulary: a step scores a sample of it; unknown words are replaced by what they looked at.",
        "Jean, Cho, Memisevic & Bengio 2015, On Using Very Large Target Vocabulary for Neural Machine Translation "
        "(arXiv:1412.2007)",
        "rnnsearch",
        ("translate-tatoeba-jean", "translate-tatoeba-jean-few"),
    ),
    Variant(
        "Domain adaptation",
        "A general translator goes on learning from the texts that it is meant for.",
        "Luong & Manning 2015, Stanford Neural Machine Translation Systems for Spoken Language Domains (IWSLT)",
        "rnnsearch",
        ("translate-multi30k-adapted", "translate-tatoeba-ende"),
    ),
    Variant(
        "Massive exploration",
        "Which settings of an attentive translator matter? regard sweep trains every combination.",
        "Britz, Goldie, Luong & Le 2017, Massive Exploration of Neural Machine Translation Architectures "
        "(arXiv:1703.03906)",
        "luong",
        ("translate-toy-luong",),
    ),
    Variant(
        "A neural conversational model",
        "What would one reply? An encoder-decoder that has only one vector for what was said.",
        "Vinyals & Le 2015, A Neural Conversational Model (arXiv:1506.05869)",
        "seq2seq",
        ("chat-dailydialog-seq2seq",),
    ),
    Variant(
        "CoQA",
        "Questions about a text that depend on the questions before.",
        "Reddy, Chen & Manning 2018, CoQA: A Conversational Question Answering Challenge (arXiv:1808.07042)",
        "drqa",
        ("coqa-made",),
    ),
    Variant(
        "QuAC",
        "A student asks about a text that only the teacher sees; it is read as CoQA is, with --data.",
        "Choi et al. 2018, QuAC: Question Answering in Context (arXiv:1808.07036)",
        "drqa",
        ("coqa-made",),
    ),
    Variant(
        "GATv2",
        "The nonlinearity stands before the product with a, so that the order of neighbours depends on who asks.",
        "Brody, Alon & Yahav 2021, How Attentive are Graph Attention Networks? (arXiv:2105.14491)",
        "gat",
        ("gatv2-lookup",),
    ),
)


@cache
def table() -> Principle:
    """The table of the lectures, from the code of the systems."""
    recipes: dict[str, list[str]] = {name: [] for name in registry.systems()}
    parts: dict[str, str] = {}
    for name in registry.recipes():
        sections = registry.recipe(name).sections
        system = sections["system"]["name"]
        recipes[system].append(name)
        parts.setdefault(system, part_of(system, registry.task(sections["task"]["name"]).family))
    # A system without a recipe of its own looks at what those of its part look at.
    looked_at = {look.columns: part for name, part in parts.items() for look in registry.system(name).uses.values()}
    rows = []
    for name in registry.systems():
        (sentence, paper), uses = described(name), registry.system(name).uses
        part = parts.get(name) or next(
            (looked_at[use.columns] for use in uses.values() if use.columns in looked_at), ""
        )
        looks = [Looked(where=where, **look._asdict()) for where, look in uses.items()]
        variants = [variant for variant in VARIANTS if variant.system == name]
        variant_recipes = {recipe for variant in variants for recipe in variant.recipes}
        own_recipes = [recipe for recipe in recipes[name] if recipe not in variant_recipes] or recipes[name]
        title, shared = title_of(sentence, paper), {"name": name, "part": part, **_code(name)}
        rows.append(System(title=title, sentence=sentence, paper=paper, recipes=own_recipes, looks=looks, **shared))
        like = f"Attention as in {title}." if looks else "No attention."
        rows += [
            System(
                title=variant.title,
                sentence=variant.sentence,
                paper=variant.paper,
                recipes=list(variant.recipes),
                like=like,
                looks=[],
                **shared,
            )
            for variant in variants
        ]
    for variant in VARIANTS:
        if not variant.system:
            fields = {"title": variant.title, "sentence": variant.sentence, "paper": variant.paper}
            rows.append(
                System(name="", part="", file="", source="", like="Not built yet.", recipes=[], looks=[], **fields)
            )
    order = {part: number for number, part in enumerate(PARTS)}
    return Principle(systems=sorted(rows, key=lambda row: (order.get(row.part, len(order)), year_of(row.paper))))


def _code(name: str) -> dict[str, str]:
    file = sources.systems()[name]
    shown = file.relative_to(sources.ROOT).as_posix() if file.is_relative_to(sources.ROOT) else file.name
    return {"file": shown, "source": sources.address(name)}


def title_of(sentence: str, paper: str) -> str:
    """``RAM`` of "RAM: a network that …", or ``Denil 2011``."""
    head, colon, _ = sentence.partition(":")
    if colon and len(head.split()) <= TITLE:
        return head
    match = re.match(r"(.+?) (\d{4})", paper)
    if match is None:
        return sentence.rstrip(".")
    authors = re.split(r", | & | et al", match[1])
    return f"{match[1] if len(authors) < 3 else f'{authors[0]} et al.'} {match[2]}"

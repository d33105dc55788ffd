"""docs/gallery.md and its pictures: one for each kind of view, by the models that ship, else by hand.

    python tools/gallery.py            # or: make gallery

A model that ships draws its own picture, by the very command that is printed beside it. Where none does, the same view
shows something that is computed here without training, and the page says so.
"""

from __future__ import annotations

import argparse
import io
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from PIL import Image

import regard
from regard import registry
from regard.glimpses import Bilinear, Retina
from regard.layers.transformer import positions as sinusoids
from regard.predictors.predictor import Predictor
from regard.tasks.digits import Config, Digits
from regard.views import (
    alignment,
    beam,
    canvas,
    document,
    glimpses,
    graph,
    heads,
    hops,
    overlay,
    page,
    positions,
    rectified,
    stack,
    walkthrough,
    weightings,
)

DOCS = Path(__file__).parents[1] / "docs"
WIDEST = 1000  # pixels
COFFEE = "My brother has never seen such a big house."
TIRED = "The animal didn't cross the street because it was too tired."
STORY = """Mary went to the kitchen.
John went to the garden.
Mary picked up the apple there.
John travelled to the office.
Mary moved to the bathroom.
Where is the apple?
"""

BY_HAND = "## The pictures of the lectures"
"""From here on the page is written by hand and kept."""


@dataclass(frozen=True)
class Picture:
    """One kind of view.

    Attributes:
        name: of the file.
        title: of the section.
        text: what is seen, and whose picture it is.
        draw: makes the figure when no model does.
        model: the shipped model that draws it, if it ships.
        command: what is typed after ``regard show MODEL``.
        source: the call that makes it otherwise.
        note: what such a figure shows, if that is no trained model.
    """

    name: str
    title: str
    text: str
    draw: Callable[[], Figure] | None = None
    model: str = ""
    command: tuple[str, ...] = ()
    options: tuple[tuple[str, object], ...] = ()
    source: str = ""
    note: str = ""


# ---------------------------------------------------------------------------------------------------------------------
# Without a trained model


def digit(kind: str, number: int) -> tuple[torch.Tensor, int]:
    """A drawn digit, (1, height, width), and which it is."""
    digits = Digits(Config(kind=kind, data="drawn", drawn=100)).make("test", np.array([number]))
    return digits["image"][0], int(digits["label"][0])


def drawn_glimpses() -> Figure:
    """A path by hand from a corner to a digit, seen by the retina."""
    image, label = digit("translated", 3)
    y, x = image[0].nonzero().float().mean(0).div(image.shape[-1]).mul(2).sub(1).tolist()
    path = torch.tensor([[-0.7, -0.7], [x / 2 - 0.35, y / 2 - 0.35], [x, y - 0.15], [x, y + 0.15]])
    retina = Retina(12, 2)
    patch = torch.stack([retina(place, image).context for place in path])
    chance = torch.softmax(torch.linspace(0, 5, 4)[:, None] * torch.eye(10)[label], dim=-1)
    return glimpses.figure(image[None], path[None], patch[None], chance[None], [12, 24])


def drawn_rectified() -> Figure:
    """A digit that was turned, read along the grid that turns it back."""
    image, _ = digit("plain", 5)
    lines = torch.linspace(-1, 1, 28)
    y, x = torch.meshgrid(lines, lines, indexing="ij")

    def turned(degrees: float, scale: float) -> torch.Tensor:
        angle = math.radians(degrees)
        turn = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        return scale * torch.stack([x, y], dim=-1) @ turn.T

    read = Bilinear(align_corners=False)
    askew = read(turned(35, 1.5), image).context
    grid = turned(-35, 1 / 1.5)
    return rectified.figure(askew[None], grid[None, None], read(grid, askew).context[None, None])


def drawn_canvas() -> Figure:
    """A digit that is copied, box after box."""
    (image, _), steps = digit("plain", 2), 8
    where = torch.stack(
        [torch.cos(torch.linspace(0, 2 * math.pi, steps)), torch.sin(torch.linspace(0, 6.2, steps))], -1
    )
    shown, boxes, drawn = [], [], torch.zeros_like(image)
    for x, y in (0.35 * where).tolist():
        left, top = round((x + 1) / 2 * 28 - 6), round((y + 1) / 2 * 28 - 6)
        drawn = drawn.clone()
        drawn[:, top : top + 12, left : left + 12] = image[:, top : top + 12, left : left + 12]
        shown.append(drawn)
        boxes.append([left + 5.5, top + 5.5, 12.0, 1.0])
    places = torch.tensor(boxes)[None]
    return canvas.figure(torch.stack(shown)[None], places, places, images=image[None])


def drawn_story() -> Figure:
    """Two hops by hand."""
    lines = STORY.splitlines()
    weights = np.array([[0.04, 0.02, 0.9, 0.02, 0.02], [0.06, 0.02, 0.07, 0.03, 0.82]])
    return hops.figure(lines[:-1], weights, question=lines[-1], prediction="bathroom", support=[2, 4])


def drawn_tape() -> Figure:
    """How a machine copies: written row after row, read row after row."""
    length, rows = 12, 20
    bits = np.random.default_rng(0).integers(0, 2, (length, 8))
    blank = np.zeros_like(bits)
    write, read = np.zeros((2 * length, rows)), np.zeros((2 * length, rows))
    write[np.arange(length), np.arange(length) + 2] = read[length + np.arange(length), np.arange(length) + 2] = 1
    tapes = {"input": np.concatenate([bits, blank]), "output": np.concatenate([blank, bits])}
    return weightings.figure(tapes, {"write": write, "read": read})


def drawn_stack() -> Figure:
    """The counter that aⁿbⁿ needs, by hand: a pushes, b pops, an empty stack ends the word."""
    text = "aaaabbbba"
    push, pop = (np.array([0.98, 0.01, 0.01]), np.array([0.01, 0.98, 0.01]))
    weights = np.stack([[push if symbol == "a" else pop] for symbol in text[:-1]])
    depth = np.cumsum([1 if symbol == "a" else -1 for symbol in text[:-1]])
    tops = np.where(depth > 0, 0.9, -1.0)[:, None]
    determined = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    sure = np.where(determined, 0.99, 0.6)
    trace = stack.Trace(
        list(text[:-1]), list(text[1:]), list("aaaabbba"), sure, determined, weights, tops, ["push", "pop", "none"]
    )
    return stack.figure(trace)


def small_graph() -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    """Two communities, and weights along their edges from features that differ between them."""
    generator = torch.Generator().manual_seed(3)
    kinds = torch.arange(24) % 2
    linked = torch.rand(24, 24, generator=generator) < torch.where(kinds[:, None] == kinds, 0.3, 0.12)
    index = linked.triu(1).nonzero().T
    index = torch.cat([index, index.flip(0)], dim=1)
    features = torch.randn(24, 4, 8, generator=generator) + 1.2 * (2 * kinds[:, None, None] - 1)
    edges = regard.Edges(index, 24, self_loops=True)
    out = regard.attend_edges(features, features, features, edges)
    assert out.weights is not None and out.edges is not None
    return out.weights, out.edges.index, kinds.tolist()


def drawn_graph() -> Figure:
    """Where one node looks."""
    weights, index, kinds = small_graph()
    return graph.ego(weights, index, 5, kinds=kinds, classes=["left", "right"])


def drawn_document() -> Figure:
    """A question looks at a text by the letters that their words share."""
    document_text = (
        "The observatory stands on a hill above the town . It was built in 1889 by a watchmaker , who paid for the "
        "first telescope himself . Visitors may look through the telescope on clear Friday nights ."
    )
    text = document_text.split()
    question = ["who", "built", "the", "observatory", "?"]
    grams = [{f" {word.lower()} "[i : i + 3] for i in range(len(word))} for word in [*question, *text]]
    overlaps = [
        [len(a & b) / math.sqrt(len(a) * len(b)) for b in grams[len(question) :]] for a in grams[: len(question)]
    ]
    chosen = torch.tensor(overlaps)[[1, 3]].sum(0, keepdim=True)
    weights = torch.softmax(4 * chosen, dim=-1)
    return document.figure(text, weights, title=" ".join(question))


def drawn_overlay() -> Figure:
    """Words look at the places of their colour."""
    image = torch.full((3, 96, 96), 0.93)
    y, x = torch.meshgrid(torch.arange(96), torch.arange(96), indexing="ij")
    colours = {"red": (0.84, 0.37, 0.0), "green": (0.0, 0.62, 0.45), "blue": (0.0, 0.45, 0.7)}
    shapes = {
        "red": (x - 28) ** 2 + (y - 30) ** 2 < 300,
        "green": y > 76,
        "blue": (abs(x - 66) < 15) & (abs(y - 48) < 15),
    }
    for name, where in shapes.items():
        image[:, where] = torch.tensor(colours[name])[:, None]
    places = torch.nn.functional.avg_pool2d(image, 8).flatten(1).T  # (144, 3)
    queries = torch.tensor([colours["red"], colours["blue"], colours["green"]])
    weights = torch.softmax(-14 * torch.cdist(queries, places), dim=-1)
    return overlay.figure(image, ["red ball", "blue box", "green grass"], weights, columns=4)


# ---------------------------------------------------------------------------------------------------------------------
# Other people's models


def drawn_strangers() -> Figure:
    """One head of each of eight models of Hugging Face, torch and PyG, as :func:`regard.record` saw it."""
    figure = Figure(figsize=(10, 5.4), layout="constrained")
    for axes, (name, weights) in zip(figure.subplots(2, 4).flat, strangers().items(), strict=True):
        axes.imshow(weights, cmap="Blues", vmin=0, vmax=float(weights.max()), aspect="auto")
        axes.set_title(name, fontsize=11)
        axes.set_xticks([])
        axes.set_yticks([])
    return figure


def strangers() -> dict[str, torch.Tensor]:
    """Name → weights (T, S) of one head, of models with random weights."""
    import transformers
    from torch_geometric.nn import GATConv

    length, generator = 24, torch.Generator().manual_seed(3)
    stack = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    text = {"vocab_size": 99, **stack, "pad_token_id": 0}
    pair = {"vocab_size": 99, "d_model": 64, "decoder_start_token_id": 1, "pad_token_id": 0, "eos_token_id": 2}
    sides = [f"{side}_{setting}" for side in ("encoder", "decoder") for setting in ("layers", "attention_heads")]
    sound = {"num_mel_bins": 8, "max_source_positions": length, **dict.fromkeys(sides, 4), "bos_token_id": 1}
    words = {"input_ids": torch.randint(1, 99, (1, length), generator=generator)}
    text_inputs = words | {"decoder_input_ids": words["input_ids"][:, :10]}
    frames = {"input_features": torch.randn(1, 8, 2 * length, generator=generator)}
    image = {"pixel_values": torch.rand(1, 3, 40, 40, generator=generator)}
    index = torch.randint(length, (2, 60), generator=generator)
    nodes, rows = torch.randn(length, 16, generator=generator), torch.randn(1, length, 64, generator=generator)
    grouped = {**text, "num_key_value_heads": 2}

    models: dict[str, tuple[Callable[[], torch.nn.Module], tuple[torch.Tensor, ...], dict[str, torch.Tensor], str]] = {
        "BERT": (lambda: transformers.BertModel(transformers.BertConfig(**text)), (), words, "*layer.0*"),
        "Llama": (lambda: transformers.LlamaModel(transformers.LlamaConfig(**grouped)), (), words, "*layers.0*"),
        "Mistral, a window of 6": (
            lambda: transformers.MistralModel(transformers.MistralConfig(**grouped, sliding_window=6)),
            *((), words, "*layers.0*"),
        ),
        "T5, target × source": (
            lambda: transformers.T5Model(transformers.T5Config(**pair, d_kv=16, num_layers=2, num_heads=4, d_ff=64)),
            *((), text_inputs, "decoder*EncDecAttention"),
        ),
        "Whisper, words × frames": (
            lambda: transformers.WhisperModel(transformers.WhisperConfig(**pair, **sound)),
            *((), frames | {"decoder_input_ids": text_inputs["decoder_input_ids"]}, "decoder.layers.0.encoder_attn"),
        ),
        "ViT, patches": (
            lambda: transformers.ViTModel(transformers.ViTConfig(**stack, image_size=40, patch_size=8)),
            *((), image, "*layer*.0*"),
        ),
        "nn.Transformer, decoder": (
            lambda: torch.nn.Transformer(64, 4, 1, 1, 64, batch_first=True),
            *((rows, rows[:, :10]), {}, "decoder.layers.0.multihead_attn"),
        ),
        "PyG's GATConv": (lambda: GATConv(16, 8, heads=4), (nodes, index), {}, "*"),
    }
    maps = {}
    for name, (build, inputs, keywords, only) in models.items():
        torch.manual_seed(0)
        model = build().eval()
        for parameter in model.parameters():  # as initialized, attention is nearly even
            if parameter.ndim > 1:
                torch.nn.init.normal_(parameter, std=0.25)
        with torch.no_grad(), regard.record(model, only=only) as tape:
            model(*inputs, **keywords)
        call = tape[tape.names()[0]].calls[0]
        weights = call.weights[..., 0] if call.edges is not None else call.weights[0, 0]
        maps[name] = weights if call.edges is None else matrix(weights, call.edges, length)
    return maps


def matrix(weights: torch.Tensor, edges: torch.Tensor, nodes: int) -> torch.Tensor:
    """Weights of edges, (E,), as targets × sources."""
    return torch.zeros(nodes, nodes).index_put((edges[1], edges[0]), weights, accumulate=True)


# ---------------------------------------------------------------------------------------------------------------------
# With a translator


def drawn_beam() -> Figure:
    """What the search considered."""
    (answers,) = Predictor.open("translate-en-es").predict([COFFEE], nbest=3)
    readings = [alignment.Reading(answer.words, answer.weights, answer.score, answer.text) for answer in answers]
    return beam.figure(readings, answers[0].source_words, title=COFFEE)


def drawn_walk() -> Figure:
    """The slide's numbers."""
    query = torch.ones(64)
    values = torch.tensor([[0.2, 0.6, 0.9], [0.8, 0.1, 0.4]])
    return walkthrough.figure(query, torch.stack([1.75 * query, 1.5 * query]), values, ["Thinking", "Machines"])


PICTURES = (
    Picture(
        "alignment",
        "Alignment",
        "Where each Spanish word looked in the English sentence; the darker, the more (Bahdanau 2015, figure 3).",
        model="translate-en-es-rnn",
        command=(COFFEE,),
    ),
    Picture(
        "beam",
        "Hypotheses of a beam",
        "What the search considered, each with its alignment.",
        drawn_beam,
        source="beam.figure(readings, source_words)",
    ),
    Picture(
        "heads",
        "Layers and heads",
        "Self-attention of a sentence, a small map for each head; below each, over how many words it looks.",
        model="translate-en-es",
        command=(TIRED,),
        options=(("own", True),),
    ),
    Picture(
        "word",
        "One word",
        "What “it” looks at: in one head of the second layer, the animal and what it is (Vaswani 2017, figure 4).",
        model="translate-en-es",
        command=(TIRED,),
        options=(("word", "it"), ("layer", 2)),
    ),
    Picture(
        "walkthrough",
        "The numbers",
        "Query, keys and values, scores, their softmax and the weighted sum: 112 and 96 become 0.88 and 0.12.",
        drawn_walk,
        source="walkthrough.figure(query, keys, values, words)",
    ),
    Picture(
        "positions",
        "Positions",
        "The sinusoids that tell the Transformer where a word stands, and how alike places are.",
        lambda: positions.figure(sinusoids(100, 64)),
        source="positions.figure(encodings)",
    ),
    Picture(
        "hops",
        "Hops over a story",
        "A memory network reads a story as often as it has hops (Sukhbaatar 2015, figure 2).",
        drawn_story,
        model="memn2n-babi",
        command=("story.txt",),
        source="hops.figure(story, weights)",
        note="weights by hand",
    ),
    Picture(
        "weightings",
        "A machine with a tape",
        "What went in and out, what was written and read, and where the heads were (Graves 2014, figure 6).",
        drawn_tape,
        model="ntm-copy",
        command=("10",),
        source="weightings.figure(bits, heads)",
        note="weights by hand",
    ),
    Picture(
        "stack",
        "A stack",
        "What a Stack RNN read, expected and did (Joulin 2015, table 3).",
        drawn_stack,
        model="stack-anbn",
        command=("5",),
        source="stack.figure(trace)",
        note="actions by hand, as the language aⁿbⁿ needs them",
    ),
    Picture(
        "glimpses",
        "Glimpses",
        "The path of glimpses over an image, what was seen there, and what it was taken for (Mnih 2014, figure 4).",
        drawn_glimpses,
        model="ram-mnist",
        command=("0", "2"),
        source="glimpses.figure(image, location, patch, probability, sides)",
        note="a path by hand over a drawn digit",
    ),
    Picture(
        "objects",
        "Object after object",
        "Two digits read in order, three glimpses each: the path, what was seen, what was read (Ba 2015, figure 1).",
        model="dram-two",
        command=("0", "3"),
    ),
    Picture(
        "rectified",
        "A spatial transformer",
        "The image, the grid that reads it, and what comes out (Jaderberg 2015, figure 1).",
        drawn_rectified,
        model="stn-cluttered",
        command=("0", "1", "2"),
        source="rectified.figure(images, grids, crops)",
        note="a drawn digit, turned and turned back",
    ),
    Picture(
        "canvas",
        "Drawing",
        "The canvas over time; where it is read is blue, where it is written orange (Gregor 2015, figure 1).",
        drawn_canvas,
        model="draw-mnist",
        command=("0", "1"),
        source="canvas.figure(canvas, read, write)",
        note="a drawn digit, copied box after box",
    ),
    Picture(
        "graph",
        "A graph",
        "A node among those it attends to; the thicker the line, the larger the weight.",
        drawn_graph,
        model="gat-lookup",
        command=("10",),
        source="graph.ego(weights, edges, node)",
        note="untrained attention over random features of two communities",
    ),
    Picture(
        "document",
        "A document",
        "The words of a text that a question looks at (Hermann 2015, figure 3).",
        drawn_document,
        source="document.figure(words, weights)",
        note="the score is how many letters words share",
    ),
    Picture(
        "overlay",
        "Words over an image",
        "Where each word of a caption looks (Xu 2015, figure 3).",
        drawn_overlay,
        model="caption-scenes",
        options=(("example", 2),),
        source="overlay.figure(image, words, weights)",
        note="the score is how near colours are",
    ),
    Picture(
        "film",
        "Words over a clip",
        "Which frames each word of a caption looks at (Yao 2015, figure 4).",
        model="video-moves",
        options=(("example", 3),),
    ),
    Picture(
        "strangers",
        "Other people's models",
        "One head of each, recorded from the models as they are installed.",
        drawn_strangers,
        source="with regard.record(model) as tape: model(**inputs)",
        note="models of transformers, torch and PyG with random weights",
    ),
)
# ---------------------------------------------------------------------------------------------------------------------


def small(image: Image.Image) -> bytes:
    """A PNG of few colours, which figures need no more of."""
    image = image.convert("RGB")
    if image.width > WIDEST:
        image = image.resize((WIDEST, round(image.height * WIDEST / image.width)), Image.Resampling.LANCZOS)
    data = io.BytesIO()
    image.quantize(128, dither=Image.Dither.NONE).save(data, "PNG", optimize=True)
    return data.getvalue()


def shipped(picture: Picture, scratch: Path) -> tuple[Image.Image, str]:
    """The picture of ``regard show``, and the command."""
    (scratch / "story.txt").write_text(STORY, encoding="utf-8")
    out = scratch / f"{picture.name}.png"
    arguments = [str(scratch / part) if part == "story.txt" else part for part in picture.command]
    for _ in Predictor.open(picture.model).show(arguments, out, **dict(picture.options)):
        pass
    words = "".join(f' "{part}"' if " " in part else f" {part}" for part in picture.command)
    spelled = {"own": "--self", "word": "--word", "layer": "--layer"}
    flags = "".join(
        f" {name}={value}" if name not in spelled else f" {spelled[name]}" + ("" if value is True else f" {value}")
        for name, value in picture.options
    )
    image = Image.open(out)
    return image.resize((image.width // 2, image.height // 2), Image.Resampling.LANCZOS), (
        f"regard show {picture.model}{words}{flags} --out {picture.name}.png"
    )


def by_hand(picture: Picture) -> Image.Image:
    """The figure that is drawn here."""
    assert picture.draw is not None
    data = io.BytesIO()
    picture.draw().savefig(data, format="png", dpi=100)
    return Image.open(data)


def viewer(path: Path, scratch: Path) -> bool:
    """A screenshot of the interactive page, where there is a browser."""
    import shutil

    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        return False
    if browser is None:
        return False
    answer = Predictor.open("translate-en-es").own(TIRED)
    assert answer is not None
    words, weights = answer
    page.write(scratch / "page.html", [heads.view(weights, words, word="it")], TIRED)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page(
            viewport={"width": 1180, "height": 940}
        )
        opened.set_default_timeout(60_000)
        opened.goto((scratch / "page.html").as_uri())
        opened.wait_for_selector("#regard[data-ready]")
        opened.locator(".thumb").nth(4).click()
        opened.mouse.move(5, 5)
        opened.wait_for_timeout(300)
        path.write_bytes(small(Image.open(io.BytesIO(opened.screenshot(full_page=True)))))
    return True


HEAD = """# Gallery

Every kind of picture that `regard` draws, made by `make gallery`: as a file (`.png`, `.svg`, `.pdf`), mostly also as
text in the terminal and as a view of the interactive page (`.html`), which needs no network. [looking.md](looking.md)
tells how to get them from your own model.
"""


def main() -> None:
    """Draw everything and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=DOCS, help="where gallery.md and gallery/ go")
    folder: Path = parser.parse_args().out
    (folder / "gallery").mkdir(parents=True, exist_ok=True)
    parts, total = [HEAD], 0
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        if viewer(folder / "gallery" / "viewer.png", scratch) or (folder / "gallery" / "viewer.png").exists():
            parts.append(
                "## The page\n\n![The interactive page: all heads, the words, the heat map](gallery/viewer.png)\n"
            )
        for picture in PICTURES:
            if picture.model in registry.shipped():
                image, how = shipped(picture, scratch)
                note = f"`{how}`"
            else:
                image = by_hand(picture)
                note = f"`{picture.source}`" + (f" ({picture.note})" if picture.note else "")
            data = small(image)
            (folder / "gallery" / f"{picture.name}.png").write_bytes(data)
            total += len(data)
            parts.append(
                f"## {picture.title}\n\n{picture.text}\n\n![{picture.title}](gallery/{picture.name}.png)\n\n{note}\n"
            )
            print(f"{picture.name:12} {len(data) / 1000:6.0f} kB  {note}")
    written = folder / "gallery.md"
    _, mark, tail = (written if written.exists() else DOCS / "gallery.md").read_text("utf-8").partition(BY_HAND)
    written.write_text("\n".join(parts).rstrip() + f"\n\n{mark}{tail}", encoding="utf-8")
    print(f"{folder / 'gallery.md'}: {total / 1e6:.2f} MB of pictures")


if __name__ == "__main__":
    main()

"""``regard explain``."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.commands._app import Data, Weights, Where, app, examples


@app.command("explain", epilog=examples("explain translate-en-es-rnn --data DIR", "explain memn2n-babi --limit 300"))
def explain_command(
    where: Where,
    split: Annotated[str, typer.Option("--split", help="train, valid or test.")] = "test",
    data: Data = None,
    which: Weights = None,
    limit: Annotated[int, typer.Option("--limit", help="Sentences, questions or nodes to explain.")] = 50,
    seed: Annotated[int, typer.Option("--seed", help="Of the choice of items, and of the random ranking.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure how faithful a system's pictures are. Does what had most weight matter most? Words, sentences or
    neighbours are left out, and the probability of the system's own answer is taken again."""
    import json
    import math

    from regard import explain, runs
    from regard.explain import cases

    if limit < 1:
        raise ValueError(f"--limit is at least 1, not {limit}")
    run = runs.open_run(where, which, data)
    kind = run.task.kind
    loader = run.task.loader(split, seed=seed, shuffle=True)
    means = explain.faithfulness(cases.cases(kind, run.model, loader, limit, seed=seed), seed=seed)
    if as_json:
        numbers = {name: {key: None if math.isnan(x) else x for key, x in row.items()} for name, row in means.items()}
        print(json.dumps(numbers, indent=1))
        return
    counts = means.pop("counted")
    about = f"{counts['answers']:,.0f} answers, {counts['items']:.1f} {cases.items(kind)} each on average"
    print(f"{where}, {split}: {about}\n")
    names = ("kendall", "spearman", "comprehensiveness", "sufficiency")
    print(f"{'ranked by':14}" + "".join(f"{name:>19}" for name in names))
    for ranking, values in means.items():
        print(f"{ranking:14}" + "".join(f"{values[name]:19.3f}" for name in names))
    print("\nkendall, spearman: rank correlation with leave-one-out importance")
    print("comprehensiveness: probability lost without the items ranked highest (higher is more faithful)")
    print("sufficiency: probability lost with these items alone (lower is more faithful)")

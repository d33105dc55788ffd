"""``regard evaluate``."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.commands._app import Data, Ensemble, Int8, Rescore, RescoreWeight, Trust, Weights, Where, app, rescored


@app.command("evaluate")
def evaluate_command(
    where: Where,
    ensemble: Ensemble = None,
    split: Annotated[str, typer.Option("--split", help="train, valid or test.")] = "test",
    data: Data = None,
    which: Weights = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first N sentences or batches.")] = None,
    int8: Int8 = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    rescore: Rescore = None,
    rescore_weight: RescoreWeight = None,
    trust: Trust = False,
) -> None:
    """Measure a system on a split. For text: BLEU, chrF and TER of what it writes, with sacrebleu's signatures."""
    import json

    from regard import runs

    model = rescored(
        runs.load(where, *(ensemble or []), which=which, data=data, trust=trust), rescore, rescore_weight, trust
    )
    if int8:
        model.int8()
    metrics = model.evaluate(split, limit=limit)
    if as_json:
        print(json.dumps({**metrics, "signatures": model.signatures}, indent=1))
        return
    for name, value in metrics.items():
        text = f"{value:,.0f}" if value >= 1000 and value == int(value) else f"{value:.2f}"
        print(f"{name:22} {text:>9}  {model.signatures.get(name, '')}".rstrip())

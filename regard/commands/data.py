"""``regard data``: public data sets."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.commands._app import app

data_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data_app, name="data", help="Public data sets: which there are, and fetching them.")


@data_app.command("list")
def data_list() -> None:
    """Print the known data sets, their licences, and where they lie on this machine."""
    from regard.data.download import SETS, locate

    for name, dataset in SETS.items():
        try:
            place = str(locate(name))
        except ValueError:
            place = "not on this machine"
        print(f"{name}: {dataset.about}\n  {dataset.licence}; {dataset.page}\n  {place}")


@data_app.command("get")
def data_get(name: Annotated[str, typer.Argument(help="A name from `regard data list`.")]) -> None:
    """Download a data set from its public home and check it."""
    from regard.data.download import get

    print(get(name))

"""Commands that say what there is."""

from __future__ import annotations

from typing import Annotated

import typer

from newfound.cli.app import option
from newfound.cli.options import Cache, Json, app
from newfound.cli.printing import print_cache, print_methods, write, write_json
from newfound.errors import UserError


@app.command(example="newfound methods uno")
def methods(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One method, in full.")] = None,
    as_json: Json = False,
) -> None:
    """List the methods there are: whose they are, what they need, their accuracy on record, their recipes."""
    from newfound.config.mapping import setting_names
    from newfound.methods import get_method, method_names, package_of, recorded, said, summary
    from newfound.plan.recipe import load_recipe, recipe_names

    recipes: dict[str, list[str]] = {known: [] for known in ([name] if name else method_names())}
    found = {
        one: {"summary": summary(one), "package": package_of(one), **said(one), "recorded": recorded(one)}
        for one in recipes
    }
    for recipe in recipe_names():
        recipes.get(load_recipe(recipe)["method"], []).append(recipe)
    found = {one: {**about, "recipes": recipes[one]} for one, about in found.items()}
    if name is not None:
        settings = setting_names(get_method(name).Settings)
        found[name]["settings"] = [one for names in settings.values() for one in names if one != "method"]
    if as_json:
        write_json(found)
    else:
        print_methods(found, in_full=name is not None)


@app.command(example="newfound doctor --json")
def doctor(cache: Cache = None, as_json: Json = False) -> None:
    """Say what is installed, which device and cache are used, and what would be chosen: for bug reports."""
    from newfound.data.cache import default_cache
    from newfound.runs.doctor import describe, examine

    found = examine(cache or default_cache())
    write_json(found) if as_json else write(describe(found))


@app.command(example="newfound cache --clear --days 30")
def cache(
    clear: Annotated[bool, option("Clearing", "Remove what is kept; other files stay.", "--clear")] = False,
    days: Annotated[float | None, option("Clearing", "Remove only what is older, in days.", min=0)] = None,
    cache: Cache = None,
    as_json: Json = False,
) -> None:
    """Say what the cache folder holds, or clear it. No run may be going on meanwhile."""
    from newfound.data.cache import default_cache
    from newfound.runs.cache import clear_cache, list_cache

    if days is not None and not clear:
        raise UserError("--days says what to clear: give --clear too")
    place = cache or default_cache()
    print_cache(place, clear_cache(place, days or 0) if clear else list_cache(place), clear, as_json)

"""Every recipe of the package, resolved, is what its snapshot says: a changed default changes no published recipe.

`make snapshots` rewrites the snapshots after a change that is meant.
"""

from pathlib import Path

import pytest
import yaml

from newfound.config.mapping import to_mapping
from newfound.plan.recipe import load_recipe, recipe_names, resolve_settings

FOLDER = Path(__file__).parent / "recipes"


def resolved(name):
    """Every setting of the recipe's method, as plain values."""
    return to_mapping(resolve_settings(load_recipe(name)["method"], name, {}))


def flat(mapping, prefix=""):
    """The values by dotted names, which a failure then shows."""
    values = {}
    for name, value in mapping.items():
        values |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return values


@pytest.mark.parametrize("name", sorted({*recipe_names(), *(path.stem for path in FOLDER.glob("*.yaml"))}))
def test_a_recipe_is_what_its_snapshot_says(name):
    path = FOLDER / f"{name}.yaml"
    how = "if that is meant, `make snapshots` rewrites tests/plan/recipes, for the same commit"
    assert name in recipe_names(), f"the recipe {name} is gone; {how}"
    assert path.exists(), f"the recipe {name} has no snapshot; {how}"
    assert flat(resolved(name)) == flat(yaml.safe_load(path.read_text())), f"the recipe {name} has changed; {how}"


def rewrite():
    for path in FOLDER.glob("*.yaml"):
        path.unlink()
    for name in recipe_names():
        (FOLDER / f"{name}.yaml").write_text(yaml.safe_dump(resolved(name), sort_keys=False))


if __name__ == "__main__":
    rewrite()

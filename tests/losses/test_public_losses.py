"""What newfound.losses offers."""

import ast
from pathlib import Path
from types import ModuleType

import newfound.losses
from newfound.losses import sinkhorn
from newfound.losses.sinkhorn import sinkhorn as the_function


def test_every_public_name_is_the_thing_itself_and_not_the_module_called_alike():
    things = {name: getattr(newfound.losses, name) for name in newfound.losses.__all__}
    assert [name for name, thing in things.items() if isinstance(thing, ModuleType)] == []
    assert sinkhorn is the_function


def test_every_loss_is_public():
    folder = Path(newfound.losses.__file__).parent
    defined = {
        node.name
        for path in folder.glob("[!_]*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    }
    assert defined - set(newfound.losses.__all__) == set()

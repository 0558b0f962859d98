import pytest

from newfound.errors import UserError


@pytest.mark.parametrize(
    ("written", "in_python"),
    [
        ("--novel 0: there has to be at least one category", "n_novel 0: there has to be at least one category"),
        ("--set: stage1.lr is inf", "settings: stage1.lr is inf"),
        ("choose another --out, or --hold-out 0.1", "choose another out, or hold_out 0.1"),
        ("newfound data get cifar10 --to ROOT; or give --data", "newfound data get cifar10 --to ROOT; or give data"),
        ("`newfound resume run --device cpu`, or another --out", "`newfound resume run --device cpu`, or another out"),
        ("pip install --force-reinstall it", "pip install --force-reinstall it"),
        ("the folder a--b is not there", "the folder a--b is not there"),
    ],
)  # fmt: skip
def test_an_error_speaks_of_arguments_in_python_and_of_options_on_the_command_line(written, in_python):
    error = UserError(written)
    assert (str(error), error.command_line) == (in_python, written)

"""All commands. Results go to standard output, progress to standard error; heavy imports happen inside commands."""

from newfound.cli import finding, using, about, data  # isort: skip  # the order of `newfound --help`
from newfound.cli.options import app

__all__ = ["about", "app", "data", "finding", "using"]

"""How good a discovery is, by the true categories, which only this package is given."""

from newfound.evaluate.accuracy import clustering_accuracy, clustering_figures, match
from newfound.evaluate.neighbours import vote
from newfound.evaluate.protocol import (
    evaluate_mixed,
    evaluate_unlabelled,
    paper,
    protocols,
    single,
    strict,
    task_aware,
)

__all__ = [
    "clustering_accuracy",
    "clustering_figures",
    "evaluate_mixed",
    "evaluate_unlabelled",
    "match",
    "paper",
    "protocols",
    "single",
    "strict",
    "task_aware",
    "vote",
]

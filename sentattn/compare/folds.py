"""The runs of the folds of a seed as one run, whose predictions are those of all rows."""

from __future__ import annotations

import hashlib
import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from sentattn.compare.runs import EvaluatedRun, Rows, group_numbers, read_column
from sentattn.config.groups import get_path
from sentattn.config.schema import FOLD, FOLDS
from sentattn.config.targets import needed_trust
from sentattn.errors import Fault, RunError


def join_folds(runs: Sequence[EvaluatedRun], split: str) -> tuple[list[EvaluatedRun], list[Fault]]:
    """Returns runs with those of each setting and seed that were tested on folds as one; of a fold the latest counts.

    A seed that lacks a fold is left out, with an error that has the command that trains it.

    Raises:
        RunError: If none is left.
    """
    joined: list[EvaluatedRun] = []
    faults: list[Fault] = []
    trained: dict[tuple[str, str, int], dict[int, EvaluatedRun]] = defaultdict(dict)
    for run in sorted(runs, key=lambda run: run.path.name):  # the names of directories begin with the time
        if get_path(run.settings, FOLDS) is None:
            joined.append(run)
        else:
            trained[str(run.result["data"]), run.setting, run.seed][int(get_path(run.settings, FOLD) or 0)] = run
    if trained and split != "test":
        message = f"split={split} is not of all rows once: runs with {FOLDS} are left out; type split=test."
        faults.append(Fault("split", "unsupported", message))
        trained.clear()
    for by_fold in trained.values():
        try:
            joined.append(_joined(by_fold, split))
        except RunError as error:
            faults += error.faults
    if not joined:
        raise RunError(*faults)
    return joined, faults


def _joined(by_fold: Mapping[int, EvaluatedRun], split: str) -> EvaluatedRun:
    """Returns the runs of a seed by their folds as one, its rows in the order of their hashes.

    Raises:
        RunError: If a fold is missing, or a row was tested twice.
    """
    last = by_fold[max(by_fold)]
    folds = int(get_path(last.settings, FOLDS))
    if missing := [str(fold) for fold in range(folds) if fold not in by_fold]:
        grid = "-m " * (len(missing) > 1)
        typed = f"{grid}from={shlex.quote(str(last.path))}{needed_trust(last.settings)} {FOLD}={','.join(missing)}"
        message = f"seed {last.seed} of {last.path} has {len(by_fold)} of {folds} folds and is left out; to train the"
        raise RunError(Fault("runs", "missing", f"{message} others: python -m sentattn.train {typed}"))
    runs = [by_fold[fold] for fold in range(folds)]
    fold_N = np.repeat(np.arange(folds), [len(run.rows.labels_N) for run in runs])
    columns = ("row", "row_id", "group")
    row_N, id_N, group_N = (np.concatenate([read_column(run.run, split, name) for run in runs]) for name in columns)
    if len(np.unique(row_N)) < len(row_N):
        message = f"{last.path}: folds of seed {last.seed} have rows in common, as the data has changed; left out."
        raise RunError(Fault("data", "conflict", message))
    order_N = np.lexsort((row_N, id_N))
    labels_N, lengths_N, probabilities_NC = (
        np.concatenate(parts)[order_N]
        for parts in zip(*((run.rows.labels_N, run.rows.lengths_N, run.probabilities_NC) for run in runs), strict=True)
    )
    fingerprint = hashlib.sha256(" ".join(str(run.fingerprint) for run in runs).encode()).hexdigest()[:16]
    return replace(
        last,
        settings={**last.settings, "data": {**last.settings["data"], "fold": None}},
        result={**last.result, "data_fingerprint": fingerprint},
        rows=Rows(tuple(id_N[order_N].tolist()), labels_N, group_numbers(group_N[order_N].tolist()), lengths_N),
        probabilities_NC=probabilities_NC,
        folds=runs,
        fold_N=fold_N[order_N],
    )

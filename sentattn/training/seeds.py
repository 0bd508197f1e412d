"""The runs of one command: each seed, or each fold, is trained, resumed or found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from sentattn import run as runs
from sentattn.config.groups import get_path
from sentattn.config.request import Request
from sentattn.config.schema import AUTO_RESUME, FOLD, Settings
from sentattn.distributed import ranks
from sentattn.errors import Fault, Interruption, TrainingError
from sentattn.training.fit import fit
from sentattn.training.resume import find_finished, find_interrupted, require_encoder


def fit_seeds(request: Request) -> Iterator[runs.Run]:
    """Trains the runs of a request one after another, and yields each when it has ended.

    With `resume=auto` an interrupted run is continued; among several seeds or folds finished runs are not trained
    again. A training that fails, such as one whose loss became NaN, does not prevent the others.

    Raises:
        TrainingError: After the last run, with the errors of all.
    """
    if request.origin is not None:
        require_encoder(runs.Run(request.origin), request.settings)
    if request.resume not in (None, AUTO_RESUME):
        yield fit(request.settings, resume=Path(str(request.resume)))
        return
    faults: list[Fault] = []
    several = request.runs()
    for number, settings in enumerate(several, start=1):
        fold = get_path(settings, FOLD)
        name = f"seed={settings.seed}" if fold is None else f"seed={settings.seed} {FOLD}={fold}"
        if len(several) > 1:
            words = f"Seed {settings.seed}" if fold is None else f"Seed {settings.seed}, fold {fold}"
            print(f"{words}, run {number} of {len(several)}.", flush=True)
        try:
            yield _fit(settings, request)
        except TrainingError as error:
            if len(several) == 1:
                raise
            faults += (replace(fault, message=f"{name}: {fault}") for fault in error.faults)
        except Interruption as interruption:
            if len(several) == 1:
                raise
            advice = "to continue with all runs, type the same command with resume=auto."
            raise Interruption(interruption.number, advice) from None
    if faults:
        raise TrainingError(*faults)


def _fit(settings: Settings, request: Request) -> runs.Run:
    if request.resume is None:
        return fit(settings)
    if len(request.runs()) > 1 and (finished := ranks.broadcast(find_finished(settings))):
        print(f"{finished} is finished.")
        return runs.load(finished)
    # The search locks runs, so that several ranks would find one another's locks.
    interrupted = ranks.broadcast(find_interrupted(settings) if ranks.is_rank_zero() else None)
    print(f"Continuing {interrupted}." if interrupted else "No interrupted run of these settings: a new one begins.")
    return fit(settings, resume=interrupted)

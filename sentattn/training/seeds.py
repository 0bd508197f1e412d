"""The runs of a request: a training for each seed, one after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from sentattn import run
from sentattn.config.request import AUTO, Request
from sentattn.config.schema import Settings
from sentattn.distributed import ranks
from sentattn.errors import Fault, Interruption, TrainingError
from sentattn.training.fit import fit
from sentattn.training.resume import find_finished, find_interrupted, require_encoder


def fit_seeds(request: Request) -> Iterator[run.Run]:
    """Trains the runs of a request one after another, and yields each when it has ended.

    With `resume=auto` an interrupted run of a seed is continued; among several seeds finished runs are not trained
    again. A training that fails, such as one whose loss became NaN, does not prevent those of the other seeds.

    Raises:
        TrainingError: After the last seed, with the errors of all.
    """
    if request.origin is not None:
        require_encoder(run.Run(request.origin), request.settings)
    if request.resume not in (None, AUTO):
        yield fit(request.settings, resume=Path(str(request.resume)))
        return
    faults: list[Fault] = []
    for number, settings in enumerate(request.runs(), start=1):
        if request.seeds > 1:
            print(f"Seed {settings.seed}, run {number} of {request.seeds}.", flush=True)
        try:
            yield _fit(settings, request)
        except TrainingError as error:
            if request.seeds == 1:
                raise
            faults += (replace(fault, message=f"seed={settings.seed}: {fault}") for fault in error.faults)
        except Interruption as interruption:
            if request.seeds == 1:
                raise
            advice = "to continue with all seeds, type the same command with resume=auto."
            raise Interruption(interruption.number, advice) from None
    if faults:
        raise TrainingError(*faults)


def _fit(settings: Settings, request: Request) -> run.Run:
    if request.resume is None:
        return fit(settings)
    if request.seeds > 1 and (finished := ranks.from_rank_zero(find_finished(settings))):
        print(f"{finished} is finished.")
        return run.load(finished)
    # The search locks runs, so that several ranks would find one another's locks.
    interrupted = ranks.from_rank_zero(find_interrupted(settings) if ranks.is_rank_zero() else None)
    print(f"Continuing {interrupted}." if interrupted else "No interrupted run of these settings: a new one begins.")
    return fit(settings, resume=interrupted)

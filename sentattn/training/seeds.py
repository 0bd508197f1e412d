"""Several runs of one setting, a seed each, and their metrics together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from sentattn.config.request import AUTO, Request
from sentattn.distributed import ranks
from sentattn.errors import Fault, Interruption, TrainingError
from sentattn.run import Run, load
from sentattn.training.resume import find_finished, find_interrupted


class Train(Protocol):
    """Trains with resolved settings, or continues an interrupted run with them."""

    def __call__(self, settings: Mapping[str, Any], *, resume: Path | None) -> Run: ...


def train_all(
    request: Request, train: Train, report: Callable[[Sequence[Run]], object] = lambda runs: None
) -> list[Run]:
    """Trains every run of a request, and reports the finished ones together, also where others failed.

    With `resume=auto` an interrupted run of a seed is continued; among several seeds finished runs are not trained
    again. A training that fails, such as one whose loss became NaN, does not keep the other seeds from theirs.

    Raises:
        TrainingError: After the last seed, with the errors of all.
    """
    runs: list[Run] = []
    if request.resume not in (None, AUTO):
        runs.append(train(request.settings, resume=Path(str(request.resume))))
        report(runs)
        return runs
    faults: list[Fault] = []
    for number, settings in enumerate(request.runs(), start=1):
        if request.seeds > 1:
            print(f"Seed {settings['seed']}, run {number} of {request.seeds}.", flush=True)
        try:
            runs.append(_train(settings, request, train))
        except TrainingError as error:
            if request.seeds == 1:
                raise
            faults += (Fault(one.key, one.kind, f"seed={settings['seed']}: {one.message}") for one in error.faults)
        except Interruption as interruption:
            if request.seeds == 1:
                raise
            advice = "to continue with all seeds, type the same command with resume=auto."
            raise Interruption(interruption.number, advice) from None
    report(runs)
    if faults:
        raise TrainingError(*faults)
    return runs


def _train(settings: Mapping[str, Any], request: Request, train: Train) -> Run:
    if request.resume is None:
        return train(settings, resume=None)
    if request.seeds > 1 and (finished := ranks.from_rank_zero(find_finished(settings))):
        print(f"{finished} is finished.")
        return load(finished)
    # The search locks runs, so that several ranks would find one another's locks.
    interrupted = ranks.from_rank_zero(find_interrupted(settings) if ranks.is_rank_zero() else None)
    print(f"Continuing {interrupted}." if interrupted else "No interrupted run of these settings: a new one begins.")
    return train(settings, resume=interrupted)

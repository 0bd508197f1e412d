"""The run directories below the folders of a comparison, and those that confirm the best setting of a study."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from sentattn.errors import Fault
from sentattn.run import CONFIG, CONFIRMED, METRICS, RESULT, TRIALS


def run_folders(path: Path, faults: list[Fault], trials: dict[Path, int]) -> Iterator[Path]:
    """Yields the run directories below a folder, without descending into runs, and those that confirm its studies.

    Args:
        path: The folder.
        faults: Errors are added here.
        trials: The number of trials behind each confirming run is added here.
    """
    if not path.is_dir():
        faults.append(Fault("runs", "not_found", f"{path} is no folder; it is left out."))
        return
    count = 0
    for folder, subfolders, files in os.walk(path):
        subfolders.sort()
        if CONFIG in files:
            subfolders.clear()
            count += 1
            yield Path(folder)
        elif RESULT in files or METRICS in files:  # the folder of its model may have a config.yaml of its own
            subfolders.clear()
            count += 1
            faults.append(Fault("runs", "missing", f"{folder} has no {CONFIG}; it is left out."))
        elif CONFIRMED in files:
            trials |= (confirming := confirming_runs(Path(folder)))
            count += len(confirming)
            yield from confirming
    if not count:
        faults.append(Fault("runs", "not_found", f"{path} holds no run; it is left out."))


def confirming_runs(study: Path) -> dict[Path, int]:
    """Returns the runs that confirm a study's best setting, each with the number of the study's trials.

    Args:
        study: The folder of a study; an unreadable study has no runs.
    """
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    try:
        paths = [Path(path) for path in json.loads((study / CONFIRMED).read_bytes())["runs"]]
        trials = int(pq.read_metadata(study / TRIALS).num_rows)
    except (OSError, ValueError, KeyError, TypeError, ArrowException):
        return {}
    return {path.resolve(): trials for path in paths if path.is_dir()}

"""Studies among the folders of a comparison: the runs that confirm a best setting, and the trials that found it."""

from __future__ import annotations

import json
from pathlib import Path

from sentattn.run import CONFIRMED, TRIALS


def confirming_runs(study: Path) -> dict[Path, int]:
    """Returns the runs that confirm a study's best setting, each with the number of the study's trials.

    Args:
        study: The folder of a study; none that can be read gives no runs.
    """
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    try:
        paths = [Path(path) for path in json.loads((study / CONFIRMED).read_bytes())["runs"]]
        trials = int(pq.read_metadata(study / TRIALS).num_rows)
    except (OSError, ValueError, KeyError, TypeError, ArrowException):
        return {}
    return {path.resolve(): trials for path in paths if path.is_dir()}

"""A sweep of small trainings whose PostgreSQL is stopped at random moments: `python tests/sweep/outages.py 10 20`.

The arguments are the number of outages and the seconds of each. The last outage comes after the last trial, when the
report is written or the best setting confirmed.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from postgres_server import PostgresServer
from studies import complete

from sentattn.sweep.study.records import read

STUDY, TRIALS_PER_OUTAGE = "outages", 2
ARGUMENTS = ["model=mean", "data=demo", "optimizer.lr=tag(log,interval(1e-3,1e-1))", "trainer.max_epochs=2"]


def run(folder: Path, server: PostgresServer, database: str, outages: int, seconds: float) -> tuple[Counter[str], str]:
    """Runs the sweep to its end; returns its trials by state, and what it has printed.

    Raises:
        AssertionError: If the sweep did not survive.
    """
    by_chance = random.Random(outages)
    trials = TRIALS_PER_OUTAGE * outages
    own = [f"study={STUDY}", f"storage={database}", f"output_dir={folder}", f"trials={trials}", "heartbeat=5"]
    command = [sys.executable, "-m", "sentattn.sweep", *ARGUMENTS, *own, "slots=2", "confirm=2", "pruner=none"]
    study, log = folder / "sweeps" / STUDY, folder / "log.txt"
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env={**os.environ, "NO_COLOR": "1"})
    try:
        for outage in range(1, outages + 1):
            while len(complete(study, database)) < TRIALS_PER_OUTAGE * outage - (outage < outages):
                assert process.poll() is None, log.read_text()
                time.sleep(0.2)
            time.sleep(by_chance.uniform(0, 5))
            server.stop()
            time.sleep(seconds)
            server.start()
        code = process.wait(1800)
    finally:
        process.kill()
    printed = log.read_text()
    states = Counter(record.state for record in read(study, database))
    assert code == 0, printed
    assert "Traceback" not in printed, printed
    assert states["complete"] == trials, states
    assert all((study / name).is_file() for name in ("best.yaml", "trials.parquet", "report.html", "confirm.json"))
    return states, printed


def main(outages: int, seconds: float) -> None:
    """Prints what happened."""
    with TemporaryDirectory() as folder, PostgresServer() as server:
        states, printed = run(Path(folder), server, server.create("outages"), outages, seconds)
    print(printed)
    print(f"{outages} outages of {seconds:g} s: {dict(states)}, noticed {printed.count('does not answer')} times")


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))

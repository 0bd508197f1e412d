"""Measures seconds and peak memory of reading, tokenizing and storing Yelp's reviews, each file in a fresh process.

A file of JSON lines can be read as several concatenated copies, to see whether both grow with the rows. The peak is the
resident memory of the whole process, with files mapped into memory, which the system takes back where it is short; the
peak of its own memory, sampled every thousand rows, and the memory of the imports are printed separately.
On a busy machine, compare processor seconds, which are those of all threads together.

usage: python benchmarks/reading.py [copies=1,10] FILE [FILE ...]

Example:
  python benchmarks/reading.py copies=1,10 yelp_academic_dataset_review.json
"""

from __future__ import annotations

import json
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MEGABYTE = 10**6
MEASURE = "--measure"


def main(arguments: list[str]) -> None:
    """Prints a line for each file and number of copies."""
    copies = [1]
    if arguments[0].startswith("copies="):
        copies = [int(number) for number in arguments.pop(0).partition("=")[2].split(",")]
    for name in arguments:
        for number in copies:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(name) if number == 1 else _concatenate(Path(name), number, Path(folder))
                done = subprocess.run(
                    [sys.executable, __file__, MEASURE, str(file), folder], check=True, capture_output=True, text=True
                )
                metrics = json.loads(done.stdout.splitlines()[-1])
            rows, seconds = metrics["rows"], metrics["seconds"]
            stages = ", ".join(f"{stage.lower()} {taken:.0f}" for stage, taken in metrics["stages"].items())
            print(f"{name} x {number}, data {metrics['fingerprint']}")
            print(
                f"  {rows:,} rows   {seconds:.0f} s ({stages})   processor {metrics['processor']:.0f} s   "
                f"peak {metrics['peak'] / MEGABYTE:.0f} MB, of its own {metrics['own'] / MEGABYTE:.0f} MB; "
                f"after the imports {metrics['imports'] / MEGABYTE:.0f} and {metrics['own_imports'] / MEGABYTE:.0f} MB"
            )


def _concatenate(file: Path, copies: int, folder: Path) -> Path:
    """Writes several copies of a file of JSON lines into one file."""
    target = folder / "copies.json"
    with target.open("wb") as joined:
        for _ in range(copies):
            with file.open("rb") as lines:
                shutil.copyfileobj(lines, joined, MEGABYTE)
    return target


def measure(path: str, cache: str) -> dict[str, object]:
    """Returns rows, seconds, seconds by stage and peak bytes of reading a file in this process."""
    from sentattn.data.datasets.yelp import Yelp

    imports, stages, busy, started = _peak(), dict[str, float](), time.process_time(), time.perf_counter()
    last, own = started, [_own()]

    def add_time(stage: str, done: int, total: int | None) -> None:
        nonlocal last
        own.append(_own())
        now = time.perf_counter()
        stages[stage] = stages.get(stage, 0.0) + now - last
        last = now

    data = Yelp(path=path, cache_dir=cache)
    data.prepare(add_time)
    ended = time.perf_counter()
    return {
        "rows": sum(len(data.split(split)) for split in ("train", "val", "test")),
        "seconds": ended - started,
        "processor": time.process_time() - busy,
        "stages": stages | {"splits": ended - last},
        "peak": _peak(),
        "imports": imports,
        "own": max(*own, _own()),
        "own_imports": own[0],
        "fingerprint": data.fingerprint,
    }


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _own() -> int:
    """Returns the resident bytes of this process that belong to no file."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None, "Linux"
    return int(found[1]) * 1024


if __name__ == "__main__":
    if sys.argv[1:2] == [MEASURE]:
        print(json.dumps(measure(*sys.argv[2:])))
    elif len(sys.argv) > 1:
        main(sys.argv[1:])
    else:
        print((__doc__ or "").strip())

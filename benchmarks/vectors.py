"""Measures time and peak memory of reading a vocabulary's vectors from files of growing size, and of `torchtext` alone.

Each value is from a fresh process: the resident memory that reading adds, and processor seconds. A second start has the
vectors in the cache. The vocabulary is the same for all files; `torchtext` alone keeps every row.

usage: python benchmarks/vectors.py [words of the file ...]
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import numpy as np

from sentattn.data.word_vectors import read_vectors

WIDTH, VOCABULARY = 300, 10_000
SIZES = (40_000, 400_000)
MEBIBYTE = 2**20


def write(path: Path, words: int) -> None:
    """Writes vectors of the words w0, w1, ... in GloVe's format."""
    random = np.random.default_rng(0)
    rows = [" ".join(f"{number:.5g}" for number in row) for row in random.normal(size=(100, WIDTH))]
    with path.open("w") as file:
        file.writelines(f"w{i} {rows[i % len(rows)]}\n" for i in range(words))


def ours(path: Path, cache: Path) -> None:
    """Reads the vectors of the vocabulary, whose words are spread evenly over the smallest file."""
    words = [f"w{i}" for i in range(0, min(SIZES), min(SIZES) // VOCABULARY)]
    read_vectors(str(path), words, cache=cache, mirror=None, progress=lambda stage, done, total: None)


def plain(path: Path, cache: Path) -> None:
    """Reads the file with `torchtext` alone."""
    import torchtext.vocab

    with redirect_stderr(StringIO()):
        torchtext.vocab.Vectors(str(path), cache=str(cache))


def measure(read: Callable[[Path, Path], None], path: Path, cache: Path) -> tuple[float, float]:
    """Returns MiB and seconds of reading a file."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    read(path, cache)
    seconds = time.process_time() - started
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, seconds


def main(sizes: list[int]) -> None:
    """Prints a line for each file and way of reading."""
    spawn = multiprocessing.get_context("spawn")
    print(f"{'words':>9} {'file, MiB':>10}  {'':<18} {'added, MiB':>10} {'seconds':>8}")
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "vectors.txt"
            write(path, size)
            ways = (("sentattn", ours), ("sentattn, again", ours), ("torchtext alone", plain))
            for label, read in ways:
                with spawn.Pool(1) as pool:
                    added, seconds = pool.apply(measure, (read, path, Path(folder)))
                megabytes = path.stat().st_size / MEBIBYTE
                print(f"{size:>9,} {megabytes:>10.0f}  {label:<18} {added:>10.0f} {seconds:>8.1f}", flush=True)


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or list(SIZES))

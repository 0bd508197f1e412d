"""Text to ids with vocabulary and files: IMDB's reviews, against spaCy's English tokenizer.

Each measurement is a fresh process with all texts in memory. Both write what a training needs: the ids of every text
under the 30,000 most frequent lowercase words, offsets and vocabulary. Ours also hashes and stores the texts, selects
validation rows and finds repeated texts. spaCy runs in one process, in two by its own `n_process`, and in two that are
given half of the texts each and return arrays, with its own cache and with a larger one. Last comes our whole first
start with the archive read, whose peak memory is that of `data=imdb`.

usage: python benchmarks/tokenizing.py ARCHIVE [rounds=3] [rows=50000]
"""

from __future__ import annotations

import json
import os
import re
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing import Pool
from pathlib import Path

import numpy as np
from measure import fresh_process, interleave, report

from sentattn.data.datasets.imdb import Imdb, ImdbSource
from sentattn.data.tokenizer import LINE_BREAK

SPACY = (
    "spacy",
    "spacy, cache of 200,000",
    "spacy, n_process=2",
    "spacy, two halves",
    "spacy, two halves, cache of 200,000",
)
FORMS = (*SPACY, "sentattn", "sentattn, archive")
WORDS, CACHE = 30_000, 200_000


class Held(ImdbSource):
    """Rows that are already in memory."""

    def hold(self, rows: int) -> list[str]:
        self._held = {split: list(super(Held, self).read(split))[: rows // 2] for split in self.splits}
        return [row.text for split in self.splits for row in self._held[split]]

    def read(self, split: str) -> Iterator:
        yield from self._held[split]


def main(archive: str, rounds: str = "3", rows: str = "50000") -> None:
    """Prints the peaks of memory and the table."""
    peaks: dict[str, float] = {}

    def run(form: str) -> float:
        done = fresh_process(__file__, ["--measure", form, archive, rows])
        peaks[form] = done["peak"]
        return float(done["seconds"])

    readings = interleave({form: lambda form=form: run(form) for form in FORMS}, rounds=int(rounds), warm_up=0)
    print({form: f"peak {peak:,.0f} MB" for form, peak in peaks.items()})
    title = f"Text to ids, {int(rows):,} reviews, vocabulary and files written"
    report(title, readings, baseline="spacy, two halves", goal="3 times the best of spaCy", unit="s", scale=1)


def measure(form: str, archive: str, rows: int, folder: str) -> float:
    """Returns the seconds of a form; writes into a folder."""
    source = Held(archive)
    texts = [] if "archive" in form else source.hold(rows)
    if "spacy" in form:
        import spacy

        spacy.blank("en")("a warm-up")
    started = time.perf_counter()
    if "spacy" in form:
        with_spacy(form, texts, Path(folder))
    else:
        data = Imdb(path=archive, cache_dir=folder)
        if texts:
            data.source = lambda progress: source
        data.prepare()
    return time.perf_counter() - started


def with_spacy(form: str, texts: list[str], folder: Path) -> None:
    """Tokenizes, counts, and writes ids, offsets and words."""
    cache = CACHE if "cache" in form else 0
    if "halves" in form:
        with Pool(2) as pool:
            halves = pool.starmap(
                hashes, [(half, 1, cache) for half in (texts[: len(texts) // 2], texts[len(texts) // 2 :])]
            )
        parts, strings = [part for half, _ in halves for part in half], halves[0][1] | halves[1][1]
    else:
        parts, strings = hashes(texts, processes=2 if "n_process" in form else 1, cache=cache)
    types, tokens, counts = np.unique(np.concatenate(parts), return_inverse=True, return_counts=True)
    kept = np.argsort(-counts, kind="stable")[:WORDS]
    ids = np.ones(len(types), dtype=np.int32)
    ids[kept] = np.arange(2, len(kept) + 2)
    np.save(folder / "ids.npy", ids[tokens])
    np.save(folder / "offsets.npy", np.cumsum([0, *map(len, parts)]))
    (folder / "words.json").write_text(json.dumps([strings[number] for number in types[kept].tolist()]))


def hashes(texts: list[str], processes: int = 1, cache: int = 0) -> tuple[list[np.ndarray], dict[int, str]]:
    """Returns spaCy's numbers of the lowercase words of each text, and the words by number."""
    import spacy
    from spacy.attrs import LOWER

    nlp = spacy.blank("en")
    if cache:
        nlp.tokenizer.max_cache_size = cache
    spaced = (re.sub(LINE_BREAK, " ", text) for text in texts)
    docs = nlp.pipe(spaced, n_process=processes, batch_size=1000) if processes > 1 else nlp.tokenizer.pipe(spaced)
    parts = [doc.to_array(LOWER) for doc in docs]
    return parts, {number: nlp.vocab.strings[number] for number in np.unique(np.concatenate(parts)).tolist()}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        _, _, form, archive, rows = sys.argv
        with tempfile.TemporaryDirectory() as folder:
            seconds = measure(form, archive, int(rows), folder)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
        print(json.dumps({"seconds": seconds, "peak": peak}))
    elif len(sys.argv) > 1:
        archive, *options = sys.argv[1:]
        main(archive, **dict(option.split("=") for option in options))
    else:
        print((__doc__ or "").strip(), file=sys.stderr)
        sys.exit(os.EX_USAGE)

"""`AttentionClassifier.fit` against `python -m sentattn.train` on the same rows, in one process with both loaded.

The rows are IMDB's training reviews, in memory for `fit` and a parquet file for the command. Both tokenize them anew in
each round, train one epoch and write a run.

usage: python benchmarks/sklearn_fit.py ARCHIVE [rows=5000] [rounds=5] [model=mean]
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from measure import interleave, report

from sentattn import train
from sentattn.data.datasets.imdb import ImdbSource
from sentattn.sklearn import AttentionClassifier


def main(archive: str, rows: str = "5000", rounds: str = "5", model: str = "mean") -> None:
    """Prints the table."""
    all_rows = list(ImdbSource(archive).read("train"))
    chosen = all_rows[:: len(all_rows) // int(rows)][: int(rows)]
    texts, labels = [row.text for row in chosen], [row.label for row in chosen]

    def command() -> None:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            settings = [f"model={model}", "trainer.max_epochs=1", "logger=none", f"output_dir={folder}", "data=table"]
            settings += [f"data.train={table}", f"data.cache_dir={folder}/cache", "data.test_size=0", "test=false"]
            assert not train.main(settings)

    with tempfile.TemporaryDirectory() as place:
        table = Path(place, "rows.parquet")
        pq.write_table(pa.table({"text": texts, "label": labels}), table)
        forms = {"train": command, "fit": lambda: AttentionClassifier(model, max_epochs=1).fit(texts, labels)}
        readings = interleave(forms, rounds=int(rounds), warm_up=1)
    title = f"AttentionClassifier against the command, {len(texts):,} reviews, model={model}, one epoch"
    report(title, readings, baseline="train", goal="0.91 or more", unit="s", scale=1.0)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        file, *options = sys.argv[1:]
        main(file, **dict(option.split("=") for option in options))
    else:
        print((__doc__ or "").strip(), file=sys.stderr)
        sys.exit(os.EX_USAGE)

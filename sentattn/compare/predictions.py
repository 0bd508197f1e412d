"""Predictions as a table with a line for each text, setting and seed: those of other tools, and those of runs.

Columns: `setting`; `seed`, empty or absent where a setting is a single model that was not trained by seed; `row` or
`row_id`, the number or the name of a text; `label`; `predicted` or the probability of each class as `p_CLASS`; and if
there are any `data`, `group` and `score`, a number for each line.

Shapes: T lines, R runs, which are the settings with their seeds, N texts, C classes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

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


class Column(NamedTuple):
    """A column of texts: the different ones in the order of the table, and the number of that of each line, (T,)."""

    names: Sequence[str]
    number_T: Ints


@dataclass(frozen=True)
class Lines:
    """Lines of a table: its columns of texts, and its columns of numbers, (T,), NaN where there is none."""

    path: Path
    texts: Mapping[str, Column]
    numbers: Mapping[str, Floats]

    def of_data(self, number: int) -> Lines:
        """Returns the lines of a data set, without the columns of numbers that it has none of."""
        chosen_T = self.texts["data"].number_T == number
        texts = {}
        for name, (names, number_T) in self.texts.items():
            kept, new_T = np.unique(number_T[chosen_T], return_inverse=True)
            texts[name] = Column([names[i] for i in kept], new_T.astype(np.int64))
        numbers = {name: values_T[chosen_T] for name, values_T in self.numbers.items()}
        return Lines(self.path, texts, {name: x_T for name, x_T in numbers.items() if not np.isnan(x_T).all()})

    @property
    def predicted(self) -> Column:
        """The predicted classes, "" where there is none."""
        return self.texts.get("predicted", Column([""], np.zeros_like(self.texts["label"].number_T)))

    @property
    def row(self) -> str:
        """The column that names a text."""
        return "row_id" if "row_id" in self.texts else "row"

    def refuse(
        self, key: str, message: str, wrong_N: NDArray[np.bool_], ids: Iterable[str], kind: str = "conflict"
    ) -> None:
        """Raises a `DataError` with the names of the first texts that are wrong, if any is."""
        if wrong_N.any():
            names = [name for name, is_wrong in zip(ids, wrong_N, strict=True) if is_wrong]
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
        message = (
            f"table={wrong[0]} must be a file with one of these endings: {', '.join(ENDINGS)}. Type FOLDER/*.csv for "
        )
        message += "the files of a folder, and save another format as CSV, such as by pandas with to_csv(index=False)."
        raise DataError(Fault("table", "unsupported", message))
    if any(each.folds for each in comparisons):
        raise DataError(
            Fault("table", "unsupported", f"table= has no folds, as the runs of {FOLDS} have; leave it out.")
        )
    lines = _read(table_paths(sources, "table"))
    by_data = {lines.path.stem: lines}
    if "data" in lines.texts:
        by_data = {name: lines.of_data(number) for number, name in enumerate(lines.texts["data"].names)}
    found = list(comparisons)
    for data, of_data in by_data.items():
        named = [each for each in comparisons if "data" not in lines.texts or each.data == data]
        same = [each for each in named if set(_row_names(each, of_data.row)) == set(of_data.texts[of_data.row].names)]
        if same:
            found[found.index(same[0])] = replace(same[0], runs=[*same[0].runs, *_runs(of_data, data, same[0])])
        elif named:
            both = set(_row_names(named[0], of_data.row)).symmetric_difference(of_data.texts[of_data.row].names)
            message = f"its texts are not those of the runs of {named[0].data}"
            of_data.refuse("table", message, np.full(len(both), True), sorted(both))
        else:
            found.append(Comparison(_runs(of_data, data, None), split))
    return found


def _row_names(comparison: Comparison, column: str) -> Sequence[str]:
    """Returns the names of the rows of a comparison in `row` or `row_id`; those of a table have one kind of names."""
    if column == "row_id" or comparison.runs[0].is_of_table:
        return comparison.rows.row_ids
    return list(map(str, read_column(comparison.runs[0].run, comparison.split, "row")))


def _read(paths: Sequence[Path]) -> Lines:
    """Reads files as one table, with empty texts and NaN where a value is missing, and checks its columns."""
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
    filled = {name: pc.fill_null(joined[name], "" if name in TEXTS else float("nan")) for name in joined.column_names}
    table = pa.table(filled)
    if faults := list(_faults(paths[0], table)):
        raise DataError(*faults)
    texts = {}
    for name in TEXTS:
        if name in table.column_names:
            encoded = table[name].combine_chunks().dictionary_encode()
            names = [unicodedata.normalize("NFC", text) for text in encoded.dictionary.to_pylist()]
            texts[name] = Column(names, encoded.indices.to_numpy().astype(np.int64))
    numbers = {name: table[name].to_numpy() for name in table.column_names if name not in TEXTS}
    return Lines(paths[0], texts, numbers)


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
    numbered = [name for name in names if name in NUMBERED]
    return pa.table(columns | {name: pc.replace_substring_regex(columns[name], *WHOLE) for name in numbered})


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
    ids, row_T = lines.texts[lines.row]
    if known is not None:
        places = {name: place for place, name in enumerate(_row_names(known, lines.row))}
        ids, row_T = list(places), np.array([places[name] for name in ids])[row_T]
    line_RN, runs = _lines_of_runs(lines, ids, row_T)
    labels, numbers = _labels(lines, known)
    label_RN = numbers[lines.texts["label"].number_T][line_RN]
    first_N = label_RN[0] if known is None else known.rows.labels_N
    message = "the label differs between settings" if known is None else f"the label is not that of {data}"
    lines.refuse("label", message, (label_RN != first_N).any(axis=0), ids)
    rows = (
        Rows(tuple(ids), first_N, _groups(lines, line_RN, ids), np.empty(0, np.int64)) if known is None else known.rows
    )
    probabilities_TC, has_probabilities_T = _probabilities(lines, labels, line_RN, ids)
    score_T = lines.numbers.get(SCORE)
    found = []
    for line_N, (setting, seed) in zip(line_RN, runs, strict=True):
        result = {"data": data, "deterministic": seed is None, "metrics": {}}
        found.append(
            EvaluatedRun(
                Run(lines.path),
                {"model": {"name": setting}},
                result,
                f"{lines.path}: {setting}",
                seed or 0,
                rows,
                probabilities_TC[line_N],
                labels=labels,
                score_N=None if score_T is None else score_T[line_N],
                has_probabilities=bool(has_probabilities_T[line_N[0]]),
                is_of_table=True,
            )
        )
    return found


def _lines_of_runs(lines: Lines, ids: Sequence[str], row_T: Ints) -> tuple[Ints, list[tuple[str, int | None]]]:
    """Returns the line of each run and text, (R, N), and the setting and seed of each run."""
    settings, setting_T = lines.texts["setting"]
    seeds, seed_T = lines.texts.get("seed", Column([""], np.zeros_like(setting_T)))
    pair_P, run_T = np.unique(setting_T * len(seeds) + seed_T, return_inverse=True)
    runs = [(settings[pair // len(seeds)], seeds[pair % len(seeds)]) for pair in pair_P]
    if wrong := sorted({seed for _, seed in runs if seed and not seed.isdecimal()}):
        raise DataError(Fault("seed", "type", f"table={lines.path}: seed takes whole numbers, got {wrong[0]}."))
    counts_RN = np.bincount(run_T * len(ids) + row_T, minlength=len(runs) * len(ids)).reshape(len(runs), len(ids))
    for (setting, seed), counts_N in zip(runs, counts_RN, strict=True):
        name = f"setting {setting}" + (f", seed {seed}" if seed else "")
        lines.refuse("row", f"{name} has several lines of a text", counts_N > 1, ids)
        lines.refuse("row", f"{name} lacks texts", counts_N == 0, ids)
    line_RN = np.argsort(run_T * len(ids) + row_T, kind="stable").reshape(len(runs), len(ids))
    return line_RN, [(setting, int(seed) if seed else None) for setting, seed in runs]


def _labels(lines: Lines, known: Comparison | None) -> tuple[Sequence[str], Ints]:
    """Returns the names of the classes, and the class of each of the labels of the table."""
    of_table, predicted = lines.texts["label"].names, lines.predicted.names
    given = [name.removeprefix(PROBABILITY) for name in filter(_is_probability, lines.numbers)]
    if known is not None:
        labels = known.labels
    else:
        labels = given or sorted({*of_table, *predicted} - {""})
        if all(name.isdecimal() for name in labels):
            labels = sorted(labels, key=int)
    if unknown := sorted({*of_table, *predicted, *given}.difference(labels, [""])):
        message = f"table={lines.path}: no class {', '.join(unknown[:SHOWN])}; there are {', '.join(labels)}."
        raise DataError(Fault("label", "unknown", message))
    return labels, np.array([labels.index(name) for name in of_table])


def _groups(lines: Lines, line_RN: Ints, ids: Sequence[str]) -> Ints | None:
    """Returns the number of each text's group; None where there are none."""
    if "group" not in lines.texts:
        return None
    names, group_T = lines.texts["group"]
    group_RN = group_T[line_RN]
    lines.refuse("group", "the group differs between settings", (group_RN != group_RN[0]).any(axis=0), ids)
    return group_numbers([names[group] for group in group_RN[0]])


def _probabilities(
    lines: Lines, labels: Sequence[str], line_RN: Ints, ids: Sequence[str]
) -> tuple[Floats, NDArray[np.bool_]]:
    """Returns the probability of each class, (T, C), and whether a line's setting has them; else the predicted has 1.

    A setting has probabilities where one of its lines has any.
    """
    ids_T = np.empty(line_RN.size, dtype=object)
    ids_T[line_RN] = ids
    if SCORE in lines.numbers:
        lines.refuse(SCORE, "score is no number", ~np.isfinite(lines.numbers[SCORE]), ids_T, "missing")
    missing = [PROBABILITY + name for name in labels if PROBABILITY + name not in lines.numbers]
    if 0 < len(missing) < len(labels):
        message = f"table={lines.path} has no column {', '.join(missing)}, the probability of a class."
        raise DataError(Fault(missing[0], "missing", message))
    none_T = np.full(line_RN.size, np.nan)
    p_TC = np.stack([lines.numbers.get(PROBABILITY + name, none_T) for name in labels], axis=1)
    setting_T = lines.texts["setting"].number_T
    has_T = (np.bincount(setting_T, ~np.isnan(p_TC).all(axis=1)) > 0)[setting_T]
    is_legal_T = (p_TC >= 0).all(axis=1) & (np.abs(p_TC.sum(axis=1) - 1) < SUM_TOLERANCE)
    message = "probabilities are numbers from 0 on whose sum is 1"
    lines.refuse(PROBABILITY, message, has_T & ~is_legal_T, ids_T, "range")
    predicted, predicted_T = lines.predicted
    chosen_T = np.array([labels.index(name) if name else -1 for name in predicted])[predicted_T]
    message = "neither predicted nor probabilities of each class"
    lines.refuse("predicted", message, ~has_T & (chosen_T < 0), ids_T, "missing")
    message = "predicted is not the class with the highest probability"
    lines.refuse("predicted", message, has_T & (chosen_T >= 0) & (p_TC.argmax(axis=1) != chosen_T), ids_T)
    _require_labels(lines, has_T)
    return np.where(has_T[:, None], p_TC, np.eye(len(labels))[chosen_T]), has_T


def _require_labels(lines: Lines, has_probabilities_T: NDArray[np.bool_]) -> None:
    """Refuses a setting that predicts no class among the labels, which has names of its own for them.

    Of one label, such as 1 for a right answer, a setting may predict none.
    """
    (settings, setting_T), (predicted, predicted_T) = lines.texts["setting"], lines.predicted
    labels = lines.texts["label"].names
    is_label_T = has_probabilities_T | np.isin(predicted, labels)[predicted_T]
    for number in np.flatnonzero(np.bincount(setting_T, is_label_T) == 0) if len(labels) > 1 else ():
        found = [predicted[place] for place in np.unique(predicted_T[setting_T == number])]
        message = f"table={lines.path}: setting {settings[int(number)]} predicts {', '.join(found[:SHOWN])}, and the "
        message += f"labels are {', '.join(labels[:SHOWN])}: write predicted with the names of label."
        raise DataError(Fault("predicted", "unknown", message))


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

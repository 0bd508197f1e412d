"""Tables (CSV, TSV, JSON, parquet, Excel) as streams of records, their labels, and checks of `data=table`; no torch."""

from __future__ import annotations

import codecs
import csv
import glob
import io
import itertools
import json
import math
import re
import reprlib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date
from decimal import Decimal
from encodings.aliases import aliases
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TypeAlias

from sentattn.config.schema import is_in_memory
from sentattn.config.types import Json, Node, as_typed
from sentattn.data.readers.archives import COMPRESSIONS, existing, open_file, reading
from sentattn.errors import DataError, Fault, require_packages, suggestion

MAX_CHARACTERS = 1 << 24
"""Most characters of a field of a CSV: a quote may never be closed."""
DELIMITERS = (",", ";", "\t", "|")
SEPARATOR = re.compile(r"\"?sep=(.)\"?\s*", re.IGNORECASE)
"""A line that Excel writes before the header to name the delimiter."""
MAX_HEADER_LINES = 20
"""Most lines of a header, whose names may contain line breaks."""
SHOWN_NAMES = 20
ROWS, BUFFER_BYTES = 1000, 1 << 20
"""Rows, and bytes of a column, that are read from parquet at once."""
QUOTES = (
    "a text with a delimiter, a line break or a quote in it must be in quotes, and each quote in it written twice, as "
    'in "He said ""good""".'
)
AS_TEXT = "[data.]quotes=false reads quotes as text."
JSON_FORMS = "a file of JSON holds an object on each line, or one array of objects"
ENCODINGS = "save it as UTF-8 (in a spreadsheet: CSV UTF-8), or type its encoding, such as [data.]encoding=latin-1"
TARGET = "sentattn.data.datasets.table.Table"
SPLITS = ("train", "val", "test")
NUMBER = re.compile(r"[+-]?(0|[1-9][0-9]*)(\.[0-9]+)?")
"""A number as a label; 007 and 1e3 are words."""
MIDNIGHT = " 00:00:00"
STEP = re.compile(rf"({NUMBER.pattern})\s+\w+")
"""A step of a scale with its unit, such as `5 stars`."""
MISSING = frozenset({"", "nan", "NaN", "NAN", "None", "null", "NULL", "<NA>"})
"""Words that programs write for a missing label. `none` and `NA` are labels."""
MAX_CLASSES = 1000
MAX_COUNTED = 100_000
FEW_CLASSES = 20
"""More classes than this need two rows each, on average."""
COLUMNS_HINT = (
    "Name its columns with data.text=COLUMN data.label=COLUMN, and data.group=COLUMN if there is one; "
    "data.header=true reads names from the first line of a CSV, data.header=false numbers its columns from 1."
)
UTF8 = "utf-8"


class Record(NamedTuple):
    """One record of a table.

    Attributes:
        where: The line on which it begins, such as `line 17`, or its row.
        values: Its values by column. Those of CSV and TSV are strings.
    """

    where: str
    values: Json


class Options(NamedTuple):
    """How tables are read.

    Attributes:
        header: Whether a CSV or TSV begins with the names of its columns, which otherwise are numbers from 1.
        encoding: Encoding of a text by Python's name.
        quotes: Whether quotes enclose a field of a CSV or TSV, which may have line breaks then; False reads them as
            text. None: they do, but a row of a TSV has one line, since many are written without quotes.
        keep_others: Whether records have the columns that are not required too.
    """

    header: bool = True
    encoding: str = UTF8
    quotes: bool | None = None
    keep_others: bool = False


DEFAULT = Options()


def table_paths(source: str | Path | Sequence[str], key: str) -> list[Path]:
    """Returns the files that a setting names: a file, a pattern such as `shards/*.csv`, or a list of them.

    Raises:
        DataError: If a file is missing or no table.
    """
    paths: list[Path] = []
    for name in as_columns(source):
        path = Path(name).expanduser()
        found = [] if path.exists() else sorted(glob.glob(str(path), recursive=True))
        paths += map(Path, found or [str(path)])
    for path in paths:
        require_table(path, key)
    return paths


def all_records(
    paths: Sequence[Path], columns: Sequence[str], hint: str, options: Options
) -> Iterator[tuple[Path, Record]]:
    """Yields the records of several tables, each with its file, as `records` does; refuses a table without a row."""
    for path in paths:
        record = None
        for record in records(path, columns, hint, options):
            yield path, record
        if record is None:
            raise DataError(Fault("", "missing", f"{path} holds no row."))


def records(path: Path, columns: Sequence[str], hint: str = "", options: Options = DEFAULT) -> Iterator[Record]:
    """Yields the records of a table, one after another; memory grows with the file only for an array of JSON.

    Args:
        path: A file whose name ends as in `ENDINGS`.
        columns: The required columns.
        hint: The end of the message about a missing column.
        options: How it is read.

    Raises:
        DataError: If the file is missing, damaged or of another format; the message names file and line.
    """
    require_table(path)
    ending, _ = endings(path)
    with reading(path, ""):
        if ending in BINARY:
            yield from BINARY[ending](path, columns, hint, options)
        else:
            with open_file(path) as stream:
                yield from TEXT[ending](stream, str(path), columns, hint, options)


def dialect(path: Path, columns: Sequence[str], options: Options = DEFAULT) -> tuple[str, bool]:
    """Returns the delimiter of a CSV, and whether the file begins with a byte-order mark of UTF-8."""
    with reading(path, ""), open_file(path) as stream:
        has_mark = stream.peek(3).startswith(codecs.BOM_UTF8)
        first = list(itertools.islice(text_lines(stream, str(path), options), MAX_HEADER_LINES))
    return _delimiter(first, columns, ",", options, str(path)), has_mark


def require_table(path: Path, key: str = "", *, also: Sequence[str] = ()) -> None:
    """Refuses a file that is missing, or has neither an ending of tables nor one of `also`.

    Raises:
        DataError: With the closest name, or with the legal endings; kind `not_found` or `unsupported`.
    """
    if is_in_memory(str(path)) and not path.exists():
        advice = f"save them as a table and type {key}=FILE, or pass data= again to train."
        message = f"{key}: the rows were in memory (sentattn.fit(..., data=...)) and cannot be read again: {advice}"
        raise DataError(Fault(key, "not_found", message))
    existing(path, key)
    ending, compression = endings(path)
    is_readable = ending in (TEXT if compression else (*ENDINGS, *also))
    if path.is_dir() or not is_readable:
        legal = f"{', '.join((*also, *ENDINGS))}, and {', '.join(COMPRESSIONS)} after {', '.join(TEXT)}"
        advice = f"Type {path}/*.csv for its files." if path.is_dir() else "Save a spreadsheet as .xlsx or CSV (UTF-8)."
        message = f"{path} must be a file with one of these endings: {legal}. {advice}"
        raise DataError(Fault(key, "unsupported", message))


def endings(path: Path) -> tuple[str, str]:
    """Returns the ending that determines the format, and that of the compression or "", in lower case."""
    last = path.suffix.lower()
    return (Path(path.stem).suffix.lower(), last) if last in COMPRESSIONS else (last, "")


def read_delimited(
    stream: IO[bytes], name: str, columns: Sequence[str], hint: str = "", options: Options = DEFAULT, *, delimiter: str
) -> Iterator[Record]:
    """Yields the records of a CSV or TSV; empty lines are skipped, and rows of empty fields unless `keep_others`.

    The arguments are those of `records`; `delimiter` is preferred to the other `DELIMITERS` that split the header into
    the required columns. A repeated name of another column gets a number.

    Raises:
        DataError: If the table is damaged or lacks a column; the message names the line.
    """
    lines = text_lines(stream, name, options)
    first = list(itertools.islice(lines, MAX_HEADER_LINES))
    delimiter = _delimiter(first, columns, delimiter, options, name)
    first[:1] = ["\n" if SEPARATOR.fullmatch(line) else line for line in first[:1]]
    rows = _delimited_rows(itertools.chain(first, lines), name, delimiter, options)
    yield from _read_rows(rows, name, columns, hint, options)


def _read_rows(
    rows: Iterator[tuple[int, list[str]]], name: str, columns: Sequence[str], hint: str, options: Options
) -> Iterator[Record]:
    """Yields the records of numbered rows of texts, the first of which may be a header."""
    if (first_row := next((row for row in rows if any(row[1])), None)) is None:
        raise DataError(Fault("", "missing", f"{name} is empty."))
    header = first_row[1] if options.header else [*map(str, range(1, len(first_row[1]) + 1))]
    rows = rows if options.header else itertools.chain([first_row], rows)
    composed = {unicodedata.normalize("NFC", column): column for column in columns}
    names = [unicodedata.normalize("NFC", column) for column in header]  # files of macOS have another form
    header = [old if old in columns else composed.get(new, new) for old, new in zip(header, names, strict=True)]
    require_columns(header, columns, name, hint)
    required = [header.index(column) for column in columns]
    unique: list[str] = []
    for column in header:
        numbered = (f"{column} ({number})" for number in itertools.count(2))
        unique.append(next(n for n in numbered if n not in (*unique, *header)) if column in unique else column)
    for number, fields in rows:
        # Empty fields after the last column do not matter, nor do missing fields of columns that are not required.
        if any(fields[len(header) :]) or len(fields) <= max(required, default=-1):
            raise damaged(f"{name}, line {number}: {len(fields)} fields instead of {len(header)}; {QUOTES}")
        fields += [""] * (len(header) - len(fields))
        indices = range(len(header)) if options.keep_others else required
        yield Record(f"line {number}", {unique[index]: fields[index] for index in indices})


def _delimiter(first: Sequence[str], columns: Sequence[str], preferred: str, options: Options, name: str) -> str:
    """Returns the delimiter that the first line names, or splits the header into the required columns, or the most.

    Without a header it is the only one that splits all of the first rows into as many fields, if there is one.

    Raises:
        DataError: If a CSV has no header, and several do.
    """
    if first and (named := SEPARATOR.fullmatch(first[0])):
        return named[1]
    headers: dict[str, list[str]] = {}
    even: list[str] = []
    for delimiter in dict.fromkeys([preferred, *DELIMITERS]):
        rows: list[list[str]] = []
        with suppress(csv.Error):  # also of a text that goes on after these lines
            rows += filter(any, csv.reader(first, delimiter=delimiter, quoting=_quoting(options.quotes), strict=True))
        header = rows[0] if rows else []
        headers[delimiter] = header if options.header else [*map(str, range(1, len(header) + 1))]
        is_even = len(header) > 1 and all(len(row) == len(header) for row in rows)
        if is_even and not options.header and {*columns} <= {*headers[delimiter]}:
            even.append(delimiter)
    if len(even) > 1 and even[0] != "\t":
        found = " and ".join(map(repr, even))
        advice = f"name the delimiter in a line above them, such as sep={even[-1]}"
        message = f"{name}: {found} split its first rows into as many fields each; {advice}."
        raise DataError(Fault("", "conflict", message))
    fitting = [delimiter for delimiter, header in headers.items() if {*columns} <= {*header}]
    return [*even, *fitting, max(headers, key=lambda delimiter: len(headers[delimiter]))][0]


def _quoting(quotes: bool | None) -> Literal[0, 3]:
    return csv.QUOTE_NONE if quotes is False else csv.QUOTE_MINIMAL


def _delimited_rows(
    lines: Iterable[str], name: str, delimiter: str, options: Options
) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows of a CSV or TSV that are not empty, each with the line on which it begins."""
    csv.field_size_limit(MAX_CHARACTERS)
    quotes = options.quotes
    reader = csv.reader(lines, delimiter=delimiter, quoting=_quoting(quotes), strict=True)
    while True:
        number = reader.line_num + 1
        try:
            fields = next(reader, None)
        except csv.Error as error:
            advice = f"{QUOTES} {AS_TEXT}" if quotes is None else QUOTES
            raise damaged(f"{name}, line {number}: {error} in the row that begins here; {advice}") from error
        if fields is None:
            return
        if quotes is None and delimiter == "\t" and reader.line_num > number:
            lasts = f"a quote opens in the row that begins here, and closes in line {reader.line_num}"
            raise damaged(f"{name}, line {number}: {lasts}. {AS_TEXT} [data.]quotes=true joins the lines of a text.")
        if any(fields) or (options.keep_others and fields):
            yield number, fields


def read_json(
    stream: IO[bytes], name: str, columns: Sequence[str], hint: str = "", options: Options = DEFAULT
) -> Iterator[Record]:
    """Yields the objects of JSON lines, without empty lines, or of one array, which is held in memory.

    The arguments are those of `records`.

    Raises:
        DataError: If a line or an element holds no object or lacks a key; the message names it.
    """
    lines = enumerate(text_lines(stream, name, options), start=1)
    number, first = next((each for each in lines if each[1].strip()), (1, ""))
    place = "line"
    rows: Iterator[tuple[int, object]] = itertools.chain([(number, first)], lines)
    if first.lstrip().startswith("["):
        try:
            array = json.loads("".join([first, *(line for _, line in lines)]))
            place, rows = "row", enumerate(array, start=1)
        except (ValueError, RecursionError) as error:
            raise damaged(f"{name} holds a damaged array ({error}); {JSON_FORMS}.") from error
    for number, values in rows:
        if isinstance(values, str):
            if not values.strip():
                continue
            try:
                values = json.loads(values)
            except (ValueError, RecursionError):
                values = values.strip()
        where = f"{name}, {place} {number}"
        if not isinstance(values, dict):
            raise damaged(f"{where} must hold one whole JSON object, got {reprlib.repr(values)}; {JSON_FORMS}.")
        if not values.keys() >= {*columns}:
            require_columns(list(values), columns, where, hint)
        values = values if options.keep_others else {column: values[column] for column in columns}
        for column, value in values.items():
            require_unicode(value, f"{where}: {column!r}")
        yield Record(f"{place} {number}", values)


def require_unicode(value: object, where: str) -> None:
    """Refuses half a character: JSON can escape one half of a surrogate pair without the other."""
    try:
        if isinstance(value, str):
            value.encode()
    except UnicodeEncodeError as error:
        raise damaged(f"{where} holds half a character (position {error.start + 1}).") from error


def read_parquet(path: Path, columns: Sequence[str], hint: str = "", options: Options = DEFAULT) -> Iterator[Record]:
    """Yields the rows of a parquet file; the arguments are those of `records`.

    Raises:
        DataError: If the file is damaged or lacks a column.
    """
    from pyarrow import ArrowException, float16, float32
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path, buffer_size=BUFFER_BYTES, pre_buffer=False) as file:
            names = file.schema_arrow.names
            require_columns(names, columns, str(path), hint)
            wanted = names if options.keep_others else list(columns)
            types = {column: file.schema_arrow.field(column).type for column in wanted}
            short = {column: kind.to_pandas_dtype() for column, kind in types.items() if kind in (float16(), float32())}
            batches = file.iter_batches(batch_size=ROWS, columns=wanted, use_threads=False)
            rows = itertools.chain.from_iterable(batch.to_pylist() for batch in batches)
            for number, row in enumerate(rows, start=1):
                values = {column: row[column] for column in wanted}
                for column, kind in short.items():  # 0.1 in float32 is 0.1, not 0.10000000149011612
                    values[column] = None if values[column] is None else float(str(kind(values[column])))
                yield Record(f"row {number}", values)
    except (ArrowException, UnicodeDecodeError) as error:
        raise damaged(f"{path} cannot be read as parquet ({str(error).splitlines()[0].rstrip('.')}).") from error


def read_excel(path: Path, columns: Sequence[str], hint: str = "", options: Options = DEFAULT) -> Iterator[Record]:
    """Yields the rows of the first sheet of an Excel file, all values as texts; the arguments are those of `records`.

    Raises:
        SettingError: If a package is missing.
        DataError: If the file is damaged or lacks a column.
    """
    require_packages("", str(path), ["pandas", "openpyxl"], "sentattn[excel]")
    import pandas as pd

    try:
        sheet = pd.read_excel(path, engine="openpyxl", header=None, dtype=str, na_filter=False)
    except (ValueError, LookupError, SyntaxError) as error:
        raise damaged(f"{path} cannot be read as Excel ({str(error).splitlines()[0].rstrip('.')}).") from error
    numbered = [(number, [*row]) for number, row in enumerate(sheet.itertuples(index=False), start=1)]
    last = max((number for number, row in numbered if any(row)), default=0)  # empty rows may follow
    rows = (row for row in numbered[:last] if any(row[1]) or options.keep_others)
    yield from _read_rows(rows, str(path), columns, hint, options)


Reader: TypeAlias = Callable[[IO[bytes], str, Sequence[str], str, Options], Iterator[Record]]
TEXT: dict[str, Reader] = {
    ".csv": partial(read_delimited, delimiter=","),
    ".tsv": partial(read_delimited, delimiter="\t"),
    ".jsonl": read_json,
    ".ndjson": read_json,
    ".json": read_json,
}
JSON_ENDINGS = (".jsonl", ".ndjson", ".json")
BINARY = {".parquet": read_parquet, ".xlsx": read_excel}
ENDINGS = (*TEXT, *BINARY)
"""Endings of tables; those of `TEXT` may be compressed, with an ending of `COMPRESSIONS` appended."""


def text_lines(stream: IO[bytes], name: str, options: Options = DEFAULT) -> Iterator[str]:
    r"""Yields the lines of a text with their ends (`\n`, `\r\n` or `\r`), without a byte-order mark.

    Raises:
        DataError: If the encoding is unknown, or a line has another one; the message has `name` and the line.
        UnicodeError: If a line has another encoding than one that cannot keep a faulty byte, such as UTF-16.
    """
    codec = options.encoding
    try:
        encoding = "utf-8-sig" if codecs.lookup(codec).name == UTF8 else codec
        text = io.TextIOWrapper(stream, encoding=encoding, errors="surrogateescape", newline="")
    except (LookupError, ValueError) as error:
        message = f"{codec} must be an encoding such as utf-8, latin-1 or cp1252.{suggestion(codec, aliases)}"
        raise DataError(Fault("", "unknown", f"{name}: {message}")) from error
    for number, line in enumerate(text, start=1):
        try:
            line.encode()
        except UnicodeEncodeError as error:
            byte = f"byte 0x{ord(line[error.start]) - 0xDC00:02x} after {line[: error.start][-20:]!r}"
            is_utf16 = number == 1 and line.startswith(("\udcff\udcfe", "\udcfe\udcff"))  # its byte-order mark
            advice = ENCODINGS.replace("latin-1", "utf-16") if is_utf16 else ENCODINGS
            raise damaged(f"{name}, line {number}: {byte} is not {codec.upper()}; {advice}.") from error
        yield line


def require_columns(names: Sequence[str], required: Sequence[str], where: str, hint: str = "") -> None:
    """Refuses a table whose columns `names` lack one of `required`, or have it twice.

    Raises:
        DataError: With the columns of the table and the closest; kind `missing` or `conflict`.
    """
    listed = ", ".join(map(reprlib.repr, names[:SHOWN_NAMES])) + ", ..." * (len(names) > SHOWN_NAMES)
    for column in required:
        if column not in names:
            message = f"{where} has no column {column!r}; it has {listed}.{suggestion(column, names)} {hint}".rstrip()
            raise DataError(Fault("", "missing", message))
        if names.count(column) > 1:
            message = f"{where} has {names.count(column)} columns {column!r}; its columns are {listed}."
            raise DataError(Fault("", "conflict", message))


def damaged(message: str) -> DataError:
    """Returns the error for a damaged file."""
    return DataError(Fault("", "damaged", message))


def as_columns(text: Any) -> list[str]:
    """Returns the columns that `data.text` names: one, or those whose texts are joined."""
    return list(text) if isinstance(text, list | tuple) else [text]


def text_of(record: Record, columns: Sequence[str], path: Path) -> str:
    """Returns the text of a record, those of several columns joined by line breaks; "" if it has none.

    Raises:
        DataError: If a value is no text.
    """
    parts: list[str] = []
    for column in columns:
        value = record.values[column]
        if isinstance(value, str):
            parts.append(value)
        elif value is not None:
            message = f"{column!r} must be a column of texts, got {reprlib.repr(value)}."
            raise DataError(Fault("data.text", "type", f"{path}, {record.where}: {message}"))
    return parts[0] if len(parts) == 1 else joined(parts)


def joined(parts: Iterable[str | None]) -> str:
    """Returns the texts of several columns as one: joined by line breaks, without missing ones."""
    return "\n".join(filter(None, parts))


def label_name(value: object) -> str | None:
    """Returns the name of the class of a label, or None for a missing label.

    1, 1.0 and "1" are the same class, and so are true, "True" and "TRUE", a day and its midnight, and both encodings of
    an accented letter. Spaces around a word are ignored. `MISSING` are missing labels in every format.

    Raises:
        TypeError: If the value is neither a string, a number, a boolean nor a date.
    """
    if not isinstance(value, str):
        if isinstance(value, bool | int | date):
            return str(value).lower().removesuffix(MIDNIGHT)
        if value is None or (isinstance(value, float | Decimal) and math.isnan(value)):
            return None
        if isinstance(value, float | Decimal) and math.isfinite(value):
            return _shortest(format(Decimal(repr(value)) if isinstance(value, float) else value, "f"))
        raise TypeError(f"{value!r} is no label")
    word = unicodedata.normalize("NFC", value).strip().removesuffix(MIDNIGHT)
    if word in MISSING:
        return None
    if word.lower() in ("true", "false"):
        return word.lower()
    return _shortest(word) if NUMBER.fullmatch(word) else word


def _shortest(number: str) -> str:
    """Returns the shortest form of a number: 1 for +1.0, 2.5 for 2.50."""
    short = number.removeprefix("+")
    if "." in short:
        short = short.rstrip("0").rstrip(".")
    return "0" if short == "-0" else short


def sort_names(names: Iterable[str]) -> tuple[str, ...]:
    """Returns class names sorted, as numbers if all of them are numbers."""
    names = list(names)
    return tuple(sorted(names, key=Decimal) if all(map(NUMBER.fullmatch, names)) else sorted(names))


def is_scale(names: Sequence[str], *, typed: bool) -> bool:
    """Returns whether more than two classes are steps of a scale: numbers, or in an order that the user typed."""
    return len(names) > 2 and (typed or all(map(NUMBER.fullmatch, names)))


def steps(names: Sequence[str]) -> dict[str, int]:
    """Returns the class of each number of a scale such as `1 star`, `2 stars`; empty for other classes."""
    matches = [STEP.fullmatch(name) for name in names]
    numbers = [_shortest(match[1]) for match in matches if match]
    is_unique = len(numbers) == len(names) == len(set(numbers))
    return {number: index for index, number in enumerate(numbers)} if is_unique else {}


def require_labels(counts: Counter[str], column: str, where: str) -> None:
    """Refuses a column whose values, by their numbers of rows, are no labels or only one label.

    Raises:
        DataError: With the number of different values and examples; key `data.label`.
    """
    rows = counts.total()
    if 1 < len(counts) <= MAX_CLASSES and (len(counts) <= FEW_CLASSES or rows >= 2 * len(counts)):
        return
    examples = ", ".join(reprlib.repr(name) for name in list(counts)[:3])
    message = (
        f"{where}: {column!r} must hold 2 to {MAX_CLASSES} labels, most of them in more than one row, got "
        f"{len(counts):,} different values in {rows:,} rows, such as {examples}. Name the column of labels "
        "with data.label=COLUMN, or the labels with data.classes=[...]."
    )
    raise DataError(Fault("data.label", "range" if len(counts) == 1 else "type", message))


def setting_faults(data: Node) -> list[Fault]:
    """Returns which settings of `data=table` are out of range or exclude each other; reads no file."""
    faults, classes = list[Fault](), data.get("classes") or []
    names = {label_name(value) for value in classes}
    if classes and (len(classes) < 2 or len(names) < len(classes) or None in names):
        message = f"data.classes must be two or more different labels, none of them empty, got {as_typed(classes)}."
        faults.append(Fault("data.classes", "range", message))
    val, val_size, group = data.get("val"), data.get("val_size"), data.get("group")
    texts = as_columns(data.get("text", "text"))
    columns = [*(("text", column) for column in texts), ("label", data.get("label", "label")), ("group", group)]
    for (first, column), (second, other) in itertools.combinations(columns, 2):
        if column == other:
            message = f"data.{first} and data.{second} both name the column {column!r}; they must differ."
            faults.append(Fault(f"data.{first}", "conflict", message))
    if group is None and data.get("val_by") == "group":
        message = "data.val_by=group needs data.group=COLUMN, the column that says which rows belong together."
        faults.append(Fault("data.group", "missing", message))
    if val is not None and val_size is not None:
        message = f"data.val_size={val_size} has no effect with the validation rows {val}; leave it out."
        faults.append(Fault("data.val_size", "no_effect", message))
    return faults


def check(data: Node, *, split: str | None = None) -> None:
    """Checks settings of `data=table` and the first record of each file, before anything imports torch.

    Settings of other data sets pass. The file of the split that a trained model is evaluated on suffices.

    Raises:
        DataError: With all faults.
    """
    if data["_target_"] != TARGET:
        return
    faults, files = setting_faults(data), {name: data[name] for name in SPLITS if data.get(name)}
    options = Options(data.get("header", True), data.get("encoding", UTF8), data.get("quotes"))
    columns = [*as_columns(data["text"]), data["label"]]
    if split in files:
        files = {split: files[split]}
    else:
        columns += [] if data.get("group") is None else [data["group"]]  # a trained model needs no groups
        faults += [] if "train" in files else [missing_file(data)]
    for name, source in files.items():
        try:
            for path in table_paths(source, f"data.{name}"):
                next(all_records([path], columns, COLUMNS_HINT, options))
        except DataError as error:
            faults += (replace(fault, key=fault.key or f"data.{name}") for fault in error.faults)
    if faults:
        raise DataError(*faults)


def missing_file(data: Node) -> Fault:
    """Returns the fault that the settings of `data=table` name no file to train on."""
    message = (
        f"data={data.get('name', 'table')} has no rows: type data.train=FILE data.text=COLUMN data.label=COLUMN, "
        "with a .csv, .tsv, .json, .jsonl, .parquet or .xlsx file; to test a model, data.test=FILE."
    )
    return Fault("data.train", "missing", message)

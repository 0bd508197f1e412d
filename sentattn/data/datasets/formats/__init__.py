"""Tables as people have them: CSV, TSV, JSON lines and parquet as a stream of records."""

from sentattn.data.datasets.formats.delimited import read_delimited
from sentattn.data.datasets.formats.json_lines import read_json_lines
from sentattn.data.datasets.formats.parts import ColumnError, Record, kind, text_lines, text_of
from sentattn.data.datasets.formats.reading import ENDINGS, records, require_table

__all__ = [
    "ENDINGS",
    "ColumnError",
    "Record",
    "kind",
    "read_delimited",
    "read_json_lines",
    "records",
    "require_table",
    "text_lines",
    "text_of",
]

"""What is read is data: tables, vectors, a cached corpus, a run and an exported folder run nothing of what they hold.

Settings: `tests/config/test_targets.py`.
"""

from __future__ import annotations

import csv
import json
import pickle
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from harmful import Harmful
from refusals import refused
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from sentattn import evaluate, train
from sentattn.data.corpus import META, Corpus, build
from sentattn.data.datasets.demo import DemoSource
from sentattn.data.readers.tables import records
from sentattn.data.tokenizer import WordTypes
from sentattn.data.word_vectors import read_vectors
from sentattn.list import main as list_main
from sentattn.prediction.model import load
from sentattn.training.recorder import read_checkpoint

pytest.importorskip("onnxruntime")


@pytest.fixture
def harmful(tmp_path: Path) -> Iterator[Harmful]:
    """Anything that runs it leaves a file."""
    marker = tmp_path / "marker"
    yield Harmful(marker)
    assert not marker.exists()


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_a_table_is_text(suffix: str, harmful: Harmful, tmp_path: Path) -> None:
    texts = [
        f"=cmd|'/C touch {harmful.marker}'!A1",
        f'+HYPERLINK("file://{harmful.marker}")',
        f"!!python/object/apply:os.system ['touch {harmful.marker}']",
        f"${{oc.env:HOME}} $(touch {harmful.marker}) `touch {harmful.marker}`",
        json.dumps({"_target_": "os.system", "command": f"touch {harmful.marker}"}),
    ]
    path = tmp_path / f"table{suffix}"
    if suffix == ".parquet":  # with a type that old versions of Arrow unpickle
        extension = {
            "ARROW:extension:name": "arrow.py_extension_type",
            "ARROW:extension:metadata": pickle.dumps(harmful),
        }
        schema = pa.schema([pa.field("text", pa.string(), metadata=extension)])
        pq.write_table(pa.table({"text": texts}, schema=schema), path)
    elif suffix == ".jsonl":
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    else:
        with path.open("w", newline="") as file:
            delimiter = "," if suffix == ".csv" else "\t"
            csv.writer(file, delimiter=delimiter).writerows([["text"], *([text] for text in texts)])
    assert [record.values["text"] for record in records(path, ["text"])] == texts
    path.write_bytes(pickle.dumps(harmful))
    assert refused(lambda: list(records(path, ["text"])))


def test_word_vectors_are_never_unpickled(harmful: Harmful, tmp_path: Path) -> None:
    def read(file: Path) -> list[list[float]]:
        found = read_vectors(str(file), ["good"], cache=tmp_path / "cache", mirror=None, progress=lambda *_: None)
        assert found is not None
        return [[float(x) for x in row] for row in found.vectors_VE[2:]]

    for file in (tmp_path / "vectors.pt", tmp_path / "vectors.npy", tmp_path / "vectors.vec.pt"):
        torch.save((["good"], {}, harmful, 3), file)  # as torchtext stores vectors
        if file.suffix == ".npy":
            np.save(file, np.array([harmful], dtype=object), allow_pickle=True)
        assert refused(partial(read, file))
    text = tmp_path / "vectors.txt"
    text.write_text("good 1 2 3\n")
    assert read(text) == [[1, 2, 3]]
    (cached,) = (tmp_path / "cache").glob("vectors-*.safetensors")
    torch.save(harmful, cached)
    assert read(text) == [[1, 2, 3]]


def test_a_cached_corpus_is_never_unpickled(harmful: Harmful, tmp_path: Path) -> None:
    build(DemoSource(), tmp_path, types=WordTypes(lowercase=True), limit=4, progress=lambda *_: None)
    labels, file = tmp_path / "labels.npy", tmp_path / META
    np.save(labels, np.array([harmful], dtype=object), allow_pickle=True)
    meta = json.loads(file.read_text())
    meta["bytes"]["labels.npy"] = labels.stat().st_size
    file.write_text(json.dumps(meta))
    with pytest.raises(ValueError, match="allow_pickle"):
        Corpus(tmp_path)


def test_pickles_in_a_run_directory_are_not_unpickled(harmful: Harmful, run_copy: Path) -> None:
    checkpoint = run_copy / "checkpoints" / "last.ckpt"
    for file in (checkpoint, *sorted((run_copy / "model").iterdir())):
        torch.save({"state_dict": harmful}, file)
    assert refused(lambda: read_checkpoint(checkpoint)) == [(str(checkpoint), "damaged")]
    assert refused(lambda: load(run_copy).predict(["Good."])) == [("run", "damaged")]


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "labels.json", "config.json"])
def test_an_exported_folder_is_data(name: str, harmful: Harmful, tmp_path: Path) -> None:
    from sentattn.export.predict import Model

    tokenizer = Tokenizer(WordLevel({"a": 0}, unk_token="a")).to_str()
    contents = {"labels.json": '["a"]', "config.json": '{"sentattn": "0"}', "tokenizer.json": tokenizer}
    for file in ("model.onnx", "predict.py", *contents):  # its script is never imported
        (tmp_path / file).write_text(contents.get(file, f"open({str(harmful.marker)!r}, 'w').close()\n"))
    (tmp_path / name).write_bytes(pickle.dumps(harmful))
    sys.path.insert(0, str(tmp_path))
    try:
        with pytest.raises(Exception):  # noqa: B017, PT011 - the libraries' errors have no common class
            Model(tmp_path)
    finally:
        sys.path.remove(str(tmp_path))


ESCAPE = "\x1b]0;title\x07\x1b[31mred\x9b31m"


def test_a_terminal_executes_no_sequence_of_the_data(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows, other = tmp_path / "rows.csv", tmp_path / "other.csv"
    rows.write_text("text,label\n" + "".join(f"good {i},{('none', ESCAPE)[i % 4 > 0]}\n" for i in range(60)))
    other.write_text(f"text,label\ngood,{ESCAPE}x\nbad,none\n")
    own = ["model=mean", "data=table", f"data.train={rows}", "trainer.max_epochs=1", "logger=none"]
    assert train.main([*own, "data.cache_dir=" + str(tmp_path), f"output_dir={tmp_path}/runs"]) == 0
    [result] = tmp_path.glob("runs/*/*/*/result.json")
    assert evaluate.main([f"run={result.parent}", f"data.test={rows}", "name=again"]) == 0
    assert evaluate.main([f"run={result.parent}", f"data.test={other}"]) == 2
    result.write_text(result.read_text().replace('"finished"', json.dumps(f"finished{ESCAPE}")))
    assert list_main(["runs", f"output_dir={tmp_path}/runs"]) == 0
    printed = "".join(capfd.readouterr())
    assert "red" in printed
    assert not {"\x1b", "\x07", "\x9b"} & {*printed}

"""Reads random bytes, guided by coverage, as each kind of file: an error is a message, never a traceback.

usage: python fuzz.py READER SECONDS [FOLDER]

Needs atheris. A finding ends it with a traceback, and leaves its bytes in FOLDER as crash-..., to be read by
`python fuzz.py READER FILE`.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

sys.path.append(str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from starlette.testclient import TestClient

MOST_BYTES = 4096
REVIEW = json.dumps({"stars": 4.0, "text": "Good food, bad service.", "business_id": "a"}) + "\n"
ARRAYS = json.dumps({"texts": ["Good food.", "Bad service."], "labels": [5, 1]})
PREDICTED = "setting,seed,row,label,predicted\na,0,1,x,x\na,1,1,x,y\nb,0,1,x,x\nb,1,1,x,x\n"
RANGE: dict[str, object] = {"key": "loss.penalty", "zero": False, "floor": 0.0, "when": {}, "written": "interval(0,1)"}
DISTRIBUTION = '{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0, "high": 1.0, "log": false}}'
STUDY: dict[str, object] = {
    "space": [{**RANGE, "distribution": DISTRIBUTION}],
    "objectives": [["val/accuracy", "max"]],
    "overrides": ["model=structured"],
    "format": 2,
    "id": "0",
}
TIME = "2026-03-04T05:06:07+00:00"
TRIAL: dict[str, object] = {"param_name": "loss.penalty", "param_value_internal": 0.5, "distribution": DISTRIBUTION}
STEPS: list[dict[str, object]] = [
    {"op_code": 0, "study_name": "s", "directions": [2]},
    *({"op_code": 2, "study_id": 0, "user_attr": {key: value}} for key, value in STUDY.items()),
    {"op_code": 4, "study_id": 0, "datetime_start": TIME},
    {"op_code": 5, "trial_id": 0, **TRIAL},
    {"op_code": 7, "trial_id": 0, "step": 1, "intermediate_value": 0.5},
    {"op_code": 6, "trial_id": 0, "state": 1, "values": [0.5], "datetime_complete": TIME},
]
JOURNAL = "".join(json.dumps({"worker_id": "1", **step}) + "\n" for step in STEPS)
SWEEP = "study: s\nsampler: {name: random}\nspace: {optimizer.lr: 'interval(1e-4,1e-2)'}\nbudget: {trials: 1}\n"
PLAN = (
    "split: test\nmetric: accuracy\nmargin: 0.5\nseeds: [0, 1, 2]\nbase: []\n"
    "pairs: [{a: {setting: x}, b: {setting: y}}]\n"
)


class Reader(NamedTuple):
    """A kind of file: the name of one below its folder, the content of a good one, and what reads it."""

    name: str
    good: Callable[[], bytes]
    read: Callable[[Path], object]


def rows_of(path: Path) -> None:
    """Reads a table."""
    from sentattn.data.readers.tables import records

    for _ in records(path, ["text"]):
        pass


def reviews_of(path: Path) -> None:
    """Reads reviews of Yelp."""
    from sentattn.data.datasets.yelp import Yelp

    for _ in Yelp(path=str(path), cache_dir=str(path.parent / "cache")).source(lambda *_: None).read("train"):
        pass


def vectors_of(path: Path) -> None:
    """Reads word vectors."""
    from sentattn.data.word_vectors import read_vectors

    with tempfile.TemporaryDirectory() as cache:
        read_vectors(str(path), ["good", "bad"], cache=Path(cache), mirror=None, progress=lambda *_: None)


def tokenizer_of(path: Path) -> None:
    """Reads a tokenizer, and splits a text with it."""
    from sentattn.data.pieces import read_tokenizer

    read_tokenizer(str(path)).encode(["Good food, bad service."])


def states_of(path: Path) -> None:
    """Reads states from a file."""
    from sentattn.data.readers.states import open_states

    with tempfile.TemporaryDirectory() as cache:
        open_states(path, "data.train", cache)


def predictions_of(path: Path) -> None:
    """Reads and compares predictions of another tool."""
    import sentattn

    print(sentattn.leaderboard(table=str(path)))


def command_of(module: str, words: str, path: Path) -> object:
    """Runs a command, whose errors are those of a user, and returns its exit code."""
    import importlib

    return importlib.import_module(module).main(words.format(path=path, folder=path.parent).split())


def sweep_of(path: Path) -> None:
    """Reads and checks a file of a sweep."""
    from sentattn.sweep.config import read_plan

    read_plan([f"sweep={path}"])


def plan_of(path: Path) -> None:
    """Reads a plan of tests."""
    from sentattn.compare.plan import read_plan

    read_plan(path)


@functools.cache
def trained() -> Path:
    """Returns a run directory."""
    from tiny import tiny

    import sentattn

    with contextlib.redirect_stderr(sys.__stderr__):  # Lightning asks for its number
        return sentattn.fit(tiny(f"output_dir={tempfile.mkdtemp()}")).path


def result() -> bytes:
    """Returns the result of a run, small enough for `MOST_BYTES`."""
    of_run = json.loads((trained() / "result.json").read_text())
    return json.dumps({key: value for key, value in of_run.items() if key != "settings"}).encode()


def runs_of(path: Path) -> int:
    """Lists and compares the runs of a folder, of which one has a file of its own."""
    from sentattn import list as runs
    from sentattn.compare.__main__ import main

    folder = _with_others(path, trained()).parent
    return runs.main(["runs", f"output_dir={folder}"]) or main([str(folder)])


def model_of(path: Path) -> None:
    """Predicts with a model that has a file of its own."""
    from sentattn.prediction.model import Classifier

    Classifier.load(_with_others(path, trained() / "model")).predict(["Good food."])


def _with_others(path: Path, source: Path) -> Path:
    """Copies the other files of a folder next to a file; returns their folder."""
    if len([*path.parent.iterdir()]) == 1:
        shutil.copytree(source, path.parent, dirs_exist_ok=True, ignore=lambda *_: [path.name])
    return path.parent


@functools.cache
def explorer() -> TestClient:
    """Returns a client of the explorer of a small model."""
    from starlette.testclient import TestClient

    from sentattn.explore.server import Explorer, app, load_models, read_rows

    models, _ = load_models([trained()])
    return TestClient(app(Explorer(models, read_rows(models, "test")[0])), base_url="http://127.0.0.1")


def requests_of(path: Path) -> None:
    """Sends bytes to the explorer: as a body, a text, a query and a part of an address."""
    content, client = path.read_bytes(), explorer()
    text = content.decode(errors="replace")
    as_json = {"content-type": "application/json"}
    edit = {"text": text, "token": len(content) % 7, "replacement": text[::7], "pairs": True}
    for answer in (
        client.post("/api/predict", content=content, headers=as_json),
        client.post("/api/predict", json=edit),
        client.get(f"/api/rows?{quote(text, safe='=&')}"),
        client.get(f"/api/rows/{quote(text, safe='')}"),
        client.get(f"/{quote(text, safe='')}.js"),
        client.get("/", headers={"origin": quote(text)}),
    ):
        assert answer.status_code < 500, answer.text


def parquet() -> bytes:
    """Returns a table of two rows."""
    pq.write_table(pa.table({"text": ["Good.", "Bad."], "label": ["a", "b"]}), stream := io.BytesIO())
    return stream.getvalue()


def archive(name: str, content: bytes) -> bytes:
    """Returns an archive with a file."""
    with zipfile.ZipFile(stream := io.BytesIO(), "w") as opened:
        opened.writestr(name, content)
    return stream.getvalue()


def states() -> bytes:
    """Returns states of two rows as NumPy stores them."""
    np.savez(stream := io.BytesIO(), states=np.ones((3, 2), np.float16), offsets=np.array([0, 1, 3]))
    return stream.getvalue()


def safetensors() -> bytes:
    """Returns states of two rows as safetensors."""
    from safetensors.numpy import save

    return save({"states": np.ones((3, 2), np.float16), "offsets": np.array([0, 1, 3])})


def tokenizer() -> bytes:
    """Returns a small tokenizer."""
    from tokenizers import Tokenizer, models

    made = Tokenizer(models.WordPiece({"[PAD]": 0, "[UNK]": 1, "good": 2}, unk_token="[UNK]"))
    return str(made.to_str()).encode()


def settings() -> bytes:
    """Returns the settings of a training as its run stores them."""
    from sentattn.config.compose import compose
    from sentattn.run import yaml_text

    return yaml_text(compose(["model=mean"])).encode()


READERS = {
    "yelp": Reader("reviews.json", lambda: REVIEW.encode(), reviews_of),
    "zip": Reader("reviews.zip", lambda: archive("yelp_review_subset.json", ARRAYS.encode()), reviews_of),
    "csv": Reader("rows.csv", lambda: b'text,label\n"Good, bad",a\nBad,b\n', rows_of),
    "tsv": Reader("rows.tsv", lambda: b"text\tlabel\nGood\ta\n", rows_of),
    "json": Reader("rows.json", lambda: json.dumps([{"text": "Good", "label": "a"}]).encode(), rows_of),
    "jsonl": Reader("rows.jsonl", lambda: b'{"text": "Good", "label": "a"}\n', rows_of),
    "parquet": Reader("rows.parquet", parquet, rows_of),
    "vectors": Reader("vectors.txt", lambda: b"good 1 2 3\nbad 0.5 -1 2e-3\n", vectors_of),
    "tokenizer": Reader("tokenizer.json", tokenizer, tokenizer_of),
    "npz": Reader("states.npz", states, states_of),
    "safetensors": Reader("states.safetensors", safetensors, states_of),
    "predictions": Reader("predictions.csv", lambda: PREDICTED.encode(), predictions_of),
    "run": Reader("run/result.json", result, runs_of),
    "settings": Reader("run/config.yaml", lambda: (trained() / "config.yaml").read_bytes(), runs_of),
    "metrics": Reader("run/metrics.jsonl", lambda: (trained() / "metrics.jsonl").read_bytes(), runs_of),
    "model": Reader("model/config.yaml", lambda: (trained() / "model" / "config.yaml").read_bytes(), model_of),
    "labels": Reader("model/labels.json", lambda: (trained() / "model" / "labels.json").read_bytes(), model_of),
    "config": Reader("config.yaml", settings, partial(command_of, "sentattn.train", "from={path} --cfg job")),
    "journal": Reader(
        "sweeps/s/study.journal",
        lambda: JOURNAL.encode(),
        partial(command_of, "sentattn.sweep.__main__", "status s output_dir={path.parents[2]}"),
    ),
    "sweep": Reader("sweep.yaml", lambda: SWEEP.encode(), sweep_of),
    "explorer": Reader("request", lambda: b'{"text": "Good.", "model": 0, "token": 1, "pairs": true}', requests_of),
    "plan": Reader("plan.yaml", lambda: PLAN.encode(), plan_of),
}


def read_strictly(reader: Reader, content: bytes, folder: Path) -> object:
    """Reads bytes as a kind of file, and returns what the reader returns, which is true for an error of a command."""
    path = folder / reader.name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return reader.read(path)


def read(reader: Reader, content: bytes, folder: Path) -> None:
    """Reads bytes as a kind of file; any error but one for the user is a finding."""
    from sentattn.errors import UserError

    with contextlib.suppress(UserError):
        read_strictly(reader, content, folder)


def main(name: str, seconds: str, folder: str = "") -> None:
    """Fuzzes a reader for some seconds, or reads a file of bytes once."""
    reader, scratch = READERS[name], Path(tempfile.mkdtemp())
    if Path(seconds).is_file():
        read(reader, Path(seconds).read_bytes(), scratch)
        return
    import atheris

    corpus = Path(folder or scratch) / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    with atheris.instrument_imports(include=["sentattn"], enable_loader_override=False):
        (corpus / "good").write_bytes(good := reader.good())
        (corpus / "deep").write_bytes(b"[" * MOST_BYTES)
        assert not read_strictly(reader, good, scratch), f"the first input of {name} is refused"
    limits = [f"-max_total_time={seconds}", f"-max_len={MOST_BYTES}", "-timeout=20", "-rss_limit_mb=4096"]
    atheris.Setup(
        [sys.argv[0], *limits, f"-artifact_prefix={corpus.parent}/", "-print_final_stats=1", str(corpus)],
        lambda content: read(reader, content, scratch),
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Data sets of the Hugging Face Hub, saved locally: splits, columns, labels, and what is refused."""

from __future__ import annotations

import importlib.util
import json
import pickle
import shutil
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from harmful import Harmful
from pyarrow import parquet as pq
from refusals import assert_refused, fault_of, refused
from tiny import tiny

from sentattn import evaluate, train
from sentattn.config.compose import compose
from sentattn.config.hashing import setting_hash
from sentattn.data.corpus import Row, Source
from sentattn.data.datasets.hub import Hub
from sentattn.data.datasets.table import TableSource
from sentattn.data.readers import hub
from sentattn.prediction.model import load

datasets = pytest.importorskip("datasets")
STRING, CLASSES = datasets.Value("string"), datasets.ClassLabel(names=["neg", "pos"])
TEXTS = [f"{'good' if i % 2 else 'bad'} film {i}" for i in range(40)]
LABELS = [i % 2 for i in range(40)]
ROWS: dict[str, list[Any]] = {"text": TEXTS, "label": LABELS}
NAMED = {"text": STRING, "label": CLASSES}
UNLABELLED = {"text": TEXTS, "label": [-1] * 40}


@pytest.fixture(autouse=True)
def _cache_of_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hub_cache")
    hub._load_from_hub.cache_clear()


def dataset(rows: dict[str, list[Any]] = ROWS, types: dict[str, Any] = NAMED) -> Any:
    return datasets.Dataset.from_dict(rows, features=datasets.Features(types))


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., str]:
    """Writes rows, or the rows of each split, by `save_to_disk`, and returns the folder."""

    def save(rows: dict[str, list[Any]] = ROWS, types: dict[str, Any] = NAMED, **splits: dict[str, list[Any]]) -> str:
        parts = {split: dataset(its_rows, types) for split, its_rows in splits.items()}
        (datasets.DatasetDict(parts) if splits else dataset(rows, types)).save_to_disk(tmp_path / "saved")
        return str(tmp_path / "saved")

    return save


def source_of(folder: str, **settings: Any) -> Source:
    return Hub(dataset=folder, **settings).source(lambda *_: None)


def rows_of(source: Source, split: str = "train") -> list[Row]:
    return list(source.read(split))


def test_rows_and_classes_of_a_saved_data_set(saved: Callable[..., str]) -> None:
    source = source_of(saved())
    assert rows_of(source) == [Row(text, label) for text, label in zip(TEXTS, LABELS, strict=True)]
    assert (source.labels, source.ordered, source.splits) == (("neg", "pos"), False, ("train",))


@pytest.mark.parametrize("name", ["validation", "dev"])
def test_splits_by_their_names(saved: Callable[..., str], name: str, tmp_path: Path) -> None:
    few = {"text": ["a", "b"], "label": [0, 1]}
    folder = saved(train=ROWS, unsupervised=UNLABELLED, test=few, **{name: few})
    data = Hub(dataset=folder, cache_dir=str(tmp_path / "cache"))
    data.prepare()
    assert {split: len(data.split(split)) for split in ("train", "val", "test")} == {"train": 40, "val": 2, "test": 2}
    assert refused(lambda: source_of(folder, val_size=0.1)) == [("data.val_size", "no_effect")]


@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        ("int8", [1, 10, 2, -1] * 10),
        ("string", ["no", "yes"] * 20),
        ("bool", [True, False] * 20),
        ("float64", [1, 2.5] * 20),
        ("timestamp[s]", [datetime(2026, 1, 2), datetime(2026, 1, 2, 3)] * 20),
    ],
)
def test_labels_without_names_are_those_of_a_table(
    saved: Callable[..., str], tmp_path: Path, kind: str, labels: list[Any]
) -> None:
    folder = saved({"text": TEXTS, "label": labels}, {"text": STRING, "label": datasets.Value(kind)})
    source, file = source_of(folder), tmp_path / "train.parquet"
    pq.write_table(datasets.load_from_disk(folder).with_format("arrow")[:], file)
    table = TableSource({"train": file}, text="text", label="label")
    assert rows_of(source) == rows_of(table)
    assert (source.labels, source.ordered) == (table.labels, table.ordered)


@pytest.mark.parametrize(
    ("names", "classes", "is_ordered"),
    [
        (["1 star", "2 stars", "3 stars"], None, True),
        (["World", "Sports", "Business"], None, False),
        (["bad", "good", "ok"], ["bad", "ok", "good"], True),
    ],
)
def test_classes_that_are_steps(
    saved: Callable[..., str], names: list[str], classes: list[str] | None, is_ordered: bool
) -> None:
    labels = [i % 3 for i in range(40)]
    folder = saved({"text": TEXTS, "label": labels}, {"text": STRING, "label": datasets.ClassLabel(names=names)})
    source = source_of(folder, classes=classes)
    assert [source.labels[row.label] for row in rows_of(source)] == [names[label] for label in labels]
    assert (source.labels, source.ordered) == (tuple(classes or names), is_ordered)


@pytest.mark.parametrize("missing", [-1, None])
def test_rows_without_a_label_are_refused_or_skipped(saved: Callable[..., str], missing: int | None) -> None:
    folder = saved(train={"text": TEXTS, "label": [missing, *LABELS[1:]]}, test=ROWS)
    assert_refused(lambda: rows_of(source_of(folder)), "data.label", "missing", "1 of 40 train rows", "row 1")
    source = source_of(folder, skip_unlabeled=True)
    assert [row.text for row in rows_of(source)] == TEXTS[1:]
    assert len(rows_of(source, "test")) == 40
    assert source.skipped == {"train": 1, "test": 0}
    assert source.fingerprint() != source_of(folder).fingerprint()


def test_a_split_without_labels_is_not_used(saved: Callable[..., str], tmp_path: Path) -> None:
    data = Hub(dataset=saved(train=ROWS, test=UNLABELLED), cache_dir=str(tmp_path / "cache"))
    data.prepare()
    assert {split: len(data.split(split)) for split in ("train", "val", "test")} == {"train": 32, "val": 4, "test": 4}
    [note] = source_of(str(tmp_path / "saved")).notes
    assert note in data.report
    splits = {"train": dataset(), "test": dataset().remove_columns("label")}
    datasets.DatasetDict(splits).save_to_disk(tmp_path / "column")
    assert source_of(str(tmp_path / "column")).splits == ("train",)


def test_the_fingerprint_is_that_of_the_content(saved: Callable[..., str], tmp_path: Path) -> None:
    first = source_of(saved()).fingerprint()
    reverse = list(range(39, -1, -1))
    dataset().select(reverse).select(reverse).save_to_disk(tmp_path / "again", num_shards=3)
    assert source_of(str(tmp_path / "again")).fingerprint() == first
    changes = [
        ({**ROWS, "text": ["Bad", *TEXTS[1:]]}, NAMED),
        ({**ROWS, "label": [1, *LABELS[1:]]}, NAMED),
        (ROWS, {"text": STRING, "label": datasets.ClassLabel(names=["pos", "neg"])}),
    ]
    for number, change in enumerate(changes):
        dataset(*change).save_to_disk(tmp_path / str(number))
        assert source_of(str(tmp_path / str(number))).fingerprint() != first


def test_texts_of_several_columns_and_groups(saved: Callable[..., str]) -> None:
    rows = {"title": ["A", None] * 20, "body": TEXTS, "label": LABELS, "film": [None, *["x", "y", "z"] * 13]}
    folder = saved(rows, {"title": STRING, "body": STRING, "label": CLASSES, "film": STRING})
    settings = compose(["data=hub", f"data.dataset={folder}", "data.text=[title,body]", "data.group=film"])["data"]
    read = rows_of(source_of(folder, text=settings["text"], group=settings["group"]))
    assert [row.text for row in read[:2]] == [f"A\n{TEXTS[0]}", TEXTS[1]]
    assert [row.group for row in read[:3]] == ["", "x", "y"]
    assert settings["val_by"] == "group"


WORDS, LONG, NUMBER = datasets.List(STRING), datasets.Value("large_string"), datasets.Value("int32")


@pytest.mark.parametrize(
    ("types", "settings", "columns"),
    [
        ({"label": CLASSES, "text": STRING, "id": STRING}, {}, ("text", "label")),
        ({"intent": CLASSES, "utterance": LONG, "id": NUMBER}, {}, ("utterance", "intent")),
        ({"label": STRING, "review": STRING}, {}, ("review", "label")),
        ({"label": CLASSES, "coarse": CLASSES, "text": STRING}, {}, ("text", "label")),
        ({"stars": NUMBER, "a": STRING, "b": STRING}, {"label": "stars", "text": "b"}, ("b", "stars")),
        ({"label": CLASSES, "a": STRING, "product": STRING}, {"group": "product"}, ("a", "label")),
    ],
)
def test_columns_are_found(types: dict[str, Any], settings: dict[str, str], columns: tuple[str, str]) -> None:
    data = {"text": None, "label": None, "group": None, **settings}
    assert hub._find_columns(datasets.Features(types), data) == {"text": columns[0], "label": columns[1]}


@pytest.mark.parametrize(
    ("types", "settings", "expected"),
    [
        ({"title": STRING, "body": STRING, "label": CLASSES}, {}, [("data.text", "unknown")]),
        ({"text": STRING, "coarse": CLASSES, "fine": CLASSES}, {}, [("data.label", "unknown")]),
        ({"id": NUMBER}, {}, [("data.text", "unknown"), ("data.label", "unknown")]),
        ({"tokens": WORDS, "label": CLASSES}, {"text": "tokens"}, [("data.text", "type")]),
        ({"text": WORDS, "label": CLASSES}, {}, [("data.text", "type")]),
        ({"text": STRING, "label": datasets.List(CLASSES)}, {}, [("data.label", "type")]),
        ({"text": STRING, "meta": {"label": CLASSES}}, {"label": "meta"}, [("data.label", "type")]),
        ({"text": STRING, "label": CLASSES, "meta": {"a": STRING}}, {"group": "meta"}, [("data.group", "type")]),
        (NAMED, {"text": "txt", "label": "labl"}, [("data.text", "unknown"), ("data.label", "unknown")]),
        (NAMED, {"text": "label", "label": "label"}, [("data.text", "type")]),
    ],
)
def test_columns_that_cannot_be_used(
    types: dict[str, Any], settings: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    data = {"text": None, "label": None, "group": None, **settings}
    assert refused(lambda: hub._find_columns(datasets.Features(types), data)) == expected


@pytest.mark.parametrize(
    ("splits", "settings", "expected"),
    [
        ({"train": UNLABELLED, "test": ROWS}, {}, ("data.label", "missing")),
        ({"test": ROWS}, {}, ("data.label", "missing")),
        ({"full": ROWS}, {}, ("data.dataset", "missing")),
        ({"train": {"text": TEXTS, "label": [1] * 40}}, {}, ("data.label", "range")),
        ({"train": ROWS}, {"classes": ["neg", "pos", "pso"]}, ("data.classes", "unknown")),
        ({"train": ROWS}, {"classes": ["neg"]}, ("data.classes", "range")),
        ({"train": ROWS}, {"text": ["text", "text"]}, ("data.text", "conflict")),
    ],
)
def test_rows_and_settings_that_cannot_be_used(
    saved: Callable[..., str], splits: dict[str, Any], settings: dict[str, Any], expected: tuple[str, str]
) -> None:
    assert refused(lambda: rows_of(source_of(saved(**splits), **settings))) == [expected]


def test_a_model_is_evaluated_on_one_split(saved: Callable[..., str]) -> None:
    data = Hub(dataset=saved(train=UNLABELLED, test=ROWS))
    data.test_only("test", ["pos", "neg"], ordered=False)
    source = data.source(lambda *_: None)
    assert [row.label for row in rows_of(source, "test")][:2] == [1, 0]
    assert (source.splits, source.labels) == (("test",), ("pos", "neg"))


def folder_of(path: Path, **files: str) -> str:
    for name, content in files.items():
        file = path / name.replace("__", "/").replace("_dot_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return str(path)


CSV = "text,label\n" + "".join(f"{text},{label}\n" for text, label in zip(TEXTS, LABELS, strict=True))


def test_a_folder_of_data_files(tmp_path: Path) -> None:
    source = source_of(folder_of(tmp_path / "files", train_dot_csv=CSV, test_dot_csv=CSV))
    assert source.splits == ("train", "test")
    assert rows_of(source, "test") == [Row(text, label) for text, label in zip(TEXTS, LABELS, strict=True)]


def test_configurations(tmp_path: Path) -> None:
    card = "---\nconfigs:\n- config_name: first\n  data_files: a.csv\n- config_name: second\n  data_files: b.csv\n---\n"
    folder = folder_of(tmp_path / "files", README_dot_md=card, a_dot_csv=CSV, b_dot_csv=CSV.replace("film", "book"))
    assert rows_of(source_of(folder, config="second"))[0].text == "bad book 0"
    for config in (None, "secnd"):
        assert_refused(partial(source_of, folder, config=config), "data.dataset", "damaged", "first", "second")


def test_nothing_in_a_data_set_is_run(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    script = folder_of(tmp_path / "script", script_dot_py=f"open({str(marker)!r}, 'w')", train_dot_csv=CSV)
    assert refused(lambda: source_of(script)) == [("data.dataset", "damaged")]
    (tmp_path / "pickles").mkdir()
    (tmp_path / "pickles" / "train.pkl").write_bytes(pickle.dumps(Harmful(marker)))
    assert refused(lambda: source_of(str(tmp_path / "pickles"))) == [("data.dataset", "not_found")]
    assert not marker.exists()


def cut(folder: Path) -> None:
    [file] = folder.glob("*.arrow")
    file.write_bytes(file.read_bytes()[:500])


@pytest.mark.parametrize(
    "damage",
    [
        cut,
        lambda folder: [file.unlink() for file in folder.glob("*.arrow")],
        lambda folder: (folder / "state.json").write_text("{"),
        lambda folder: (folder / "state.json").write_text("[]"),
        lambda folder: (folder / "dataset_info.json").write_text('{"features": {"text": {"_type": "Nothing"}}}'),
    ],
    ids=["cut", "no_data", "half_state", "other_state", "unknown_type"],
)
def test_damaged_folders(saved: Callable[..., str], damage: Callable[[Path], object]) -> None:
    folder = saved()
    damage(Path(folder))
    assert fault_of(lambda: source_of(folder)).key == "data.dataset"


@pytest.mark.parametrize("text", [b"bad film 0", b"neg"], ids=["text", "label"])
def test_texts_that_are_not_utf8(saved: Callable[..., str], text: bytes) -> None:
    labels = ["neg", "pos"] * 20
    folder = Path(saved({"text": TEXTS, "label": labels}, {"text": STRING, "label": STRING}))
    [file] = folder.glob("*.arrow")
    file.write_bytes(file.read_bytes().replace(text, b"\xff" * len(text)))
    assert refused(lambda: rows_of(source_of(str(folder)))) == [("data.dataset", "damaged")]


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({}, "not_found"),
        ({"README_dot_md": "# empty"}, "not_found"),
        ({"README_dot_md": "---\na: [[\n---\n"}, "damaged"),
    ],
)
def test_folders_that_hold_no_data_set(tmp_path: Path, files: dict[str, str], kind: str) -> None:
    assert refused(lambda: source_of(folder_of(tmp_path / "files", **files))) == [("data.dataset", kind)]


@pytest.mark.parametrize("name", ["", None, "train.csv", "../missing", "a/b/c", "/missing", "~nobody/x"])
def test_names_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str | None) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.csv").write_text(CSV)
    kind = "not_found" if name else "missing"
    assert refused(lambda: source_of(name)) == [("data.dataset", kind)]  # type: ignore[arg-type]


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert refused(lambda: source_of("fancyzhx/ag_news")) == [("data", "package")]


def test_a_name_without_a_network_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail("it waits"))
    assert refused(lambda: source_of("fancyzhx/ag_news")) == [("data.dataset", "not_found")]
    assert not datasets.config.HF_HUB_OFFLINE


def test_the_copy_in_the_cache_serves_without_a_network(tmp_path: Path) -> None:
    folder = tmp_path / "hub_cache" / "fancyzhx___ag_news" / "default" / "0.0.0" / "0123abcd"
    dataset().save_to_disk(tmp_path / "saved")
    [data] = (tmp_path / "saved").glob("*.arrow")
    folder.mkdir(parents=True)
    shutil.copy(data, folder / "ag_news-train.arrow")
    info = json.loads((tmp_path / "saved" / "dataset_info.json").read_text())
    of_split = {"name": "train", "num_bytes": 0, "num_examples": 40, "dataset_name": "ag_news"}
    names = {"builder_name": "parquet", "dataset_name": "ag_news", "config_name": "default"}
    about = {**names, "splits": {"train": of_split}}
    (folder / "dataset_info.json").write_text(json.dumps(info | about | {"version": {"version_str": "0.0.0"}}))
    assert [row.text for row in rows_of(source_of("fancyzhx/ag_news"))] == TEXTS


def test_what_the_hub_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise datasets.exceptions.DatasetNotFoundError("'user/gated' is a gated dataset on the Hub.")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    assert_refused(lambda: source_of("user/gated"), "data.dataset", "not_found", "gated dataset", "hf auth login")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["data.dataset=fancyzhx/ag_news"], "ag_news"),
        (["data.dataset=nyu-mll/glue", "data.config=sst2"], "glue-sst2"),
        (["data.dataset=a/b", "data.config=../../x"], "b-.._.._x"),
        (["data.dataset=/data/reviews/"], "reviews"),
        (["data.dataset=.."], "hub"),
        (["data.dataset=/"], "hub"),
        (["data.dataset=a/-rf \\..\\ü"], "rf_.._ü"),
        (["data.dataset=a/b", "data.name=c"], "c"),
        ([], "hub"),
    ],
)
def test_the_name_in_paths_is_the_last_part(words: Sequence[str], name: str) -> None:
    assert compose(["data=hub", *words])["data"]["name"] == name


def test_a_folder_and_the_hub_are_one_setting() -> None:
    hashes = {setting_hash(compose(["data=hub", f"data.dataset={name}"])) for name in ("fancyzhx/ag_news", "d/ag_news")}
    pinned = compose(["data=hub", "data.dataset=fancyzhx/ag_news", "data.revision=1234567"])
    assert hashes == {setting_hash(pinned)}
    assert pinned["data"]["revision"] == "1234567"


def test_the_commands(saved: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    saved(train=ROWS, test=ROWS)
    assert train.main(tiny("data=hub", "data.dataset=saved", "trainer.max_epochs=1")) == 0
    [result] = tmp_path.glob("outputs/saved/structured/*/result.json")
    assert load(result.parent).classifier.labels == ("neg", "pos")
    dataset().save_to_disk(tmp_path / "other")
    (tmp_path / "reviews.csv").write_text("review,label\nGood!,pos\nBad!,neg\n")
    output = f"output={tmp_path / 'metrics.json'}"
    for words in (["data.dataset=saved"], ["data=table", "data.test=reviews.csv", "data.text=review"]):
        assert evaluate.main([str(result.parent), output, *words]) == 0
        assert "test/accuracy" in json.loads((tmp_path / "metrics.json").read_text())
    assert train.main(tiny("data=hub", "data.dataset=savd")) == 2

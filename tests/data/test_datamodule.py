"""Data modules: splits, vocabulary, batches and what they report."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from file_server import serving
from list_source import ROWS, GivenData
from pytorch_lightning import LightningModule, Trainer
from refusals import assert_refused, refused

from sentattn.data.batching import Batch
from sentattn.data.corpus import Row
from sentattn.data.datasets.imdb import Imdb
from sentattn.data.readers.download import REGISTRY


def test_fields_of_a_split(data_of: Callable[..., GivenData]) -> None:
    first = Row("Sch\xf6n <br />\U0001f600!", 1, "tt1", ((0, 5), (13, 14)))
    data = data_of({**ROWS, "train": [first, *ROWS["train"][1:]]})
    train, test = data.split("train"), data.split("test")
    assert train.labels.tolist() == [1, 0, 1]
    assert train.lengths.tolist() == [3, 2, 3]
    assert train.row.tolist() == [0, 1, 2]
    assert test.row.tolist() == [0, 1]
    assert train.group == ["tt1", "tt2", ""]
    assert [train.texts(i) for i in range(3)] == [first.text, "bad film", "good good bad"]
    assert test.texts(1) == "a very bad film"
    assert [train.rationale(i) for i in range(3)] == [[(0, 5), (13, 14)], [], []]
    # printf 'bad film' | sha256sum
    assert train.row_id[1] == "728b5dbc137f060b"
    assert (len(train), len(test)) == (3, 2)


def test_classes_are_counted_in_the_training_rows(data_of: Callable[..., GivenData]) -> None:
    assert data_of().class_counts == {"negative": 1, "positive": 2}
    assert data_of({**ROWS, "train": ROWS["train"][:1]}).class_counts == {"negative": 0, "positive": 1}


def test_the_vocabulary_is_that_of_the_training_rows(data_of: Callable[..., GivenData]) -> None:
    data = data_of()
    data.prepare()
    assert data.tokenizer.words == ["good", "bad", "film"]
    assert refused(data_of(min_count=5).prepare) == [("data.min_count", "range")]
    assert data_of(min_count=3).batches("val").dataset[0].tokens_BL.tolist() == [[2, 1]]
    assert next(iter(data_of(vocab_size=2).batches("train"))).tokens_BL.tolist() == [[2, 2, 1], [2, 2, 3], [3, 1, 0]]


def test_both_unicode_forms_of_an_accent_are_one_word(data_of: Callable[..., GivenData]) -> None:
    rows = {"train": [Row("caf\xe9 bad", 1), Row("cafe\u0301", 0)], "val": [Row("cafe\u0301", 1)]}
    rows["test"] = rows["val"]
    data = data_of(rows, normalize="nfc")
    assert [batch.tokens_BL.tolist() for batch in data.batches("val")] == [[[2]]]
    assert data.tokenizer.words == ["caf\xe9", "bad"]
    assert data.tokenizer.encode(["cafe\u0301"])[0].ids.tolist() == [2]
    assert data_of(rows).batches("val").dataset[0].tokens_BL.tolist() == [[3]]  # null, from a cache of its own


def test_scripts_without_spaces_are_reported(data_of: Callable[..., GivenData]) -> None:
    chinese = {
        "train": [Row("\u597d\u7535\u5f71", 1), Row("\u574f\u7535\u5f71", 0)],
        **{s: ROWS[s] for s in ("val", "test")},
    }
    for rows, count in ((chinese, 1), (ROWS, 0), ({**ROWS, "test": chinese["train"]}, 0)):
        data = data_of(rows)
        data.prepare()
        assert sum("data.tokenizer=" in message for message in data.report) == count


def test_batches_have_the_ids_of_the_tokenizer(data_of: Callable[..., GivenData]) -> None:
    data = data_of(max_length=3, batch_size=1)
    for split in ("train", "val", "test"):
        for batch in data.batches(split):
            text = data.split(split).texts(int(batch.rows_B))
            assert batch.tokens_BL[0].tolist() == data.tokenizer.encode([text])[0].ids.tolist()
            assert batch.labels_B.tolist() == [data.split(split).labels[int(batch.rows_B)]]


def test_a_trained_models_vocabulary_can_be_used(data_of: Callable[..., GivenData]) -> None:
    data = data_of()
    data.prepare(words=["play", "bad"])
    assert next(iter(data.batches("test"))).tokens_BL.tolist() == [[1, 1, 3, 1], [3, 2, 0, 0]]
    assert data.tokenizer.words == ["play", "bad"]


def test_other_settings_use_the_cached_corpus(
    data_of: Callable[..., GivenData], monkeypatch: pytest.MonkeyPatch
) -> None:
    data_of().prepare()
    monkeypatch.setattr("sentattn.data.corpus.build", lambda *args, **kwargs: pytest.fail("built again"))
    other = data_of(min_count=2, vocab_size=1, max_length=2, clip="tail", batch_size=2, drop_duplicates=True)
    assert next(iter(other.batches("train"))).tokens_BL.tolist() == [[2, 1], [1, 1]]


def test_report(data_of: Callable[..., GivenData]) -> None:
    data = data_of()
    data.prepare()
    rows, warning, vocabulary = data.report[1:]
    assert rows.startswith("given: 3 train, 1 val, 2 test ")
    assert rows.endswith(": negative, positive.")
    assert warning.startswith("warning: ")
    assert re.findall(r"\d\S*", vocabulary) == ["3", "50.0%"]


@pytest.mark.parametrize(
    ("max_length", "numbers"), [(4, []), (3, ["1", "6", "94.1%"]), (2, ["4", "6", "70.6%"]), (None, [])]
)
def test_texts_that_are_cut_are_reported(
    max_length: int | None, numbers: list[str], data_of: Callable[..., GivenData]
) -> None:
    # 3, 2 and 3 words in train, 2 in val, 3 and 4 in test
    data = data_of({**ROWS, "test": [Row("bad play now", 0), Row("a very bad film", 0)]}, max_length=max_length)
    data.prepare()
    shown = [message for message in data.report if message.startswith("data.max_length=")]
    assert [re.findall(r"(?<= )\d\S*", message) for message in shown] == ([numbers] if numbers else [])


def test_the_fingerprint_depends_on_rows_only(data_of: Callable[..., GivenData]) -> None:
    first, same, fewer = data_of(), data_of(vocab_size=1, max_length=1, batch_size=9), data_of(limit=1)
    for data in (first, same, fewer):
        data.prepare()
    assert first.fingerprint == same.fingerprint != fewer.fingerprint


def test_faulty_settings_are_refused_together() -> None:
    found = refused(lambda: GivenData(None, name="given", batch_size=0, clip="middle"))  # type: ignore[arg-type]
    assert found == [("batch_size", "range"), ("clip", "range")]


class Watcher(LightningModule):
    """Notes the rows that training brings."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.epochs: list[list[int]] = []

    def on_train_epoch_start(self) -> None:
        self.epochs.append([])

    def training_step(self, batch: Batch, batch_idx: int) -> torch.Tensor:
        assert isinstance(batch, Batch)
        self.epochs[-1] += batch.rows_B.tolist()
        return self.weight.sum()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.mark.parametrize("batching", ["sorted", "random"])
def test_lightning_shuffles_the_rows_each_epoch(
    data_of: Callable[..., GivenData], batching: str, recwarn: pytest.WarningsRecorder
) -> None:
    rows = {"train": [Row("good " * (i % 7 + 1), i % 2) for i in range(60)], "val": ROWS["val"], "test": ROWS["test"]}

    def epochs(seed: int) -> list[list[int]]:
        data, watcher = data_of(rows, batch_size=8, batching=batching), Watcher()
        data.seed = seed
        trainer = Trainer(
            max_epochs=2,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(watcher, datamodule=data)
        return watcher.epochs

    first, second = epochs(seed=0)
    assert sorted(first) == sorted(second) == list(range(60))
    assert first != second
    assert epochs(seed=0) == [first, second]
    assert epochs(seed=1)[0] != first


def test_worker_processes_give_the_same_batches(data_of: Callable[..., GivenData]) -> None:
    here, there = data_of(batch_size=2).batches("train"), data_of(batch_size=2, num_workers=1).batches("train")
    for ours, theirs in zip(here, there, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_imdb_is_downloaded_by_default(imdb_archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = imdb_archive.read_bytes()
    monkeypatch.setitem(REGISTRY, imdb_archive.name, hashlib.sha256(content).hexdigest())
    messages: list[str] = []
    with serving(content) as server:
        data = Imdb(mirror=server.address, val_size=2, cache_dir=str(tmp_path / "cache"))
        assert server.requests == []
        data.prepare(lambda stage, done, total: messages.append(stage))
    assert "4 train, 2 val, 2 test" in data.report[1]
    assert imdb_archive.name in messages[0]
    again = Imdb(val_size=2, cache_dir=str(tmp_path / "cache"))
    again.prepare()
    assert again.fingerprint == data.fingerprint


def test_imdb_without_a_network_names_the_file_to_download(tmp_path: Path) -> None:
    prepare = Imdb(cache_dir=str(tmp_path)).prepare
    assert_refused(prepare, "data.path", "network", "https://ai.stanford.edu/", "data.path=FILE")


def test_validation_rows_depend_on_split_seed(imdb_archive: Path, tmp_path: Path) -> None:
    def rows(seed: int, split_seed: int) -> list[int]:
        data = Imdb(path=str(imdb_archive), split_seed=split_seed, val_size=3, cache_dir=str(tmp_path / "cache"))
        data.seed = seed
        return data.split("val").row.tolist()

    assert rows(0, 0) == rows(1, 0)
    assert len({str(rows(0, split_seed)) for split_seed in range(10)}) > 1

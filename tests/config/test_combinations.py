"""Settings that conflict."""

from __future__ import annotations

import pytest
from refusals import faults, kinds

from sentattn.config.compose import compose


def test_a_test_needs_rows() -> None:
    assert kinds(["data=table", "data.test_size=0"]) == [("data.test_size", "conflict")]
    assert compose(["data=table", "data.test_size=0", "test=false"])["data"]["test_size"] == 0


def test_a_fused_optimizer_is_refused_with_clipping_in_float16() -> None:
    [fault] = faults(["trainer.precision=16-mixed"])
    assert (fault.key, fault.kind) == ("trainer.precision", "conflict")
    assert "type trainer.precision=bf16-mixed, or optimizer.fused=false" in fault.message
    for mended in ("optimizer.fused=false", "trainer.gradient_clip_val=null", "optimizer=sgd"):
        compose(["trainer.precision=16-mixed", mended])


TABLE = ["data=table", "data.train=a.csv"]


def test_a_table_with_groups_is_split_by_group() -> None:
    """It is written out: otherwise `row` and the default would be one setting to the hash."""
    assert compose(TABLE)["data"]["val_by"] is None
    assert compose([*TABLE, "data.group=film"])["data"]["val_by"] == "group"
    assert compose([*TABLE, "data.group=film", "data.val_by=row"])["data"]["val_by"] == "row"
    files = ["data.val=b.csv", "data.test=c.csv"]
    assert compose([*TABLE, "data.group=film", *files])["data"]["val_by"] is None


@pytest.mark.parametrize("word", ["data.name=../../x", "data.name=a\\b", "model.name=..", "model.name=/x"])
def test_names_of_folders_are_no_paths(word: str) -> None:
    assert kinds([word]) == [(word.partition("=")[0], "range")]
    assert compose(["data.name=my-reviews_2.0", "data=imdb"])["data"]["name"] == "my-reviews_2.0"


FOLDS = [*TABLE, "data.folds=5"]


def test_folds_are_of_all_rows_and_are_tested() -> None:
    assert compose([*FOLDS, "data.fold=4"])["data"]["fold"] == 4
    assert kinds([*TABLE, "data.fold=0"]) == [("data.fold", "no_effect")]
    assert kinds([*FOLDS, "data.fold=5"]) == [("data.fold", "range")]
    assert kinds([*TABLE, "data.folds=1"]) == [("data.folds", "range")]
    for word in ("data.val=b.csv", "data.test=b.csv", "data.test_size=9", "test=false"):
        assert kinds([*FOLDS, word]) == [(word.partition("=")[0], "conflict")]

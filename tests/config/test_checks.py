"""Each error of typed settings: its key, its kind, and what the message says to type."""

from __future__ import annotations

import pytest
from refusals import faults, kinds

FAULTS: dict[str, tuple[str, ...]] = {
    "modle=structured": ("modle", "unknown", "'model'"),
    "model=structurd": ("model", "unknown", "Did you mean 'structured'?"),
    "model.attention.hop=3": ("model.attention.hop", "unknown", "'model.attention.hops'"),
    "model.attention.hops=many": ("model.attention.hops", "type"),
    "model.attention.hops=0": ("model.attention.hops", "range"),
    "model.attention.hops=3.0": ("model.attention.hops", "type"),
    "model=mean model.attention.hops=4": ("model.attention.hops", "unknown"),
    "model/atention=uniform": ("model/atention", "unknown", "'model/attention'"),
    "model.attention=uniform": ("model.attention", "unknown"),
    "model/attention.hops=3": ("model/attention.hops", "unknown"),
    "modle.attention.hops=3": ("modle.attention.hops", "unknown", "'model.attention.hops'"),
    "model.attention.dim=3": ("model.attention.dim", "unsupported"),
    "model.attention._target_=a.B": ("model.attention._target_", "unsupported"),
    "model.head=3": ("model.head", "unsupported"),
    "model.head.widht=3": ("model.head.widht", "unknown", "'model.head.width'"),
    "model@other=mean": ("model", "unknown", "key=value"),
    "hops=4": ("hops", "unknown", "'model.attention.hops'"),
    "epochs=10": ("epochs", "unknown", "'trainer.max_epochs'"),
    "data=reviews.csv": ("data", "unknown", "data=table data.train=reviews.csv"),
    "data=demo data.val_by=group": ("data.val_by", "unknown"),
    "data=imdb data.folds=5": ("data.folds", "unknown", "data=table"),
    "data.path=": ("data.path", "unknown"),
    "data=imdb data.path=": ("data.path", "missing"),
    "data.clip=middle": ("data.clip", "range"),
    "trainer.limit_train_batches=0": ("trainer.limit_train_batches", "range"),
    "trainer.limit_train_batches=1.5": ("trainer.limit_train_batches", "range"),
    "trainer.precision=16": ("trainer.precision", "range"),
    "trainer.logger=mine": ("trainer.logger", "unsupported"),
    "optimizer.lr=nan": ("optimizer.lr", "range"),
    "optimizer={lr:1}": ("optimizer", "unknown"),
    "optimizer.differentiable=true": ("optimizer.differentiable", "unsupported"),
    "logger=none logger.mode=offline": ("logger.mode", "unknown"),
    "logger=null": ("logger", "unknown"),
    "model=": ("model", "unknown"),
    "loss.penalty=0.3 model=mean": ("loss.penalty", "no_effect"),
    "loss.penalty=1 model/attention=latent": ("loss.penalty", "no_effect"),
    "loss.penalty=1 model=relation_plain": ("loss.penalty", "no_effect"),
    "loss.class_weights=[1,0]": ("loss.class_weights", "range"),
    "loss.class_weights=balance": ("loss.class_weights", "range"),
    "data.max_length=400 model.embedding.positions=200": ("model.embedding.positions", "conflict"),
    "model=feedforward model.attention.position_bias=599": ("model.attention.position_bias", "conflict"),
    "loss.penalty=choice(0,1)": ("loss.penalty", "type"),
    "seed=1,2": ("seed", "type"),
    "seed=range(1,3)": ("seed", "type"),
    "tags=a": ("tags", "type"),
    "seed=": ("seed", "missing"),
    "seed=-1": ("seed", "range"),
    "model.attention.hops=99999999999999999999": ("model.attention.hops", "range"),
    "loss.class_weights=[1,99999999999999999999]": ("loss.class_weights", "range"),
    "data.batching=fixed data.bucket_ratio=1e10": ("data.bucket_ratio", "range"),
    "seed.x=1": ("seed.x", "unsupported"),
    "seed=1 seed=2": ("seed", "conflict"),
    "test=yes": ("test", "type"),
    "objective=3": ("objective", "unsupported"),
    "objective.metirc=x": ("objective.metirc", "unknown", "'objective.metric'"),
    "objective.metric=test/accuracy": ("objective.metric", "range"),
    "objective.metric=val/log_loss": ("objective.mode", "conflict"),
    "trainer.min_epochs=10": ("trainer.min_epochs", "conflict"),
    "choices=x": ("choices", "unknown"),
    "choices.model=x": ("choices.model", "unknown"),
    "resume=x": ("resume", "unknown"),
    "+trainer.profiler=simple": ("trainer.profiler", "unknown", "key=value"),
    "trainer.max_time=00:01:00:00": ("trainer.max_time", "unsupported"),
    "trainer.limit_predict_batches=3": ("trainer.limit_predict_batches", "unsupported", "data.limit"),
    "++seed=1": ("seed", "unknown", "'seed'"),
    "~model/wide": ("model/wide", "unknown", "key=value"),
    "--info defaults": ("info", "unknown", "--cfg job"),
    "--config-name=keras_imdb": ("config-name", "unknown", "--config-dir"),
    "-cn mine": ("cn", "unknown"),
    "--cfg hydra": ("cfg", "unknown", "--cfg job"),
    "num_epochs=3": ("num_epochs", "unknown", "'trainer.max_epochs'"),
    "min_epoch=3": ("min_epoch", "unknown", "'trainer.min_epochs'"),
    "structured": ("structured", "missing", "Did you mean model=structured?"),
    "a.csv": ("a.csv", "missing", "data=table data.train=a.csv"),
    "model.attention.hops": ("model.attention.hops", "missing"),
    "--multrun": ("multrun", "unknown", "--multirun"),
    "--modle": ("modle", "unknown", "'model'"),
    "--model=mean": ("model", "unknown"),
    "=3": ("", "unknown"),
    "seed=(1": ("seed", "type"),
    "tags=[a,b": ("tags", "type"),
    "group=a,b": ("group", "type", "in quotes"),
    "loss.penalty=${seed}": ("loss.penalty", "type"),
    "data=table data.train=a.csv data.text=${x}": ("data.text", "type"),
    "output_dir=${x": ("output_dir", "type"),
    "data=imdb data.path=${oc.env:DATA,x}": ("data.path", "type", 'data.path="$NAME"'),
    "hydra.run.dir=x": ("hydra.run.dir", "unknown"),
    "hydra/launcher=joblib": ("hydra/launcher", "unknown"),
    "--config-dir nowhere": ("--config-dir", "not_found"),
    "--config-dir": ("--config-dir", "missing"),
}
"""Typed arguments: key and kind of the only error, and what the message says to type instead."""


@pytest.mark.parametrize("line", FAULTS)
def test_key_kind_and_advice_of_a_fault(line: str) -> None:
    [fault] = faults(line.split())
    key, kind, *advice = FAULTS[line]
    assert (fault.key, fault.kind) == (key, kind)
    assert "".join(advice) in fault.message
    assert fault.message.endswith((".", "?"))
    assert not set("\n+") & set(fault.message.replace(line, ""))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "data=imbd model.attention.hop=3 seed=x nonsense seed=x loss.penalty=-1",
            [
                ("data", "unknown"),
                ("model.attention.hop", "unknown"),
                ("seed", "type"),
                ("nonsense", "missing"),
                ("loss.penalty", "range"),
            ],
        ),
        (
            "model/pooling=prune model/attention=uniform model.attention.hops=3 loss.penalty=1 "
            "data.max_length=400 model.embedding.positions=200",
            [
                ("model.pooling.p", "missing"),
                ("model.pooling.q", "missing"),
                ("model.attention.hops", "unknown"),
                ("loss.penalty", "no_effect"),
                ("model.embedding.positions", "conflict"),
            ],
        ),
        (
            "model=lstm_max model.pooling.p=8 loss.penalty=1 loss.class_weight_power=0.5 data.max_length=null "
            "model.embedding.positions=200 objective.metric=val/log_loss",
            [
                ("model.pooling.p", "unknown"),
                ("loss.penalty", "no_effect"),
                ("model.embedding.positions", "conflict"),
                ("objective.mode", "conflict"),
            ],
        ),
        # What is below a misspelt choice is not checked.
        ("data=zzz data.stars=3", [("data", "unknown")]),
        ("modle=mean model.attention.hop=3", [("modle", "unknown")]),
        ("model=mena model.x=1", [("model", "unknown")]),
    ],
)
def test_all_faults_are_reported(line: str, expected: list[tuple[str, str]]) -> None:
    assert sorted(kinds(line.split())) == sorted(expected)

"""The hash by which runs are seeds of one setting: what counts in it, and the defaults that it leaves out."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import pytest
from choices_of_ones_own import config_folder

from sentattn.config.compose import changes, compose, override
from sentattn.config.groups import conf_dir, get_path, load
from sentattn.config.hashing import default, setting_hash
from sentattn.config.parameters import TABLE
from sentattn.config.schema import TOP
from sentattn.run import RUN_FORMAT

WITHOUT_EFFECT = [
    *("trainer.num_sanity_val_steps=2", "trainer.log_every_n_steps=1"),
    *("trainer.profiler=simple", "trainer.detect_anomaly=true", "trainer.inference_mode=false"),
]
SAME = ["seed=4", "output_dir=x", "logger=none", "tags=[a]", "group=g", "test=false", "trainer.accelerator=cpu"]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ([], {}),
        (["model=transformer", "data=imdb", "optimizer.lr=0.1"], {}),
        (["model.attention.hops=2"], {"model.attention.hops": 2}),
        (["model/encoder=cnn", "model.encoder.channels=8"], {"model.encoder.channels": 8}),
        (["model=pretrained", "model.embedding.name=my/encoder"], {"model.embedding.name": "encoder"}),
        (["experiment=bahdanau_imdb"], {"experiment": "bahdanau_imdb"}),
        (
            ["experiment=bahdanau_imdb", "model.head.width=9"],
            {"experiment": "bahdanau_imdb", "model.head.width": 9},
        ),
        (["model/attention=max", "model.freeze_attention=true"], {}),
    ],
)
def test_the_changes_are_what_the_choices_do_not_say(typed: list[str], expected: dict[str, object]) -> None:
    assert changes(compose(typed)) == expected


def test_settings_without_choices_are_compared_with_the_variant() -> None:
    settings = {key: value for key, value in compose(["model.attention.hops=2"]).items() if key != "choices"}
    assert changes(settings) == {"model.attention.hops": 2}


def test_the_hash_ignores_settings_without_effect_on_the_result() -> None:
    defaults = ["loss.penalty=0", "optimizer.lr=5e-3"]
    words = [*SAME, *WITHOUT_EFFECT, "data.num_workers=2", "data.cache_dir=x", *defaults]
    assert setting_hash(compose(words)) == setting_hash(compose([]))
    assert setting_hash(compose(["trainer.log_every_n_steps=null"])) == setting_hash(compose([]))


def test_the_hash_does_not_depend_on_the_order() -> None:
    settings = compose([])
    assert setting_hash(dict(reversed(settings.items()))) == setting_hash(settings)


DEFAULTS = (2, "5cf2b9bceb79")
"""The format of runs, and the hash of all defaults that a hash leaves out."""


def test_another_default_needs_another_format() -> None:
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    defaults = {
        f"{target}.{name}": default
        for target, entry in table.items()
        for name, (_, *default) in entry["takes"].items()
        if default
    }
    top = load(conf_dir() / "train.yaml")
    defaults |= {key: get_path(top, key) for key in TOP}
    digest = hashlib.sha256(json.dumps(defaults, sort_keys=True).encode()).hexdigest()[:12]
    assert (RUN_FORMAT, digest) == DEFAULTS, (
        "Defaults of constructors or of conf/train.yaml have changed, and hashes leave defaults out. If a setting only "
        "came or went, write the new digest here. If one has another default, raise sentattn.run.FORMAT as well, so "
        "that runs with both are not taken for seeds of one setting, and name the commit that reads the old format."
    )


@pytest.mark.parametrize(
    ("line", "hashed"),
    {
        "": "32ec13cbf63c",
        "model=transformer data=imdb optimizer=adamw scheduler=cosine": "86c1afe6d8d6",
        "experiment=gluon_yelp_faithful": "41b9f49ff300",
        "data=table data.train=a.csv data.group=film model=relation loss.class_weights=balanced": "ccf6df7a79b9",
        "model/embedding=ngrams model=cnn model/wide=attended_ngrams callbacks=early_stopping": "538b58ed77ca",
        "model=pretrained model/attention=uniform "
        "model.embedding.name=encoder model.embedding.frozen=false": "00c8c34bc3e3",
    }.items(),
)
def test_the_hash_of_a_setting_does_not_change(line: str, hashed: str) -> None:
    assert setting_hash(compose([*line.split(), "trainer.precision=32-true"])) == hashed


@pytest.mark.parametrize(
    "line",
    [
        "optimizer.betas=[0.9,0.999]",
        "trainer.limit_train_batches=null",
        "trainer.limit_train_batches=1.0",
        "model.attention.dropout=0",
        "model.freeze_attention=false",
        "model.head.init=torch",
        "data=table data.train=a.csv data.header=true",
    ],
)
def test_a_typed_default_is_the_same_setting(line: str) -> None:
    *words, last = line.split()
    assert setting_hash(compose([*words, last])) == setting_hash(compose(words))


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("model.attention.hidden=8", "model=relation_plain"),
        ("model.attention.hops=2", "model/attention=query model.attention.query_from=first"),
        ("model.attention.hidden=8", "model/attention=statistics model.attention.weights=uniform"),
        ("model.embedding.lr=1e-3", "model=pretrained model.embedding.name=encoder"),
        ("model.embedding.word_dropout=0.2", "model=pretrained model.embedding.name=encoder"),
        ("model.embedding.init_std=0.2", "data.vectors=train"),
        ("weight_decay_on=attention_and_head", "optimizer.weight_decay=0"),
        ("loss.penalty_form=norm", "loss.penalty=0"),
        ("loss.class_weight_power=0.5", "loss.class_weights=none"),
        ("loss.class_weight_power=0.5", "loss.class_weights=[1,2]"),
        ("loss.class_weight_reduction=mean", "loss.class_weights=none"),
        ("trainer.gradient_clip_algorithm=value", "trainer.gradient_clip_val=null"),
        ("model.head.activation=tanh", "model.head.width=null"),
        ("data.num_buckets=3", "data.batching=sorted"),
        ("data.bucket_ratio=3", "data.batching=random"),
        ("data.train_seed=1", "data.train_size=null"),
        ("data.test_seed=1", "data=table data.train=a data.folds=5"),
        ("data.test_seed=1", "data=table data.train=a data.test=b"),
        ("model.attention.normalizer=sparsemax", "model/attention=statistics model.attention.weights=uniform"),
        ("data.fold=1", "data=table data.train=a data.folds=5"),
        ("data.val_by=row", "data=table data.train=a data.val=b data.test=c data.group=d"),
        ("model.wide.share=0.2", "model=wide"),
        ("model.wide.attend=uniform", "model=wide"),
        ("model.embedding.word_dropout=0.2", "model=wide"),
        ("loss.label_smoothing=0.4", "model=wide"),
    ],
)
def test_a_setting_that_does_nothing_makes_no_setting(line: str, cause: str) -> None:
    assert setting_hash(compose([*cause.split(), line])) == setting_hash(compose(cause.split()))


def test_a_setting_below_a_number_has_no_default() -> None:
    assert default({"model": {"embedding": {"dropout": 0.5}}}, "model.embedding.dropout.20") == ()


def test_a_setting_of_an_experiment_that_does_nothing_makes_no_setting(tmp_path: Path) -> None:
    small = {"experiment/small": "# @package _global_\ndata: {vocab_size: 9}\n"}
    words = [config_folder(tmp_path, small), "data.tokenizer=tokenizer.json"]
    assert setting_hash(compose([*words, "experiment=small"])) == setting_hash(compose(words))


@pytest.mark.parametrize(
    ("line", "others"),
    [
        ("model.attention.hidden=8", "model=relation"),
        ("loss.penalty_form=norm", "loss.penalty=1"),
        ("data.test_seed=1", "data=table data.train=a data.test=b data.test_size=9"),
        ("model.attention.normalizer=sparsemax", ""),
        ("data.num_buckets=3", "data.batching=fixed"),
        ("model.head.activation=tanh", "model.head.width=8"),
        ("model.embedding.dtype=bfloat16", "model=pretrained model.embedding.name=encoder"),
        ("loss.label_smoothing=0.4", "model=wide model/wide=none"),
        ("model.wide.share=0.2", "model/wide=ngrams"),
        ("model=mean", ""),
        ("data.normalize=null", ""),
        ("trainer.limit_train_batches=5", ""),
        ("trainer.limit_train_batches=1", ""),
        ("trainer.deterministic=true", ""),
    ],
)
def test_a_setting_that_does_something_makes_one(line: str, others: str) -> None:
    assert setting_hash(compose([*others.split(), line])) != setting_hash(compose(others.split()))


OWN = """
from sentattn.models.attention.base import Attention
class {name}(Attention):
    def __init__(self, *, dim, scale: float = 1.0): ...
"""


def test_the_source_of_a_class_of_ones_own_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "other"):
        (tmp_path / f"hashed_{name}.py").write_text(OWN.format(name=name.title()))
        folder = config_folder(tmp_path, {f"model/attention/{name}": f"_target_: hashed_{name}.{name.title()}\n"})
    monkeypatch.syspath_prepend(str(tmp_path))
    own = [folder, "model/attention=one"]
    before, other = compose(own), compose([folder, "model/attention=other"])
    (tmp_path / "hashed_one.py").write_text(OWN.format(name="One") + "# another one\n")
    after = compose(own)
    hashes = {setting_hash(settings) for settings in (before, after, other)}
    assert len(hashes) == 3
    assert setting_hash(compose([folder, "model/attention=other"])) == setting_hash(other)
    assert setting_hash(override(before, [], trust=True)) == setting_hash(after)  # it is trained by the code of now
    assert setting_hash(override(before, ["data.limit=9"], only=["data"], trust=True)) != setting_hash(
        override(after, ["data.limit=9"], only=["data"], trust=True)
    )


def test_the_source_of_a_base_class_of_ones_own_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hashed_base.py").write_text(OWN.format(name="Base"))
    (tmp_path / "hashed_derived.py").write_text("from hashed_base import Base\nclass Derived(Base): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = config_folder(tmp_path, {"model/attention/own": "_target_: hashed_derived.Derived\n"})
    own = [folder, "model/attention=own"]
    before = compose(own)
    (tmp_path / "hashed_base.py").write_text(OWN.format(name="Base") + "# edited\n")
    assert setting_hash(compose(own)) != setting_hash(before)


def test_hashing_imports_no_class_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "unhashed.py").write_text("raise AssertionError\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = compose([])
    settings["model"]["attention"] = {"_target_": "unhashed.Mine", "hops": 2}
    assert setting_hash(settings) != setting_hash(compose([]))
    assert "unhashed" not in sys.modules


@pytest.mark.parametrize(
    ("part", "node", "setting", "values"),
    [
        ("attention", {"_target_": "mine.Mine", "query_from": "first"}, "hops", (2, 3)),
        ("head", {"_target_": "mine.Mine"}, "activation", ("relu", "tanh")),
    ],
)
def test_settings_of_a_class_of_ones_own_count_whatever_its_other_settings_are(
    part: str, node: dict[str, object], setting: str, values: tuple[object, object]
) -> None:
    settings = compose([])
    one, other = (settings | {"model": {**settings["model"], part: node | {setting: value}}} for value in values)
    assert setting_hash(one) != setting_hash(other)

"""Each fault of what is typed is one sentence that says what to type."""

from __future__ import annotations

import pytest
from config_faults import faults

FAULTS = {
    "modle=structured": ["no group 'modle'", "'model'"],
    "model=structurd": ["no choice 'structurd'", "Did you mean 'structured'?", "lstm_mean, mean"],
    "model.attention.hop=3": ["structured has no 'hop'", "'model.attention.hops'", "hops, hidden, bias"],
    "model.attention.hops=many": ["a whole number, 1 or more"],
    "model.attention.hops=0": ["a whole number, 1 or more"],
    "model.attention.hops=3.0": ["a whole number, 1 or more"],
    "model=mean model.attention.hops=4": ["uniform has no 'hops'; model/attention=structured has it"],
    "model/atention=uniform": ["no group 'model/atention'", "'model/attention'"],
    "model.attention=uniform": ["type model/attention=uniform"],
    "model/attention.hops=3": ["type model.attention.hops=3"],
    "modle.attention.hops=3": ["no setting 'modle'", "'model.attention.hops'"],
    "model.attention.dim=3": ["model.attention.dim is filled in"],
    "model.embedding.num_embeddings=9": ["filled in"],
    "model.attention._target_=a.B": ["not set by hand", "model/attention=NAME"],
    "model.head=3": ["model.head.width"],
    "model.head.widht=3": ["model.head has no 'widht'", "'model.head.width'"],
    "model@other=mean": ["leave out @other"],
    "hops=4": ["no setting 'hops'", "'model.attention.hops'"],
    "max_epoch=4": ["no setting 'max_epoch'", "'trainer.max_epochs'"],
    "data=imbd": ["no choice 'imbd'", "Did you mean 'imdb'?"],
    "data.path=": ["data=demo has no 'path'; data=imdb and data=yelp have it"],
    "data=imdb data.path=": ["data.path= has no value"],
    "data.limit=0": ["a whole number, 1 or more, or null"],
    "data.clip=middle": ["head, tail or both"],
    "trainer.max_epoch=1": ["no 'max_epoch'", "'trainer.max_epochs'"],
    "trainer.max_epochs=ten": ["a whole number, 1 or more"],
    "trainer.precision=16": ["32-true"],
    "trainer.logger=mine": ["sentattn sets trainer.logger itself", "logger=none"],
    "trainer.default_root_dir=x": ["output_dir=FOLDER"],
    "optimizer.lr=-1": ["a number above 0"],
    "optimizer.lr=nan": ["a number above 0"],
    "optimizer={lr:1}": ["optimizer has no choice"],
    "scheduler=onecycle": ["'one_cycle'", "constant, cosine, one_cycle, step"],
    "scheduler=cosine scheduler.gamma=2": ["scheduler=step has it"],
    "logger=none logger.mode=offline": ["logger=wandb has it"],
    "logger=null": ["none, tensorboard, wandb"],
    "experiment=lin": ["no choice 'lin'"],
    "model=": ["has no value", "lstm_mean, mean"],
    "loss.penalty=0.3 model=mean": ["model/attention=uniform has no weights to learn", "choose model/attention="],
    "loss.penalty=1 model/attention=max": ["model/attention=max has no weights to learn", "or structured"],
    "loss.penalty=1 model=lstm": ["model/attention=last has no weights to learn"],
    "loss.penalty=1 model=relation_plain": ["model/attention=relation with model.attention.score=none has no weights"],
    "loss.class_weights=[1,2,3]": ["does not fit the 2 classes of data=demo: type one number for each", "=[1,2]."],
    "loss.class_weights=[1,2,3] data=imdb": ["does not fit the 2 classes of data=imdb"],
    "loss.class_weights=[]": ["does not fit the 2 classes of data=demo"],
    "loss.class_weights=[1,0]": ["none or balanced, or a list such as [a,b], each a number above 0"],
    "loss.class_weights=balance": ["none or balanced"],
    "loss.class_weight_power=0.5": ["nothing with loss.class_weights=none", "type loss.class_weights=balanced"],
    "loss.class_weights=[1,2] loss.class_weight_power=1": ["does nothing with loss.class_weights=[1,2]"],
    "loss.class_weight_reduction=mean": ["nothing with loss.class_weights=none", "type loss.class_weights=balanced"],
    "loss.class_counts=3": ["loss.class_counts is filled in"],
    "data.max_length=400 model.embedding.positions=200": [
        "model.embedding.positions=200 is too few for texts of data.max_length=400 tokens",
        "type model.embedding.positions=400 or data.max_length=200",
    ],
    "model=feedforward model.attention.position_bias=599": ["too few", "type model.attention.position_bias=600"],
    "data.max_length=null model.embedding.positions=200": [
        "too few for texts of any length (data.max_length=null)",
        "type data.max_length=200, or model.embedding.positions=null",
    ],
    "data.max_length=null model=transformer": [
        "data.max_length=null leaves no length for model.embedding.positions",
        "type data.max_length=600, or model.embedding.positions=null",
    ],
    "model.pooling.p=8": ["model/pooling=flatten has no 'p'; model/pooling=prune has it"],
    "loss.penalty=choice(0,1)": ["one value", "several trainings"],
    "seed=1,2": ["one value", "several trainings"],
    "seed=range(1,3)": ["one value"],
    "tags=a,b": ["tags=[a,b]"],
    "tags=a": ["a list such as [a,b]"],
    "seed=": ["has no value", "a whole number from 0 to 4294967295"],
    "seed=-1": ["a whole number from 0 to 4294967295"],
    "seed.x=1": ["seed is one value"],
    "seed=1 seed=2": ["given twice, as 1 and as 2"],
    "test=yes": ["true or false"],
    "ema_decay=1": ["from 0 to below 1 or null"],
    "objective=3": ["objective.metric, objective.mode"],
    "objective.metirc=x": ["'objective.metric'"],
    "objective.metric=test/accuracy": ["val/accuracy"],
    "objective.metric=val/log_loss": ["objective.mode=max would keep the worst epoch"],
    "resume=x": ["no setting 'resume'"],
    "+foo=1": ["no setting 'foo'"],
    "+trainer.profiler=simple": ["type trainer.profiler=simple"],
    "trainer.check_val_every_n_epoch=2": ["each epoch is validated"],
    "trainer.limit_val_batches=3": ["data.limit=ROWS"],
    "trainer.max_time=00:01:00:00": ["trainer.max_epochs=EPOCHS"],
    "trainer.devices=0": ["trainer.devices=0 is not legal: it takes a whole number, 1 or more,"],
    "trainer.strategy=fsdp": ["trainer.strategy=fsdp is not legal: it takes auto or ddp."],
    "trainer.use_distributed_sampler=true": ["each device gets rows of its own from every batch"],
    "trainer.fast_dev_run=true": ["data.limit=200 trainer.max_epochs=1"],
    "++seed=1": ["type seed=1"],
    "~loss": ["loss=NAME"],
    "structured": ["Did you mean model=structured?"],
    "model": ["type model=NAME", "lstm_mean, mean"],
    "model.attention.hops": ["type model.attention.hops=VALUE"],
    "--modle": ["no option", "'model'"],
    "--model=mean": ["without dashes", "type model=mean"],
    "--hlep": ["'--help'"],
    "=3": ["no name before the ="],
    "1a=3": ["'1a' cannot be the name"],
    "seed=(1": ["the ( in it has no partner"],
    "tags=[a,b": ["the [ in it has no partner"],
    "tags=a]": ["the ] in it has no partner"],
    'group="x': ['the " in it has no partner'],
    "group=It's": ["the ' in it has no partner"],
    "group=K\u00f6ln": ["'group=\"K\u00f6ln\"'"],
    "loss.penalty=${seed}": ["its value itself"],
    "hydra.run.dir=x": ["no setting 'hydra'"],
    "--config-dir nowhere": ["no such folder"],
    "--config-dir": ["needs a folder"],
}


@pytest.mark.parametrize("line", FAULTS)
def test_each_fault_is_one_sentence_that_says_what_to_type(line: str) -> None:
    (sentence,) = faults(line.split())
    assert [part for part in FAULTS[line] if part not in sentence] == []
    assert sentence.endswith((".", "?"))
    assert "\n" not in sentence
    assert "+" not in sentence.replace(line, "")


def test_all_faults_are_told_at_once_in_the_order_typed() -> None:
    typed = ["data=imbd", "model.attention.hop=3", "model=structurd", "seed=x", "nonsense", "seed=x", "loss.penalty=-1"]
    found = faults(typed)
    starts = ["data=imbd", "model.attention.hop=3", "model=structurd", "seed=x", "'nonsense'", "loss.penalty=-1"]
    assert [sentence.startswith(start) for sentence, start in zip(found, starts, strict=True)] == [True] * 6


@pytest.mark.parametrize(
    ("line", "starts"),
    [
        (
            "model/pooling=prune model/attention=uniform model.attention.hops=3 loss.penalty=1 "
            "loss.class_weights=[1,2,3] data.max_length=400 model.embedding.positions=200",
            [
                "model.pooling.p has no value: type model.pooling.p=VALUE; it takes a whole number, 1 or more",
                "model.pooling.q has no value: type model.pooling.q=VALUE; it takes a whole number, 1 or more",
                "model.attention.hops=3: model/attention=uniform has no 'hops'; model/attention=structured has it",
                "loss.penalty=1 can do nothing: model/attention=uniform has no weights to learn; leave it at 0, or",
                "loss.class_weights=[1,2,3] does not fit the 2 classes of data=demo: type one number for each",
                "model.embedding.positions=200 is too few for texts of data.max_length=400 tokens: type",
            ],
        ),
        (
            "model=lstm_max model.pooling.p=8 loss.penalty=1 loss.class_weight_power=0.5 data.max_length=null "
            "model.embedding.positions=200 faithful=true objective.metric=val/log_loss",
            [
                "model.pooling.p=8: model/pooling=flatten has no 'p'; model/pooling=prune has it",
                "loss.penalty=1 can do nothing: model/attention=max has no weights to learn; leave it at 0, or",
                "loss.class_weight_power=0.5 does nothing with loss.class_weights=none: type loss.class_weights=",
                "model.embedding.positions=200 is too few for texts of any length (data.max_length=null): type",
                "faithful=true: model=lstm_max has no quirks to repeat; there are some for",
                "objective.mode=max would keep the worst epoch by val/log_loss: type objective.mode=min",
            ],
        ),
    ],
)
def test_faults_of_every_kind_are_told_together(line: str, starts: list[str]) -> None:
    found = faults(line.split())
    assert [sentence[: len(start)] for sentence, start in zip(found, starts, strict=True)] == starts


def test_what_stands_under_a_choice_that_nobody_knows_is_not_guessed_at() -> None:
    assert len(faults(["data=zzz", "data.stars=3"])) == 1

"""Evaluation of a model on a split, and the result of a training."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import LambdaCallback
from torch import nn

from sentattn import build
from sentattn.config.compose import override
from sentattn.config.types import Node, Tree
from sentattn.console import TERMINAL_WIDTH, Progress, table_lines
from sentattn.data.tokenizer import RULES
from sentattn.distributed import ranks
from sentattn.distributed.devices import MIXED, SINGLE, is_on_gpu
from sentattn.errors import DataError, Fault, Pruned, RunError, UserError, visible
from sentattn.loggers import LoggedRun, build_loggers
from sentattn.loggers.guard import Guard
from sentattn.metrics import MAJORITY, class_metrics, format_value, majority_share
from sentattn.prediction.model import ENCODER_ENTRY, TEXT_SETTINGS, TOKENIZER_FILE, Classifier, LoadedRun
from sentattn.run import MODEL_FOLDER, Run, summarize, writing
from sentattn.training.environment import (
    copy_sources,
    explained_torch_errors,
    git_revision,
    latency_ms,
    peak_memory_bytes,
    quiet_libraries,
    versions,
)
from sentattn.training.lit_module import LitClassifier, build_lit
from sentattn.training.recorder import SPEED, Recorder
from sentattn.training.trainer import build_trainer

if TYPE_CHECKING:
    from sentattn.data.corpus import Split
    from sentattn.data.datamodule import TextData

DIVERGED = 10.0
"""A validation log loss above this many times that of a uniform guess is reported as diverged."""
CLASSES_SHOWN = 10
"""Classes of a table of classes, those with the lowest F1; `result.json` has all."""
PREDICTED_SHOWN = 3
"""Predicted classes of a row of this table, the most frequent ones."""


def evaluating_trainer(trainer: Node, progress: Progress) -> Trainer:
    """Returns a trainer on one device that evaluates, and shows how far it is.

    It is not that of the training, whose callbacks would exchange averaged weights and write checkpoints.

    Raises:
        SettingError: If Lightning refuses the settings.
    """

    def show(trainer: Trainer, module: object, outputs: object, batch: object, batch_idx: int, _: int = 0) -> None:
        split, batches = ("test", trainer.num_test_batches) if trainer.testing else ("val", trainer.num_val_batches)
        progress(f"evaluating {split}", batch_idx + 1, int(sum(batches)))

    def close(*_: object) -> None:
        progress.close()

    shown = LambdaCallback(
        on_validation_batch_end=show, on_validation_end=close, on_test_batch_end=show, on_test_end=close
    )
    with ranks.as_single_process():
        return build_trainer(trainer, callbacks=[shown])


def evaluate(evaluator: Trainer, module: LitClassifier, data: TextData, split: str) -> dict[str, float]:
    """Evaluates a model on `val` or `test`, in one pass and with the weights it has; `module.probabilities` follow.

    Returns metrics such as `val/accuracy`.
    """
    evaluate_split = evaluator.validate if split == "val" else evaluator.test
    [metrics] = evaluate_split(module, dataloaders=data.batches(split), verbose=False)
    return dict(metrics)


def evaluate_run(
    run: LoadedRun, settings: Node, split: str, name: str
) -> tuple[dict[str, float], NDArray[np.float32], Split]:
    """Evaluates a run's model on `val` or `test`, read with the run's vocabulary and length.

    The settings are those of the run, or the same with other data. `name` is what the evaluation is called.

    Returns:
        The metrics, the probabilities, (rows, C), and the rows that they are of.

    Raises:
        UserError: If the run has no model or predictions of that name on other rows, or the labels are not the model's.
    """
    quiet_libraries()
    data = _read_data(run, settings, split)
    run.require_same_rows(name, data.split(split))
    # Class weights are those of the rows that the model was trained on, not of those it is evaluated on.
    class_counts = run.classifier.config.get("class_counts") or data.class_counts
    trainer = settings["trainer"]
    has_lstm = any(isinstance(module, nn.LSTM) for module in run.classifier.model.modules())
    if trainer.get("precision") == MIXED and has_lstm and not is_on_gpu(trainer):
        print("Evaluated in float32: not every processor has an LSTM in bfloat16.")
        trainer = {**trainer, "precision": SINGLE}
    lit = build_lit(settings, run.classifier.model, class_counts=class_counts, ordered=data.ordered)
    with Progress() as progress:
        metrics = evaluate(evaluating_trainer(trainer, progress), lit, data, split)
    return metrics, lit.probabilities, data.split(split)


def open_data(run: LoadedRun, overrides: str | Sequence[str] = ()) -> TextData:
    """Returns the data module of a run, read with the run's vocabulary and length.

    Args:
        run: A finished run.
        overrides: Other data with the same labels, such as `["data=imdb"]`. A string is one of them.

    Raises:
        UserError: If the run has no model, or the data cannot be read or has other labels.
    """
    words = [overrides] if isinstance(overrides, str) else overrides
    return _read_data(run, override(run.settings, words, only=["data"], trust=run.trust))


def _read_data(run: LoadedRun, settings: Node, split: str | None = None) -> TextData:
    """Reads data for a run's model; of a `split` that is evaluated, its rows alone."""
    classifier = run.classifier
    text = classifier.config["text"]
    if text.get("tokenizer", RULES[0]) not in RULES:
        text = {**text, "tokenizer": str(run.path / MODEL_FOLDER / TOKENIZER_FILE)}
    settings = {**settings, "data": {**settings["data"], "normalize": None, **text}}
    data = build.build_data(settings)
    if split is not None:
        data.test_only(split, classifier.labels, ordered=classifier.config["ordered"])
    with Progress() as progress:
        data.prepare(progress, words=classifier.tokenizer.words)
    print(visible("\n".join(data.report)))
    classifier.open(data.tokenizer, data.states)
    if data.labels != classifier.labels:
        message = (
            f"The run knows the labels {', '.join(classifier.labels)}; data={data.name} has "
            f"{', '.join(data.labels)}. A run can be evaluated on data with the same labels only."
        )
        raise DataError(Fault("data.label", "conflict", message))
    return data


def initial_result(
    settings: Node, module: LitClassifier, identity: Mapping[str, str | None], study: str | None
) -> Tree:
    """Returns the part of a result that is known before the training."""
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in module.model.parameters()]
    return {
        "status": None,
        **identity,
        "study": study,
        "model": settings["model"]["name"],
        "data": settings["data"]["name"],
        "seed": settings["seed"],
        "settings": dict(settings),
        "best_epoch": None,
        "metrics": {},
        "parameters": {
            "total": sum(n for n, _ in sizes) + module.model.embedding.frozen_parameters,
            "trainable": sum(n for n, learned in sizes if learned),
        },
        "seconds": {"train": None, "total": None},
        "git": git_revision(),
        "project_git": git_revision(Path()),
        "versions": versions(),
    }


@contextmanager
def recorded(run: Run, result: Tree, recorder: Recorder, *, resumed: bool) -> Iterator[Sequence[Guard]]:
    """Yields the loggers of a training; writes its result at its end, if it is finished, pruned or failed.

    A new run keeps a copy of the files of one's own classes.

    One that was interrupted, or whose files cannot be written, has no result: it can be resumed.

    Raises:
        UserError: As the training raises it, or if memory runs out.
    """
    loggers: list[Guard] = []
    if ranks.is_rank_zero():
        if not resumed:
            copy_sources(result["settings"], run.path)
        logged = LoggedRun(run.path, result["settings"], result["setting"], resumed, result["study"])
        loggers = build_loggers(logged)
    try:
        with explained_torch_errors():
            yield loggers
    except Pruned:
        result |= result_of(recorder)
    except RunError:
        raise
    except UserError as error:
        result |= {"status": "failed", "error": str(error)}
        raise
    finally:
        result["seconds"]["total"] = recorder.seconds
        if result["status"] is not None and ranks.is_rank_zero():
            run.write_result(result)
        for logger in loggers:
            logger.finish(summarize(result), failed=result["status"] not in ("finished", "pruned"))


def result_of(recorder: Recorder, evaluated: dict[str, float] | None = None) -> Tree:
    """Returns the part of a result that a training adds: the metrics of its best epoch, time and memory.

    Without metrics that were evaluated it is that of a pruned run, with the metrics of its best epoch so far.
    """
    metrics = {name: value for name, value in recorder.best.items() if "/" in name and name != SPEED}
    if evaluated:
        metrics = {name: value for name, value in metrics.items() if name.startswith("train/")} | evaluated
    return {
        "status": "finished" if evaluated else "pruned",
        "metrics": metrics,
        "best_epoch": int(recorder.best["epoch"]),
        "epochs": int(recorder.rows[-1]["epoch"]),
        "seconds": {"train": recorder.train_seconds},
        "tokens_per_second": recorder.tokens / recorder.train_seconds,
        "peak_memory_bytes": peak_memory_bytes(),
    }


def evaluate_best(
    run: Run,
    settings: Node,
    module: LitClassifier,
    data: TextData,
    evaluator: Trainer,
    recorder: Recorder,
    loggers: Sequence[Guard],
    *,
    time_forward: bool,
) -> Tree:
    """Evaluates a module with the weights of its best epoch; writes its predictions and its model.

    Returns:
        What the result of a finished run adds.

    Raises:
        RunError: If they cannot be written.
    """
    epochs, most = recorder.rows[-1]["epoch"], settings["trainer"]["max_epochs"]
    if epochs < most:
        print(f"stopped after epoch {epochs} of {most}, best {recorder.best['epoch']}")
    module.load_state_dict(recorder.best_weights())
    splits = ("val", "test") if settings["test"] else ("val",)
    with ranks.as_single_process():
        metrics: dict[str, float] = {}
        probabilities: dict[str, NDArray[np.float32]] = {}
        for split in splits:
            metrics |= evaluate(evaluator, module, data, split)
            probabilities[split] = module.probabilities
        text = {key: settings["data"][key] for key in TEXT_SETTINGS}
        config = {"model": settings["model"], "text": text, "ordered": data.ordered, "class_counts": data.class_counts}
        if (encoder := module.model.embedding.fingerprint) is not None:
            config[ENCODER_ENTRY] = encoder
        classifier = Classifier(model=module.model, tokenizer=data.tokenizer, labels=data.labels, config=config)
        with writing(run.path):
            run.write_predictions({split: (data.split(split), values) for split, values in probabilities.items()})
            classifier.save(run.path / MODEL_FOLDER)
        result = result_of(recorder, metrics)
        result["rows"] = {split: len(data.split(split)) for split in ("train", *splits)}
        result["classes"] = {
            split: class_metrics(values, data.split(split).labels, data.labels)
            for split, values in probabilities.items()
        }
        result["majority"] = {split: majority_share(data.split(split).labels) for split in splits}
        if time_forward:
            result["latency_ms"] = latency_ms(module.model, data, evaluator.strategy.root_device)
        if loggers:
            from sentattn.loggers.wandb.run import log_best_epoch

            log_best_epoch(loggers, data, module.model, probabilities, epoch=result["best_epoch"])
    if len(predicted := set(probabilities["val"].argmax(axis=1).tolist())) == 1:
        label = visible(data.labels[predicted.pop()])
        print(f"warning: the model predicts {label} for every validation row.", file=sys.stderr)
    guess = math.log(len(data.labels))
    if row := next((row for row in recorder.rows if not row["val/log_loss"] <= DIVERGED * guess), None):  # NaN too
        print(
            f"warning: the training diverged: val/log_loss was {format_value(row['val/log_loss'])} in epoch "
            f"{row['epoch']}, a uniform guess has {format_value(guess)}. Try a smaller optimizer.lr.",
            file=sys.stderr,
            flush=True,
        )
    return result


def print_metrics(result: Node) -> None:
    """Prints the metrics of the best epoch, a column a split."""
    metrics = result["metrics"]
    splits = [split for split in ("val", "test") if f"{split}/loss" in metrics]
    print(f"best epoch {result['best_epoch']}, in {result['seconds']['total']:.0f} s:")
    print(" " * 22 + "".join(f"{split:>10}" for split in splits))
    for name in (name.removeprefix("val/") for name in metrics if name.startswith("val/")):
        print(f"  {name:<20}" + "".join(f"{format_value(metrics[f'{split}/{name}']):>10}" for split in splits))
    print(f"  {MAJORITY:<20}" + "".join(f"{format_value(result['majority'][split]):>10}" for split in splits))
    print("\n".join(class_lines(result["classes"][splits[-1]], splits[-1])))


def class_lines(classes: Mapping[str, Node], split: str) -> list[str]:
    """Returns the metrics of each class of a split as a table."""
    worst = sorted(classes, key=lambda name: classes[name]["f1"])[:CLASSES_SHOWN]
    rows = [[f"{split}, true class", "rows", "precision", "recall", "f1", "predicted"]]
    for name in (name for name in classes if name in worst):
        values = classes[name]
        counts = sorted(values["predicted"].items(), key=lambda item: -item[1])[:PREDICTED_SHOWN]
        predicted = ", ".join(f"{other} {count:,}" for other, count in counts)
        scores = (format_value(values[score]) for score in ("precision", "recall", "f1"))
        rows.append([name, f"{values['rows']:,}", *scores, predicted])
    more = (
        [f"  ({len(worst)} of {len(classes)} classes, those with the lowest F1)"] if len(worst) < len(classes) else []
    )
    return [f"  {line}" for line in table_lines(rows, align="<>>>><", width=TERMINAL_WIDTH - 2)] + more

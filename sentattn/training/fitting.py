"""Training, from settings to a judged run."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from pytorch_lightning import seed_everything
from pytorch_lightning.callbacks import ModelCheckpoint

from sentattn import build, run
from sentattn.config import compose, setting_hash
from sentattn.errors import SettingError, UserError
from sentattn.inference import TEXT_SETTINGS, Classifier
from sentattn.loggers import WandbMirror
from sentattn.metrics import ORDERED_ONLY
from sentattn.progress import Progress
from sentattn.training import costs, quiet
from sentattn.training.callbacks import EpochLines, EpochRecorder, FiniteLoss, WarmEMA
from sentattn.training.judging import judge
from sentattn.training.provenance import git_revision, versions

if TYPE_CHECKING:
    from pytorch_lightning import Callback
    from pytorch_lightning.loggers import Logger

    from sentattn.data.text_data import TextData
    from sentattn.lit import LitClassifier

Settings = Mapping[str, Any]

FEW = 8
"""Embeddings of a model that is built to see whether it can be."""


def fit(overrides: Sequence[str] = ()) -> run.Run:
    """Trains as `python -m sentattn.train` does, and returns the run.

    Args:
        overrides: Settings such as `["model=structured", "data=demo"]`.

    Raises:
        UserError: With every fault found.
    """
    return train(compose(list(overrides)))


def train(settings: Settings) -> run.Run:
    """Trains with resolved settings: reads, fits, keeps the best epoch, tests it once, writes the record.

    Raises:
        UserError: If the settings, the data or the training are at fault. A run that fails while it
            trains says so in its `result.json`.
    """
    started = time.perf_counter()
    quiet.libraries()
    # Gradients that vanish over a long text end as denormal numbers, with which a CPU is many times slower. Threads
    # take this over from the one that starts them, so it comes first.
    torch.set_flush_denormal(True)
    run.require_writable(settings["output_dir"])
    # What this machine cannot fulfil and slots that do not fit one another are refused before anything is read.
    build.build_trainer(settings)
    trial = build.build_model(settings["model"], num_embeddings=FEW, classes=2)
    build.build_optimizer(settings, trial)
    seed_everything(settings["seed"], workers=True, verbose=False)
    with Progress() as progress:
        data = _read(settings, progress)
        model = build.build_model(settings["model"], num_embeddings=len(data.tokenizer), classes=len(data.labels))
        model.embedding.count(lambda: data.token_ids("train"))
        if data.word_vectors is not None:
            model.embedding.start_from(data.word_vectors.vectors_VE, data.word_vectors.found_V)
        lit = build.build_lit(settings, data, model, class_counts=data.class_counts)
        for sentence in _notes(settings, lit):
            print(sentence)
        record = run.create(settings)
        result = _about(settings, data, lit)
        print(f"{settings['model']['name']}: {result['parameters']['total']:,} parameters. Run: {record.path}")
        logger = _open_logger(settings, record, result["setting"])
        try:
            recorder = _fit(settings, lit, data, record, logger, progress)
            result |= {"status": "finished"} | _judged(settings, lit, data, record, recorder)
        except UserError as error:
            result |= {"status": "failed", "error": str(error)}
            raise
        finally:
            result["seconds"]["total"] = time.perf_counter() - started
            _close(record, logger, result)
    _tell(record, result)
    return record


def _read(settings: Settings, progress: Progress) -> TextData:
    data = build.build_data(settings)
    data.prepare(progress)
    progress.close()
    for sentence in data.report:
        print(sentence)
    figure = settings["objective"]["metric"].partition("/")[2]
    if figure in ORDERED_ONLY and not data.ordered:
        raise SettingError(
            f"objective.metric=val/{figure} needs classes that are steps of a scale; those of "
            f"data={data.name} ({', '.join(data.labels)}) are not. Choose val/accuracy or val/log_loss."
        )
    return data


def _notes(settings: Settings, lit: LitClassifier) -> Iterator[str]:
    """What the user should know of words and loss, in sentences."""
    if settings["model"]["embedding"].get("frozen") and settings["data"].get("vectors") is None:
        yield "model.embedding.frozen=true without data.vectors: the words keep the random vectors they start with."
    if lit.loss.class_weights:
        weights = ", ".join(f"{name} {weight:.4g}" for name, weight in lit.loss.class_weights.items())
        yield f"Class weights: {weights}."
    if lit.loss.penalty and lit.model.attention.hops == 1:
        yield (
            f"loss.penalty={lit.loss.penalty} with one hop keeps no hops apart: "
            "it only pushes the weights towards a single token."
        )


def _about(settings: Settings, data: TextData, lit: LitClassifier) -> dict[str, Any]:
    """Returns what is known of a result before the training."""
    return {
        "status": None,
        "setting": setting_hash(settings, vectors=data.word_vectors.fingerprint if data.word_vectors else None),
        "study": None,
        "model": settings["model"]["name"],
        "data": settings["data"]["name"],
        "seed": settings["seed"],
        "best_epoch": None,
        "metrics": {},
        "parameters": costs.parameters(lit.model),
        "seconds": {"train": None, "total": None},
        "git": git_revision(),
        "versions": versions(),
        "data_fingerprint": data.fingerprint,
    }


def _open_logger(settings: Settings, record: run.Run, setting: str) -> Logger | None:
    filled = {"directory": record.path, "run_id": record.path.name, "settings": settings, "setting": setting}
    logger = build.build_logger(settings["logger"], **filled)
    if isinstance(logger, WandbMirror) and (sentence := logger.start()):
        print(sentence)
    return logger


def _fit(
    settings: Settings, lit: LitClassifier, data: TextData, record: run.Run, logger: Logger | None, progress: Progress
) -> EpochRecorder:
    """Trains, and leaves the weights of the best epoch in the module."""
    recorder = EpochRecorder(record.path / run.METRICS, **settings["objective"])
    best = ModelCheckpoint(
        dirpath=record.path / run.CHECKPOINTS,
        filename="best",
        monitor=settings["objective"]["metric"],
        mode=settings["objective"]["mode"],
        save_last=True,
        save_on_train_epoch_end=True,
    )
    callbacks: list[Callback] = [FiniteLoss(), recorder, EpochLines(recorder, progress)]
    if settings["ema_decay"] is not None:
        callbacks.append(WarmEMA(settings["ema_decay"]))
    trainer = build.build_trainer(settings, callbacks=[*callbacks, best], logger=logger)
    try:
        trainer.fit(lit, datamodule=data)
    except SystemExit:  # Lightning makes an exit of Ctrl-C, and leaves the signal ignored
        signal.signal(signal.SIGINT, signal.default_int_handler)
        raise KeyboardInterrupt from None
    checkpoint = torch.load(best.best_model_path, map_location="cpu", weights_only=True)
    lit.load_state_dict(checkpoint["state_dict"])
    return recorder


def _judged(
    settings: Settings, lit: LitClassifier, data: TextData, record: run.Run, recorder: EpochRecorder
) -> dict[str, Any]:
    """Measures the best epoch, tests it once, and writes predictions and model."""
    splits = ("val", "test") if settings["test"] else ("val",)
    judged = {split: judge(settings, lit, data, split) for split in splits}
    record.write_predictions({split: (data.split(split), one.probabilities) for split, one in judged.items()})
    text = {key: settings["data"][key] for key in TEXT_SETTINGS}
    config = {
        "model": settings["model"],
        "text": text,
        "ordered": data.ordered,
        "class_counts": data.class_counts,
    }
    Classifier(model=lit.model, tokenizer=data.tokenizer, labels=data.labels, config=config).save(
        record.path / run.MODEL
    )
    trained = {name: value for name, value in recorder.best.items() if name.startswith("train/")}
    return {
        "best_epoch": int(recorder.best["epoch"]),
        "metrics": trained | {name: value for one in judged.values() for name, value in one.metrics.items()},
        "seconds": {"train": recorder.train_seconds},
        "tokens_per_second": recorder.tokens / recorder.train_seconds,
        "peak_memory_bytes": costs.peak_memory_bytes(),
        "latency_ms": costs.latency_ms(lit.model, data),
    }


def _tell(record: run.Run, result: dict[str, Any]) -> None:
    """Says what the run reached and what to do with it."""
    print(f"best epoch {result['best_epoch']}, in {result['seconds']['total']:.0f} s:")
    metrics = result["metrics"]
    splits = [split for split in ("val", "test") if f"{split}/loss" in metrics]
    print(" " * 20 + "".join(f"{split:>9}" for split in splits))
    for name in (name.removeprefix("val/") for name in metrics if name.startswith("val/")):
        print(f"  {name:<18}" + "".join(f"{metrics[f'{split}/{name}']:9.4f}" for split in splits))
    print(f'read a text with it: python -m sentattn.predict run={record.path} text="..."')


def _close(record: run.Run, logger: Logger | None, result: dict[str, Any]) -> None:
    """Writes the result where the run came to an end, and then closes the mirror."""
    if result["status"] is not None:
        record.write_result(result)
    if isinstance(logger, WandbMirror):
        summary = {"best_epoch": result["best_epoch"], **result["metrics"]}
        logger.finish(summary, failed=result["status"] != "finished")

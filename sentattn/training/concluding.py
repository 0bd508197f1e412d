"""The end of a training: the best epoch measured, written down and told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sentattn import run
from sentattn.inference import TEXT_SETTINGS, Classifier
from sentattn.progress import Progress
from sentattn.training import costs
from sentattn.training.callbacks import SPEED
from sentattn.training.judging import Judged, judge

if TYPE_CHECKING:
    from sentattn.training.callbacks import EpochRecorder
    from sentattn.training.preparing import Prepared

Settings = Mapping[str, Any]


def judge_all(settings: Settings, prepared: Prepared, progress: Progress) -> dict[str, Judged]:
    """Measures the best epoch, whose weights the module has, by split; it is tested once, where it is to be tested."""
    splits = ("val", "test") if settings["test"] else ("val",)
    return {split: judge(settings, prepared.lit, prepared.data, split, progress) for split in splits}


def conclude(
    settings: Settings, prepared: Prepared, record: run.Run, recorder: EpochRecorder, judged: Mapping[str, Judged]
) -> dict[str, Any]:
    """Writes predictions and model.

    Returns:
        What a result says of a finished run.
    """
    data, lit, _ = prepared
    record.write_predictions({split: (data.split(split), one.probabilities) for split, one in judged.items()})
    text = {key: settings["data"][key] for key in TEXT_SETTINGS}
    config = {"model": settings["model"], "text": text, "ordered": data.ordered, "class_counts": data.class_counts}
    classifier = Classifier(model=lit.model, tokenizer=data.tokenizer, labels=data.labels, config=config)
    classifier.save(record.path / run.MODEL)
    trained = {name: value for name, value in _figures(recorder.best).items() if name.startswith("train/")}
    return {
        "status": "finished",
        "best_epoch": int(recorder.best["epoch"]),
        "metrics": trained | {name: value for one in judged.values() for name, value in one.metrics.items()},
        "seconds": {"train": recorder.train_seconds},
        "tokens_per_second": recorder.tokens / recorder.train_seconds,
        "peak_memory_bytes": costs.peak_memory_bytes(),
        "latency_ms": costs.latency_ms(lit.model, data),
    }


def pruned(recorder: EpochRecorder) -> dict[str, Any]:
    """Returns what a result says of a run that was ended early: the figures of its best epoch so far."""
    return {
        "status": "pruned",
        "best_epoch": int(recorder.best["epoch"]),
        "metrics": _figures(recorder.best),
        "seconds": {"train": recorder.train_seconds},
        "tokens_per_second": recorder.tokens / recorder.train_seconds,
        "peak_memory_bytes": costs.peak_memory_bytes(),
    }


def _figures(row: Mapping[str, float]) -> dict[str, float]:
    """The figures of an epoch that say how good it was, not how fast."""
    return {name: value for name, value in row.items() if "/" in name and name != SPEED}


def tell(record: run.Run, result: Mapping[str, Any]) -> None:
    """Says what the run reached and what to do with it."""
    print(f"best epoch {result['best_epoch']}, in {result['seconds']['total']:.0f} s:")
    metrics = result["metrics"]
    splits = [split for split in ("val", "test") if f"{split}/loss" in metrics]
    print(" " * 20 + "".join(f"{split:>9}" for split in splits))
    for name in (name.removeprefix("val/") for name in metrics if name.startswith("val/")):
        print(f"  {name:<18}" + "".join(f"{metrics[f'{split}/{name}']:9.4f}" for split in splits))
    print(f'read a text with it: python -m sentattn.predict run={record.path} text="..."')

"""The logger of a run to Weights & Biases, with its pictures and tables."""

from __future__ import annotations

import io
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.loggers import WandbLogger

from sentattn.config.types import Node, format_values
from sentattn.errors import first_line
from sentattn.loggers.guard import Axis, Guard
from sentattn.loggers.wandb import upload
from sentattn.prediction.model import Classifier
from sentattn.rendering.png import picture

if TYPE_CHECKING:
    import wandb
    from numpy.typing import NDArray

    from sentattn.data.datamodule import TextData
    from sentattn.models.classifier import TextClassifier

STRIPPED = {"WANDB_API_KEY", "WANDB_MODE"}
"""Variables that W&B refuses with white space around them, as secrets have it, or empty."""
INIT_SECONDS = 15.0
FINISH_SECONDS = 60.0
AXES = {"train/": "epoch", "val/": "epoch", "attention/": "epoch", "step/": "step", "lr-": "step"}
"""The x-axis of metrics, by how their names begin."""
ROWS_AN_EPOCH = 1000
"""Steps of W&B in an epoch; W&B ignores a row whose step it has already, as when a run is resumed."""
LONGEST, LEGIBLE = 2000, 30  # characters of a text in a table, tokens of a text whose heat map is easy to read


class WandbGuard(Guard):
    """Logs to Weights & Biases: online if a key is configured, else offline at once, without a prompt.

    A row is an epoch, or a point inside it with the axis `step`; the summary has the values of the best epoch. A
    resumed run continues under its id. Offline it writes another file with that id and repeats the earlier epochs,
    because a killed process leaves an unreadable file; the last file is uploaded. `run` is
    what `wandb.init` takes: `id`, `name`, `project`, `config` and so on.
    """

    def __init__(
        self,
        *,
        directory: Path,
        mode: Literal["auto", "online", "offline"],
        host: str | None,
        resumed: bool,
        examples: int = 0,
        texts: Sequence[str] = (),
        table: int = 0,
        **run: Any,
    ) -> None:
        super().__init__("W&B", self._open, directory=directory, resumed=resumed, replays=True)
        self.examples = examples
        self.texts = tuple(texts)
        self.table = table
        self._mode = mode
        self._host = host
        self._init = {"dir": str(directory), "reinit": "create_new", "resume": "allow" if resumed else None, **run}

    def log_media(self, make: Callable[[], Mapping[str, object]], *, epoch: int) -> None:
        """Logs pictures or tables of an epoch, counted from 1; an error in `make` switches off the logger alone."""
        self.attempt(lambda logger: logger.experiment.log({"epoch": epoch, **make()}), None)

    def _open(self) -> tuple[WandbLogger, str]:
        # W&B would report its own errors to its developers, and wait for that at the end of every program.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        os.environ.setdefault("WANDB_SILENT", "true")
        for name in STRIPPED & os.environ.keys():
            if text := os.environ.pop(name).strip():
                os.environ[name] = text
        import wandb

        mode: str = self._mode
        try:
            if mode == "auto":
                mode = os.environ.get("WANDB_MODE") or ("online" if upload.api_key(self._host) else "offline")
            elif mode == "online" and self._host and not upload.api_key(self._host):
                print(
                    f"W&B: no key for {self._host}, type `wandb login --host={self._host}`; the run is logged offline."
                )
                mode = "offline"
            run = self._init_run(mode)
        except Exception as error:
            if mode == "offline":
                raise
            print(f"W&B: the server did not accept the run ({first_line(error)}); it is logged offline instead.")
            with suppress(SystemExit):
                wandb.teardown()  # W&B's process holds the id of the run that it could not open
            run = self._init_run("offline")
        for group, axis in AXES.items():
            run.define_metric(axis)
            run.define_metric(f"{group}*", step_metric=axis)
        # A logger that opens the run itself puts `trainer/global_step` on every x-axis.
        logger = WandbLogger(project=self._init["project"], save_dir=self.directory, experiment=run)
        return logger, self._describe_location(run)

    def _init_run(self, mode: Any) -> wandb.Run:
        import wandb

        settings = wandb.Settings(
            init_timeout=INIT_SECONDS,
            finish_timeout=FINISH_SECONDS,
            finish_timeout_raises=True,
            silent=True,
            console="off",
        )
        if self._host:
            settings.base_url = self._host
            if mode != "offline":
                settings.api_key = upload.api_key(self._host)  # W&B itself would send it WANDB_API_KEY
        return wandb.init(mode=mode, settings=settings, **self._init)

    def _describe_location(self, run: wandb.Run) -> str:
        if run.disabled:
            return "disabled by WANDB_MODE"
        if not run.offline:
            return str(run.url)
        folder = Path(os.path.relpath(self.directory)) if self.directory.is_relative_to(Path.cwd()) else self.directory
        command = f"python -m sentattn.sync {shlex.quote(str(folder))}"
        return f"offline, in {folder / 'wandb'}; upload it later with: {command}"

    def _log(self, logger: Any, row: Mapping[str, float], axis: Axis, place: int) -> None:
        epochs = place if axis == "epoch" else place / self.epoch_steps
        logger.experiment.log({**row, axis: place}, step=int(ROWS_AN_EPOCH * epochs))

    def _finish(self, logger: Any, summary: Mapping[str, object], failed: bool) -> None:
        run = logger.experiment
        run.summary.update(dict(summary))
        try:
            run.finish(exit_code=int(failed))
        except TimeoutError:
            raise TimeoutError(f"the upload did not end within {FINISH_SECONDS:.0f} s") from None

    def _advice(self) -> str:
        logger: Any = self._logger
        if logger is None or not _is_online(logger):
            return ""
        server = f"WANDB_BASE_URL={self._host} " if self._host else ""
        folder = shlex.quote(str(Path(logger.experiment.dir).parent))
        return f" Upload the rest later with: {server}wandb sync --include-online {folder}"

    def _close(self, logger: Any) -> None:
        logger.experiment.finish(exit_code=1)


class TrialCallback(Callback):
    """Logs the values that a trial of a sweep tries by their keys, and names its run after them."""

    def __init__(self, values: Node) -> None:
        self._values = dict(values)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        for guard in _wandb_guards(trainer.loggers):
            guard.attempt(self._describe, None)

    def _describe(self, logger: Any) -> None:
        logger.experiment.config.update(self._values, allow_val_change=True)
        logger.experiment.name = f"{logger.experiment.name} {format_values(self._values)}"


def _wandb_guards(loggers: Sequence[object]) -> list[WandbGuard]:
    return [logger for logger in loggers if isinstance(logger, WandbGuard)]


def _is_online(logger: Any) -> bool:
    return not (logger.experiment.offline or logger.experiment.disabled)


def _texts_to_draw(logger: WandbGuard, data: TextData) -> dict[str, tuple[str, str]]:
    """Returns text and caption by the name of the picture."""
    split = data.split("val")
    rows = np.argsort(np.abs(split.lengths - LEGIBLE), kind="stable")[: logger.examples].tolist()
    texts = {
        f"row_{row}": (split.texts(row), f"validation row {row}: {data.labels[split.labels[row]]}") for row in rows
    }
    return texts | {f"text_{n}": (text, f"text {n}") for n, text in enumerate(logger.texts, start=1)}


def _pictures(texts: Mapping[str, tuple[str, str]], data: TextData, model: TextClassifier) -> dict[str, object]:
    import wandb
    from PIL import Image

    classifier = Classifier(model=model, tokenizer=data.tokenizer, labels=data.labels, config={})
    with torch.no_grad():
        predictions = classifier.predict([text for text, _ in texts.values()], pairs=True)
    return {
        f"attention/{name}": wandb.Image(Image.open(io.BytesIO(picture([prediction]))), caption=caption)
        for (name, (_, caption)), prediction in zip(texts.items(), predictions, strict=True)
    }


def log_best_epoch(
    loggers: Sequence[Guard],
    data: TextData,
    model: TextClassifier,
    probabilities: Mapping[str, NDArray[np.float32]],
    *,
    epoch: int,
) -> None:
    """Logs confusion matrices, a table of validation rows and pictures of the attention, for a logger of W&B.

    `probabilities`, (rows, C), are those of each split.
    """
    for logger in _wandb_guards(loggers):
        logger.log_media(partial(_tables, logger, data, probabilities), epoch=epoch)
        if texts := _texts_to_draw(logger, data):
            logger.log_media(partial(_pictures, texts, data, model), epoch=epoch)


def _tables(logger: WandbGuard, data: TextData, probabilities: Mapping[str, NDArray[np.float32]]) -> dict[str, object]:
    import wandb

    names = list(data.labels)
    media: dict[str, object] = {
        f"{name}/confusion_matrix": wandb.plot.confusion_matrix(
            y_true=data.split(name).labels.tolist(), preds=values.argmax(axis=1).tolist(), class_names=names
        )
        for name, values in probabilities.items()
    }
    if logger.table:
        split, values = data.split("val"), probabilities["val"]
        table = wandb.Table(columns=["row", "text", "label", "predicted", "probability"])
        count = min(len(split), logger.table)
        for row in (len(split) * i // count for i in range(count)):  # spread evenly
            text, best = split.texts(row), int(values[row].argmax())
            shortened = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}\u2026"
            label, probability = names[split.labels[row]], float(values[row, best])
            table.add_data(int(split.row[row]), shortened, label, names[best], probability)
        media["val/predictions"] = table
    return media

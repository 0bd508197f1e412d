"""Training, from settings to a judged run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentattn import build, run
from sentattn.config.request import read_single
from sentattn.distributed import devices, ranks
from sentattn.distributed.launch import announce, launch
from sentattn.errors import Fault, Interruption, Pruned, RunError, UserError
from sentattn.loggers import media, require_package
from sentattn.loggers.guard import Guard, summarize
from sentattn.progress import Progress
from sentattn.training import costs
from sentattn.training.callbacks import EpochLines, EpochRecorder, FiniteLoss, GradientNorm, WarmEMA
from sentattn.training.concluding import conclude, judge_all, pruned, tell
from sentattn.training.forecast.memory import told_when_short
from sentattn.training.preparing import Prepared, prepare
from sentattn.training.provenance import git_revision, versions
from sentattn.training.resume.checkpoints import Checkpoints
from sentattn.training.resume.interruption import Signals
from sentattn.training.resume.resuming import about, discard_untrained, require_same, resumable
from sentattn.training.seeds import train_all

if TYPE_CHECKING:
    from pytorch_lightning import Callback

Settings = Mapping[str, Any]


def fit(overrides: Sequence[str] = ()) -> run.Run:
    """Trains as `python -m sentattn.train` does, and returns the run.

    Args:
        overrides: Settings such as `["model=structured", "data=demo"]`; `from=DIR` and `resume=DIR` too.

    Raises:
        UserError: With every fault found.
    """
    return train_all(read_single(list(overrides)), train)[0]


def train(
    settings: Settings,
    *,
    resume: Path | None = None,
    directory: Path | None = None,
    study: str | None = None,
    callbacks: Sequence[Callback] = (),
) -> run.Run:
    """Trains with resolved settings: reads, fits, keeps the best epoch, tests it once, writes the record.

    Args:
        settings: The resolved settings.
        resume: Directory of an interrupted run with these settings, which goes on as if it had never stopped.
        directory: Where the run is written; None for a new one under `output_dir`.
        study: The study that the run is a trial of.
        callbacks: Look on while it trains; one that raises `Pruned` ends it, with the figures it has so far.

    Raises:
        UserError: If the settings, the data or the training are at fault. A run that fails while it
            trains says so in its `result.json`.
        Interruption: If a signal ended it; it says how to go on.
    """
    here = devices.place()
    if here is None and (processes := devices.count(settings["trainer"])) > 1:
        assert not callbacks, "what looks on cannot be handed to other processes"
        return launch(settings, processes, resume=resume, directory=directory, study=study)
    with ranks.connected():
        return _train_here(devices.as_placed(settings, here), resume, directory, study, callbacks)


def _train_here(
    settings: Settings, resume: Path | None, directory: Path | None, study: str | None, callbacks: Sequence[Callback]
) -> run.Run:
    """Trains in this process, which may be one of several ranks; the first of them keeps the record."""
    record = None
    with Signals() as signals, Progress(shown=ranks.is_rank_zero()) as progress, ExitStack() as held:
        try:
            with ranks.together():
                record = resumable(resume) if resume else None
                if ranks.is_rank_zero():
                    run.require_writable(settings["output_dir"])
                    require_package(settings["logger"])
                    if record:
                        held.enter_context(run.lock(record.path))
                prepared = prepare(settings, progress)
                if record:
                    require_same(record, about(prepared.setting, prepared.data.fingerprint))
                elif ranks.is_rank_zero():
                    record = run.create(settings, directory)
                    held.enter_context(run.lock(record.path))
            record = ranks.from_rank_zero(record)
            assert record is not None, "rank 0 has created it"
            announce(record.path)
            training = _Training(settings, prepared, record, signals, progress)
            result = training.run(study=study, onlookers=callbacks, resumed=resume is not None)
            ranks.wait_for_rank_zero()
        except Interruption as interruption:
            discard_untrained(record)
            raise Interruption(interruption.number, run.advice(record)) from None
        except RuntimeError as error:
            if ranks.several() and signals.received:
                raise Interruption(signals.received, run.advice(record)) from None
            if not ranks.lost(error):
                raise
            message = f"Another process of this training has ended, and so this one ends; {run.advice(record)}"
            raise RunError(Fault("trainer.devices", "interrupted", message)) from None
    if result["status"] == "finished":
        tell(record, result)
    return record


@dataclass(frozen=True)
class _Training:
    """A training whose data is read and whose run directory is there."""

    settings: Settings
    prepared: Prepared
    record: run.Run
    signals: Signals
    progress: Progress

    def run(self, *, study: str | None, onlookers: Sequence[Callback], resumed: bool) -> dict[str, Any]:
        """Trains, judges and writes the result; returns it."""
        result = _about(self.settings, self.prepared, study)
        name, total = result["model"], result["parameters"]["total"]
        print(f"{name}: {total:,} parameters. Run: {self.record.path}")
        logger = self._build_logger(study, resumed=resumed) if ranks.is_rank_zero() else None
        recorder = EpochRecorder(self.record.path / run.METRICS, **self.settings["objective"])
        checkpoints = self._checkpoints(recorder)
        shown = [*media.callbacks(logger, self.prepared.data), recorder, EpochLines(recorder, self.progress)]
        callbacks = [FiniteLoss(), GradientNorm(), *shown, *onlookers, checkpoints]
        try:
            with told_when_short():
                self._fit(callbacks, logger, checkpoints.last if resumed else None)
                if ranks.is_rank_zero():
                    with ranks.alone():
                        self.prepared.lit.load_state_dict(checkpoints.best_weights())
                        judged = judge_all(self.settings, self.prepared, self.progress)
                        result |= conclude(self.settings, self.prepared, self.record, recorder, judged)
                        probabilities = {split: one.probabilities for split, one in judged.items()}
                        media.log_evaluation(logger, self.prepared.data, probabilities, epoch=result["best_epoch"])
        except Pruned:
            result |= pruned(recorder)
        except UserError as error:
            result |= {"status": "failed", "error": str(error)}
            raise
        finally:
            result["seconds"]["total"] = recorder.seconds
            self._close(logger, result)
        return result

    def _build_logger(self, study: str | None, *, resumed: bool) -> Guard | None:
        """Opens what the run is logged to; None where the run directory is all."""
        setting = self.prepared.setting
        return build.build_logger(self.settings, self.record.path, setting=setting, resumed=resumed, study=study)

    def _checkpoints(self, recorder: EpochRecorder) -> Checkpoints:
        return Checkpoints(
            self.record.path / run.CHECKPOINTS,
            recorder,
            self.signals,
            minutes=self.settings["checkpoint_minutes"],
            about=about(self.prepared.setting, self.prepared.data.fingerprint),
        )

    def _fit(self, callbacks: list[Callback], logger: Guard | None, last: Path | None) -> None:
        """Trains from the beginning, or from a checkpoint on."""
        if self.settings["ema_decay"] is not None:
            callbacks.append(WarmEMA(self.settings["ema_decay"]))
        trainer = build.build_trainer(self.settings, callbacks=callbacks, logger=logger)
        trainer.fit(self.prepared.lit, datamodule=self.prepared.data, ckpt_path=last, weights_only=True)

    def _close(self, logger: Guard | None, result: dict[str, Any]) -> None:
        """Writes the result where the run came to an end, and then closes the logger."""
        if result["status"] is not None and ranks.is_rank_zero():
            self.record.write_result(result)
        if logger is not None:
            logger.finish(summarize(result), failed=result["status"] not in ("finished", "pruned"))


def _about(settings: Settings, prepared: Prepared, study: str | None) -> dict[str, Any]:
    """Returns what is known of a result before the training."""
    return {
        "status": None,
        "setting": prepared.setting,
        "study": study,
        "model": settings["model"]["name"],
        "data": settings["data"]["name"],
        "seed": settings["seed"],
        "best_epoch": None,
        "metrics": {},
        "parameters": costs.parameters(prepared.lit.model),
        "seconds": {"train": None, "total": None},
        "git": git_revision(),
        "versions": versions(),
        "data_fingerprint": prepared.data.fingerprint,
    }

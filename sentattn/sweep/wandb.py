"""A study on W&B: when it has ended, one run in the group of its trials, with table, importances and report."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from sentattn.config.request import read_request
from sentattn.errors import first_line
from sentattn.loggers.wandb.upload import wandb_settings
from sentattn.run import REPORT_FILE
from sentattn.sweep.artifacts import trial_table
from sentattn.sweep.records import started, state_of
from sentattn.sweep.report import Findings

if TYPE_CHECKING:
    from optuna import Study

    from sentattn.sweep.plan import Plan

MAX_ROWS = 10_000


def log_study(plan: Plan, folder: Path, study: Study) -> None:
    """Logs a study that has a complete trial and a report, where its trials are logged to W&B.

    Nothing is logged again that was logged after the last trial. A study that is continued keeps its run, since that
    is named after the first trial. An error is printed, and does not end the sweep.
    """
    try:
        before = max((path.stat().st_mtime for path in folder.glob("wandb/*run-*")), default=0.0)
        ended = (trial.datetime_complete for trial in started(study))
        if before < max(date.timestamp() for date in ended if date):
            _log(Findings(plan, folder, study), resumed=before > 0)
    except Exception as error:  # the study has ended, and its files are written
        print(f"W&B: the study was not logged: {first_line(error)}.")


def _log(findings: Findings, *, resumed: bool) -> None:
    plan, best = findings.plan, findings.front[0]
    settings = read_request(plan.arguments(findings.best)).settings
    if not (logger := wandb_settings(settings)):
        return
    from sentattn.loggers.wandb.run import WandbGuard  # imports Lightning

    began = next(trial.datetime_start for trial in findings.trials if trial.datetime_start)
    guard = WandbGuard(
        directory=findings.folder,
        mode=logger["mode"],
        host=logger["host"],
        project=logger["project"],
        entity=logger["entity"],
        id=f"{plan.study}-{began:%y%m%d%H%M%S}",
        resumed=resumed,
        name=plan.study,
        group=plan.study,
        tags=[settings["model"]["name"], settings["data"]["name"], *settings["tags"]],
        job_type="study",
        config={
            "space": {key: dimension.written for key, dimension in plan.space.items()},
            "objectives": [f"{objective.metric} ({objective.mode})" for objective in plan.objectives],
            **{name: getattr(plan, name) for name in ("sampler", "pruner", "overrides", "repeats", "seed")},
        },
    )
    guard.start()
    guard.attempt(lambda logger: logger.experiment.log(media(findings)), None)
    reached = zip(plan.objectives, best.values, strict=True)
    found = {f"best/{key}": value for key, value in findings.best.items()}
    found |= {f"best/{objective.metric}": value for objective, value in reached}
    states = Counter(f"trials/{state_of(trial)}" for trial in findings.trials)
    guard.finish({"best_trial": best.number, **found, **states})


def media(findings: Findings) -> dict[str, object]:
    """Returns W&B's objects by name: the table of trials, importances and the report."""
    import wandb

    table = trial_table(findings.plan, findings.folder, findings.trials[-MAX_ROWS:])
    cells = [list(row) for row in zip(*table.values(), strict=True)]
    objects: dict[str, object] = {
        "table": wandb.Table(columns=list(table), data=cells, allow_mixed_types=True),
        "report": wandb.Html((findings.folder / REPORT_FILE).read_text(encoding="utf-8"), inject=False),
    }
    if shares := [list(row) for row in findings.importances.items()]:
        bars = wandb.Table(columns=["setting", "importance"], data=shares)
        objects["importance"] = wandb.plot.bar(bars, "setting", "importance", title="Importance of settings")
    return objects

"""W&B's run of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentattn.loggers.wandb import WandbGuard
from sentattn.sweep.records import Record
from sentattn.sweep.report.figures import Charts
from sentattn.sweep.report.html import Findings, page

if TYPE_CHECKING:
    from sentattn.sweep.config import Plan

TRIALS, BEST, REACHED = "trials", "best", "reached"
MOST_ROWS = 10_000


class StudyRun(WandbGuard):
    """A study as a run: its x-axis is the number of trials that have ended.

    A study that is continued has the id that it began with; trials that W&B has already are not logged again.

    Args:
        plan: The sweep.
        folder: The study's folder; W&B's files go to `wandb/` in it.
        settings: The resolved settings of a trial: its logger, and its tags.
        began: When its first trial began.
        past: Trials that have ended before.
    """

    def __init__(
        self, plan: Plan, folder: Path, settings: Mapping[str, Any], began: datetime, past: Sequence[Record]
    ) -> None:
        logger = settings["logger"]
        super().__init__(
            directory=folder,
            mode=logger["mode"],
            host=logger["host"],
            axes={BEST: TRIALS, REACHED: TRIALS},
            project=logger["project"],
            entity=logger["entity"],
            id=f"{plan.study}-{began:%y%m%d%H%M%S}",
            resume="allow" if past else None,
            name=plan.study,
            group=plan.study,
            tags=[settings["model"]["name"], settings["data"]["name"], *settings["tags"]],
            job_type="study",
            config=_config(plan),
        )
        self._plan = plan
        self._ended = 0
        self._best: float | None = None
        self.start()
        logged = self.attempt(lambda logger: int(dict(logger.experiment.summary).get(TRIALS, 0)), 0)
        for record in past:
            self.row(record, logged=logged)

    def row(self, record: Record, *, logged: int = 0) -> None:
        """Logs a trial that has ended, unless it is among the first ones, which W&B has.

        Args:
            record: The trial.
            logged: Number of trials that W&B has.
        """
        self._ended += 1
        row: dict[str, Any] = {TRIALS: self._ended, "trial": record.number, "state": record.state}
        if record.state == "complete" and record.objectives:
            named = list(zip(self._plan.objectives, record.objectives, strict=True))
            row |= {f"{REACHED}/{one.metric}": value for one, value in named}
            if len(named) == 1:
                [(objective, value)] = named
                pick = max if objective.mode == "max" else min
                self._best = value if self._best is None else pick(self._best, value)
        if self._best is not None:
            row[f"{BEST}/{self._plan.objectives[0].metric}"] = self._best
        if self._ended > logged:
            self.attempt(lambda logger: logger.experiment.log(row), None)

    def picture(self, found: Findings) -> None:
        """Logs importances, contours, the table of trials and the report."""
        self.attempt(lambda logger: logger.experiment.log({TRIALS: self._ended, **pictures(found)}), None)

    def end(self, summary: Mapping[str, Any]) -> None:
        """Closes the run."""
        self.finish(summary)


def pictures(found: Findings) -> dict[str, Any]:
    """Returns W&B's objects for what the report shows."""
    import wandb

    shown: dict[str, Any] = {"table": trials(found), "report": wandb.Html(page(found), inject=False)}
    for one in found.importances:
        if one is None:
            continue
        for name, shares in (("ped_anova", one.ped_anova), ("fanova", one.fanova)):
            if shares is not None:
                table = wandb.Table(columns=["setting", "importance"], data=[list(row) for row in shares.items()])
                shown[f"importance/{name}/{one.metric}"] = wandb.plot.bar(
                    table, "setting", "importance", title=f"{one.metric}: {name}"
                )
    charts = Charts(found.plan, found.records, found.front)
    for index, one in enumerate(found.importances):
        if one is not None and (figure := charts.contour(index, one.top(2))):
            shown[f"contour/{one.metric}"] = wandb.Plotly(figure)
    return shown


def trials(found: Findings) -> Any:
    """Returns the table of trials."""
    import wandb

    keys, metrics = list(found.plan.space), [one.metric for one in found.plan.objectives]
    table = wandb.Table(columns=["trial", "state", *keys, *metrics, "seconds", "note"], allow_mixed_types=True)
    for one in found.records[-MOST_ROWS:]:
        reached = one.objectives or [None] * len(metrics)
        seconds = found.reader.costs(one).seconds
        table.add_data(one.number, one.state, *(one.values.get(key) for key in keys), *reached, seconds, one.error)
    return table


def _config(plan: Plan) -> dict[str, Any]:
    return {
        "study": plan.study,
        "space": {key: one.written for key, one in plan.space.items()},
        "objectives": [f"{one.metric} ({one.mode})" for one in plan.objectives],
        "sampler": dict(plan.sampler),
        "pruner": dict(plan.pruner),
        "overrides": list(plan.overrides),
        "repeats": plan.repeats,
        "seed": plan.seed,
    }

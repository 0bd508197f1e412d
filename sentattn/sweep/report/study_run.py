"""W&B's run of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentattn.loggers import WandbMirror
from sentattn.sweep.records import Record
from sentattn.sweep.report.figures import Charts
from sentattn.sweep.report.html import Findings, page

if TYPE_CHECKING:
    from sentattn.sweep.config import Plan

JOB, TRIALS, BEST, REACHED = "study", "trials", "best", "reached"
MOST_ROWS = 10_000
FILLED_BY_CODE = ("_target_", "job_type", "examples", "texts", "table")


class StudyRun(WandbMirror):
    """A study as a run: its x-axis is the number of trials that have ended.

    A study that goes on has the id that it began with. What was shown before is shown again where W&B has not kept it.

    Args:
        plan: The sweep.
        folder: The study's folder; W&B's files go to `wandb/` in it.
        settings: The resolved settings of a trial: where to, and which tags.
        began: When its first trial began.
        past: Trials that have ended before.
    """

    def __init__(
        self, plan: Plan, folder: Path, settings: Mapping[str, Any], began: datetime, past: Sequence[Record]
    ) -> None:
        own = {key: value for key, value in settings["logger"].items() if key not in FILLED_BY_CODE}
        super().__init__(
            **own,
            job_type=JOB,
            directory=folder,
            run_id=f"{plan.study}-{began:%y%m%d%H%M%S}",
            settings={**settings, "group": plan.study},
            setting="",
            resumed=bool(past),
        )
        self._plan = plan
        self._ended = 0
        self._best: float | None = None
        self._arguments |= {"name": plan.study, "config": _config(plan)}
        self.start()
        self._attempt(lambda: self._again(past))

    def row(self, record: Record) -> None:
        """Shows a trial that has ended."""
        self._attempt(lambda: self._row(record, shown=0))

    def picture(self, found: Findings) -> None:
        """Shows importances, contours, the table of trials and the report."""
        self._attempt(lambda: self._write({TRIALS: self._ended, **pictures(found)}))

    def end(self, summary: Mapping[str, Any]) -> None:
        """Closes the run."""
        self.finish(summary)

    def _open(self) -> None:
        super()._open()
        assert self._run is not None
        self._run.define_metric(TRIALS)
        for group in (BEST, REACHED):
            self._run.define_metric(f"{group}/*", step_metric=TRIALS)

    def _again(self, past: Sequence[Record]) -> None:
        shown = 0
        if self._run is not None:
            shown = int(dict(self._run.summary).get(TRIALS, 0))
        for record in past:
            self._row(record, shown=shown)

    def _row(self, record: Record, *, shown: int) -> None:
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
        if self._ended > shown:
            self._write(row)


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

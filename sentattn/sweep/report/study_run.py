"""W&B's run of a study."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentattn.loggers import WandbMirror
from sentattn.loggers.media import image
from sentattn.sweep.records import Record
from sentattn.sweep.report.html import Findings, page
from sentattn.sweep.report.surface import Surface

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
    for objective, surface in zip(found.plan.objectives, found.surfaces, strict=True):
        if surface is not None:
            shown[f"contour/{objective.metric}"] = image(
                contour(found, surface, objective.metric), f"{objective.metric}: {surface.y} over {surface.x}"
            )
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


def contour(found: Findings, surface: Surface, metric: str) -> bytes:
    """Draws the mean of trials over two settings as a PNG file."""
    import numpy as np
    from matplotlib.figure import Figure

    from sentattn.sweep.report.axes import axis, position

    figure = Figure(figsize=(6, 4.5), layout="constrained")
    axes = figure.add_subplot()
    rows, columns = surface.means.shape
    across, up = (np.linspace(0, 1, count + 1) for count in (columns, rows))
    trust: Any = 0.25 + 0.75 * surface.trust
    drawn = axes.pcolormesh(across, up, surface.means, alpha=trust, cmap="viridis")
    figure.colorbar(drawn, label=metric)
    space = found.plan.space
    there = [one for one in found.records if one.state == "complete" and {surface.x, surface.y} <= one.values.keys()]
    x, y = ([position(space[key], one.values[key]) for one in there] for key in (surface.x, surface.y))
    axes.scatter(x, y, s=12, c="black")
    for key, show, name in (
        (surface.x, axes.set_xticks, axes.set_xlabel),
        (surface.y, axes.set_yticks, axes.set_ylabel),
    ):
        ticks = axis(space[key]).ticks
        show([at for at, _ in ticks], [text for _, text in ticks])
        name(key)
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=110)
    return png.getvalue()


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

"""The run of a study on W&B: its best value so far, importances, contours, the table of trials and the report."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from sentattn.config.request import read_request
from sentattn.config.types import Node
from sentattn.errors import UserError
from sentattn.loggers.wandb.dashboard import place_of, study_specification
from sentattn.loggers.wandb.upload import find_runs, offline_reason, wandb_settings
from sentattn.sweep.report.analysis import Findings
from sentattn.sweep.report.artifacts import trial_table
from sentattn.sweep.study.records import Record

if TYPE_CHECKING:
    import wandb

    from sentattn.sweep.spec.plan import Plan
    from sentattn.sweep.study.study import SweepStudy

TRIALS, BEST, REACHED = "trials", "best", "reached"
"""The x-axis, which is the number of trials that have ended, and the groups of metrics over it."""
MAX_ROWS = 10_000
ENDED = attrgetter("ended")


class StudyLogger:
    """The run of a study on W&B, through the guard of all loggers, so that no error ends the sweep.

    Its first trial names the run, so that a study that is resumed keeps its ID; `settings` are those of a trial.
    """

    def __init__(self, study: SweepStudy, settings: Node, records: Sequence[Record], *, resumed: bool) -> None:
        from sentattn.loggers.wandb.run import WandbGuard  # imports Lightning

        plan, logger = study.plan, wandb_settings(settings)
        started = next(record.started for record in records if record.started)
        self._folder = study.folder
        self._place = place_of([settings])
        self._logged: set[int] = set()
        self._findings: Findings | None = None
        self._guard = WandbGuard(
            directory=study.folder,
            mode=logger["mode"],
            host=logger["host"],
            axes={f"{BEST}/": TRIALS, f"{REACHED}/": TRIALS},
            project=logger["project"],
            entity=logger["entity"],
            id=f"{plan.study}-{started:%y%m%d%H%M%S}",
            resumed=resumed,
            name=plan.study,
            group=plan.study,
            tags=[settings["model"]["name"], settings["data"]["name"], *settings["tags"]],
            job_type="study",
            config={
                "study": plan.study,
                "space": {key: dimension.written for key, dimension in plan.space.items()},
                "objectives": [f"{objective.metric} ({objective.mode})" for objective in plan.objectives],
                "sampler": dict(plan.sampler),
                "pruner": dict(plan.pruner),
                "overrides": list(plan.overrides),
                "repeats": plan.repeats,
                "seed": plan.seed,
            },
        )
        self._guard.start()

    @classmethod
    def open(cls, study: SweepStudy, findings: Findings, *, resumed: bool) -> StudyLogger | None:
        """Opens the run of a study that has a complete trial; returns None if its trials are not logged to W&B."""
        settings = read_request(study.plan.arguments(findings.front[0].values)).settings
        return cls(study, settings, findings.records, resumed=resumed) if wandb_settings(settings) else None

    def log(self, findings: Findings) -> None:
        """Logs a report: rows of the trials that have ended since the last one, the table of trials, and charts."""
        self._findings = findings
        self._call(lambda run: self._log_rows(run, findings))
        self._call(lambda run: run.log({TRIALS: len(self._logged), **media(findings)}))

    def _log_rows(self, run: wandb.Run, findings: Findings) -> None:
        """Logs the rows that are not logged yet, as far as W&B's server does not have them."""
        known = int(dict(run.summary).get(TRIALS, 0))
        for row in rows(findings.plan, findings.records):
            if row["trial"] not in self._logged and row[TRIALS] > known:
                run.log(row)
            self._logged.add(row["trial"])

    def finish(self) -> None:
        """Logs the last report and its best trial, closes the run, and publishes the study's workspace."""
        import wandb

        from sentattn.sweep.report.page import page

        summary: dict[str, Any] = {}
        if (findings := self._findings) is not None:
            trials = {TRIALS: len(self._logged)}
            self._call(lambda run: run.log(trials | {"report": wandb.Html(page(findings), inject=False)}))
            states = Counter(record.state for record in findings.records)
            best = findings.front[0]
            summary |= {f"trials/{state}": count for state, count in states.items()} | {"best_trial": best.number}
            summary |= {f"best/{key}": value for key, value in best.values.items()}
        self._guard.finish(summary)
        self._publish()

    def _call(self, action: Callable[[wandb.Run], None]) -> None:
        self._guard.attempt(lambda logger: action(logger.experiment), None)

    def _publish(self) -> None:
        """Publishes the study's workspace and report if its trials are online; prints the address, or why not."""
        if find_spec("wandb_workspaces") is None:
            return
        from sentattn.loggers.wandb import dashboard

        folder = self._folder
        local = [run for run in find_runs([folder]) if run.directory.resolve() != folder.resolve()]
        if any(run.folder.name.startswith("offline-") for run in local) or offline_reason(self._place["host"]):
            return  # compare ... to=wandb does it later
        path = folder / dashboard.FILE
        try:
            ids = {run.directory: run.run_id for run in local}
            specification = study_specification(folder, ids, self._place)
            addresses = dashboard.publish(specification, dashboard.published(path))
            dashboard.write(path, [specification])
        except (UserError, OSError) as error:
            print(f"W&B: {error} Later: python -m sentattn.compare {shlex.quote(str(folder))} to=wandb")
        else:
            print(f"W&B: workspace {addresses[dashboard.WORKSPACE]}")


def rows(plan: Plan, records: Sequence[Record]) -> Iterator[dict[str, Any]]:
    """Yields a row for each trial in the order in which they ended, with their number and the best value so far."""
    objective, best = plan.objectives[0], list[float]()
    for count, record in enumerate(sorted(filter(ENDED, records), key=ENDED), start=1):
        row: dict[str, Any] = {TRIALS: count, "trial": record.number, "state": record.state}
        row |= {f"{REACHED}/{o.metric}": v for o, v in zip(plan.objectives, record.objectives or (), strict=False)}
        if len(plan.objectives) == 1 and (reached := [*best, *(record.objectives or ())]):
            best = [max(reached) if objective.mode == "max" else min(reached)]
            row[f"{BEST}/{objective.metric}"] = best[0]
        yield row


def media(findings: Findings) -> dict[str, Any]:
    """Returns W&B's objects by name: the table of trials, importances and contours."""
    import wandb

    from sentattn.sweep.report.page import Charts

    table = trial_table(findings.plan, findings.folder, findings.records[-MAX_ROWS:])
    cells = [list(row) for row in zip(*table.values(), strict=True)]
    objects: dict[str, Any] = {"table": wandb.Table(columns=list(table), data=cells, allow_mixed_types=True)}
    charts = Charts(findings.plan, findings.records, findings.front)
    for index, measure in enumerate(findings.importances):
        if measure is None:
            continue
        for name, shares in measure.shares.items():
            bars = wandb.Table(columns=["setting", "importance"], data=[list(row) for row in shares.items()])
            chart = wandb.plot.bar(bars, "setting", "importance", title=f"{measure.metric}: {name}")
            objects[f"importance/{name}/{measure.metric}"] = chart
        if figure := findings.attempt("Contour", None, charts.contour, index, measure.ranking):
            objects[f"contour/{measure.metric}"] = wandb.Plotly(figure)
    return objects

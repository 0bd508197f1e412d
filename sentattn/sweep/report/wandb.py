"""The run of a study on W&B: its best value so far, importances, contours, the table of trials and the report."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sentattn.config.request import read_request
from sentattn.errors import RunError, UserError
from sentattn.loggers.wandb.dashboard import WANDB, place_of, study_specification
from sentattn.loggers.wandb.upload import find_runs, offline_reason
from sentattn.sweep.execution.interfaces import RunningTrial, SweepCallback, TrialOutcome
from sentattn.sweep.report.analysis import Findings
from sentattn.sweep.report.artifacts import costs
from sentattn.sweep.report.callback import ReportCallback, record_of
from sentattn.sweep.study.records import Record
from sentattn.sweep.study.records import best as best_records

if TYPE_CHECKING:
    import wandb

    from sentattn.loggers.wandb.run import WandbGuard
    from sentattn.sweep.spec.plan import Plan
    from sentattn.sweep.study.study import SweepStudy

TRIALS, BEST, REACHED = "trials", "best", "reached"
"""The x-axis, which is the number of trials that have ended, and the groups of metrics over it."""
MAX_ROWS = 10_000


def report_callbacks(study: SweepStudy, stack: ExitStack) -> tuple[ReportCallback, StudyLogger]:
    """Returns the callbacks that write and log the results of a study; the stack closes both, the report first."""
    report = ReportCallback(study)
    logger = stack.enter_context(StudyLogger(study, report))
    return stack.enter_context(report), logger


class StudyLogger(SweepCallback):
    """Logs a study to W&B, if its trials are logged there.

    Each trial that ends is logged as a row at once, importances and the table of trials whenever the report was written
    again, and the report at the end. A study that is resumed keeps its id. W&B is called in a thread, so the scheduler
    waits for its end only, and through the guard of all loggers, so that no error ends the sweep.
    """

    def __init__(self, study: SweepStudy, report: ReportCallback) -> None:
        self._study = study
        self._report = report
        self._opened = False
        self._guard: WandbGuard | None = None
        self._place: dict[str, Any] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="wandb")
        self._rows = Rows(study.plan)
        self._logged: Findings | None = None

    def __enter__(self) -> StudyLogger:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._guard is not None:
            try:
                records = self._study.records(wait=kind is None)
            except RunError as error:
                print(f"W&B: the last trials are not logged: {error}")
                records = []
            self._submit(lambda run: self._rows.log(run, records))
            self.tick()
            if findings := self._report.findings:
                self._submit(lambda run: _log_page(run, self._rows.count, findings))
            states = Counter(record.state for record in records)
            summary: dict[str, Any] = {f"trials/{state}": count for state, count in states.items()}
            for best in best_records(records, [objective.mode for objective in self._study.plan.objectives])[:1]:
                summary |= {f"best/{key}": value for key, value in best.values.items()} | {"best_trial": best.number}
            self._thread.submit(self._guard.finish, summary)
            self._thread.submit(self._publish)
        self._thread.shutdown()

    def started(self, trial: RunningTrial) -> None:
        """Opens the run with the first trial, whose settings say where."""
        if self._opened or trial.source is not self._study:
            return
        settings = read_request(list(trial.task.arguments)).settings
        is_logged = settings["logger"]["_target_"] == WANDB
        try:
            # Of several schedulers one logs the study.
            records = self._study.records() if is_logged and self._study.is_first() else None
        except RunError as error:
            print(f"W&B: the study is logged later: {error}")
            return
        self._opened = True
        if records is not None:
            past = [record for record in records if record.state != "running" and record.number != trial.task.number]
            self._place = place_of([settings])
            self._guard = study_guard(self._study, settings, records, resumed=bool(past))
            self._thread.submit(self._guard.start)
            self._submit(lambda run: self._rows.log(run, past))

    def ended(self, trial: RunningTrial, outcome: TrialOutcome) -> None:
        """Logs a trial of this study that has ended."""
        if trial.source is self._study:
            record = record_of(trial, outcome)
            self._submit(lambda run: run.log(self._rows.next(record)))

    def tick(self) -> float | None:
        """Logs the table and charts of the report, if it was written again."""
        findings = self._report.findings
        if findings is not None and findings is not self._logged:
            self._logged = findings
            self._submit(lambda run: run.log({TRIALS: self._rows.count, **media(findings)}))
        return None

    def _publish(self) -> None:
        """Publishes the study's workspace and report if its trials are online; prints the address, or why not."""
        if find_spec("wandb_workspaces") is None:
            return
        from sentattn.loggers.wandb import dashboard

        folder = self._study.folder
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

    def _submit(self, action: Callable[[wandb.Run], None]) -> None:
        """Calls W&B in the thread; an error there switches the logger off and costs one line."""
        if (guard := self._guard) is not None:
            self._thread.submit(guard.attempt, lambda logger: action(logger.experiment), None)


class Rows:
    """The rows of a study's run: one for each trial that has ended, with the number of trials and the best so far."""

    def __init__(self, plan: Plan) -> None:
        self._objectives = plan.objectives
        self._best: float | None = None
        self._numbers: set[int] = set()
        self.count = 0

    def log(self, run: wandb.Run, records: Sequence[Record]) -> None:
        """Logs trials that have ended and are not logged yet, as far as W&B's server does not have them."""
        logged = int(dict(run.summary).get(TRIALS, 0))
        ended = (record for record in records if record.number not in self._numbers and record.state != "running")
        for row in map(self.next, ended):
            if row[TRIALS] > logged:
                run.log(row)

    def next(self, record: Record) -> dict[str, Any]:
        """Returns the row of the next trial."""
        self.count += 1
        self._numbers.add(record.number)
        row: dict[str, Any] = {TRIALS: self.count, "trial": record.number, "state": record.state}
        if record.state == "complete" and record.objectives:
            names = [f"{REACHED}/{objective.metric}" for objective in self._objectives]
            row |= zip(names, record.objectives, strict=True)
            if len(names) == 1:
                better, value = max if self._objectives[0].mode == "max" else min, record.objectives[0]
                self._best = value if self._best is None else better(self._best, value)
        return row if self._best is None else row | {f"{BEST}/{self._objectives[0].metric}": self._best}


def study_guard(
    study: SweepStudy, settings: Mapping[str, Any], records: Sequence[Record], *, resumed: bool
) -> WandbGuard:
    """Returns the logger of a study, not open yet, from the settings of one of its trials."""
    from sentattn.loggers.wandb.run import WandbGuard  # imports Lightning

    plan, logger = study.plan, settings["logger"]
    started = next(record.started for record in records if record.started)
    return WandbGuard(
        directory=study.folder,
        mode=logger["mode"],
        host=logger["host"],
        axes={BEST: TRIALS, REACHED: TRIALS},
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


def media(findings: Findings) -> dict[str, Any]:
    """Returns W&B's objects by name: the table of trials, importances and contours."""
    import wandb

    from sentattn.sweep.report.page import Charts

    plan = findings.plan
    keys, metrics = list(plan.space), [objective.metric for objective in plan.objectives]
    table = wandb.Table(columns=["trial", "state", *keys, *metrics, "seconds", "note"], allow_mixed_types=True)
    for record in findings.records[-MAX_ROWS:]:
        values = [*map(record.values.get, keys), *(record.objectives or [None] * len(metrics))]
        seconds = costs(findings.folder, record).seconds
        table.add_data(record.number, record.state, *values, seconds, record.error)
    objects: dict[str, Any] = {"table": table}
    charts = Charts(plan, findings.records, findings.front)
    for index, measure in enumerate(findings.importances):
        if measure is None:
            continue
        for name, shares in (("ped_anova", measure.ped_anova), ("fanova", measure.fanova)):
            if shares is not None:
                bars = wandb.Table(columns=["setting", "importance"], data=[list(row) for row in shares.items()])
                chart = wandb.plot.bar(bars, "setting", "importance", title=f"{measure.metric}: {name}")
                objects[f"importance/{name}/{measure.metric}"] = chart
        if figure := findings.attempt("Contour", None, charts.contour, index, measure.ranking):
            objects[f"contour/{measure.metric}"] = wandb.Plotly(figure)
    return objects


def _log_page(run: wandb.Run, count: int, findings: Findings) -> None:
    import wandb

    from sentattn.sweep.report.page import page

    run.log({TRIALS: count, "report": wandb.Html(page(findings), inject=False)})

"""Workspaces and reports on W&B, published from the plain data of a dashboard through `wandb-workspaces`."""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sentattn.errors import Fault, RunError, SettingError
from sentattn.loggers.guard import first_line
from sentattn.loggers.wandb.upload import api_errors, server
from sentattn.run import write_atomically

FILE = "dashboard.json"
WORKSPACE, REPORT = "workspace", "report"
COLUMNS = ["run:displayName", "summary:test/accuracy", "summary:val/accuracy", "summary:seconds/train", "config:seed"]
"""Columns that are pinned in the table of runs."""


def require_package() -> None:
    """Refuses a dashboard where `wandb-workspaces` is not installed; raises a `SettingError`."""
    if find_spec("wandb_workspaces") is None:
        message = 'to=wandb needs wandb-workspaces: type pip install "sentattn[dashboard]".'
        raise SettingError(Fault("to", "package", message))


def published(path: Path) -> dict[str, dict[str, str]]:
    """Returns the addresses of the dashboards in a file, by subject; none if it cannot be read."""
    with suppress(OSError, ValueError, TypeError, AttributeError):
        entries = json.loads(path.read_text(encoding="utf-8"))
        return {entry.get("about"): entry.get("published", {}) for entry in entries}
    return {}


def write(path: Path, specifications: list[dict[str, Any]]) -> None:
    """Writes dashboards, with the addresses of those that are published.

    Raises:
        RunError: If the file cannot be written.
    """
    try:
        write_atomically(path, json.dumps(specifications, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror or error}."
        raise RunError(Fault("to", "unwritable", message)) from error


def publish(specification: MutableMapping[str, Any], former: Mapping[str, dict[str, str]]) -> dict[str, str]:
    """Creates the workspace and the report of a dashboard, or replaces the former ones.

    Args:
        specification: The dashboard, as `panels.dashboard` returns it; its addresses become `published` in it.
        former: Addresses of dashboards that were published before, by subject.

    Returns:
        The addresses.

    Raises:
        RunError: If the server cannot be reached or refuses them.
    """
    addresses = specification["published"] = dict(former.get(specification["about"], {}))
    with server(specification["host"]):
        try:
            addresses[WORKSPACE] = _publish_workspace(specification, addresses.get(WORKSPACE))
            addresses[REPORT] = _publish_report(specification, addresses.get(REPORT))
        except api_errors() as error:
            reason = first_line(error)
            raise RunError(Fault("to", "failed", f"the dashboard was not published: {reason}.")) from error
    return addresses


def _publish_workspace(specification: Mapping[str, Any], address: str | None) -> str:
    import wandb_workspaces.workspaces as ws

    content = specification[WORKSPACE]
    workspace = _existing(ws.Workspace, address) or ws.Workspace(
        entity=_entity(specification), project=specification["project"]
    )
    workspace.name = content["name"]
    workspace.sections = [
        ws.Section(name=section["name"], panels=[_panel(panel) for panel in section["panels"]], is_open=True)
        for section in content["sections"]
    ]
    workspace.runset_settings = ws.RunsetSettings(filters=_filters(specification), pinned_columns=COLUMNS)
    workspace.save()
    return str(workspace.url)


def _publish_report(specification: Mapping[str, Any], address: str | None) -> str:
    import wandb_workspaces.reports.v2 as wr

    content, entity = specification[REPORT], _entity(specification)
    report = _existing(wr.Report, address) or wr.Report(project=specification["project"], entity=entity)
    report.title, report.description = content["title"], content["description"]
    runs = wr.Runset(
        entity=entity, project=specification["project"], name=content["title"], filters=_filters(specification)
    )
    report.blocks = [_block(block, runs) for block in content["blocks"]]
    report.save()
    return str(report.url)


def _existing(kind: Any, address: str | None) -> Any:
    """Returns the workspace or report at an address; None without an address, and where it was deleted."""
    if address is not None:
        with suppress(ValueError, TypeError, KeyError, AttributeError):  # the answer has null for a deleted object
            return kind.from_url(address)
    return None


def _filters(specification: Mapping[str, Any]) -> Any:
    from wandb_workspaces import expr

    return expr.And(expr.Metric("ID").isin(specification["runs"]))


def _panel(panel: Mapping[str, Any]) -> Any:
    """Returns W&B's object of a panel."""
    import wandb_workspaces.reports.v2 as wr

    values = {key: _value(value) for key, value in panel.items() if key != "kind"}
    if panel["kind"] == "ParallelCoordinatesPlot":
        values["columns"] = [wr.ParallelCoordinatesPlotColumn(metric=metric) for metric in values["columns"]]
    return getattr(wr, panel["kind"])(**values)


def _value(value: Any) -> Any:
    """Returns W&B's object for a setting or a final value of a run, and any other value as it is."""
    import wandb_workspaces.reports.v2 as wr

    if isinstance(value, list):
        return [_value(item) for item in value]
    match value:
        case {"config": str(key), **rest} if not rest:
            return wr.Config(key)
        case {"summary": str(key), **rest} if not rest:
            return wr.SummaryMetric(key)
    return value


def _block(block: Mapping[str, Any], runs: Any) -> Any:
    """Returns W&B's object of a block; a grid of panels is about `runs`."""
    import wandb_workspaces.reports.v2 as wr

    if block["kind"] == "PanelGrid":
        return wr.PanelGrid(runsets=[runs], panels=[_panel(panel) for panel in block["panels"]])
    if block["kind"] == "UnorderedList":
        return wr.UnorderedList(items=list(block["items"]))
    return getattr(wr, block["kind"])(text=block["text"])


def _entity(specification: Mapping[str, Any]) -> str:
    import wandb

    return str(specification["entity"] or wandb.Api().default_entity)

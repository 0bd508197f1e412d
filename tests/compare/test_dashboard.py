"""The workspace and the report on W&B: what they show, and that they are saved on a stand-in for W&B's server."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import wandb_workspaces.reports.v2 as wr
import wandb_workspaces.workspaces as ws
import yaml
from refusals import refused
from run_folders import make_run
from wandb_server import UNREACHABLE, Server, serving

from sentattn import leaderboard
from sentattn.compare.__main__ import main
from sentattn.compare.comparison import read_comparisons
from sentattn.compare.dashboard import FILE, comparison_pages, study_pages
from sentattn.loggers import LoggedRun, wandb_logger
from sentattn.loggers.wandb import upload
from sentattn.loggers.wandb.upload import LOGGER
from sentattn.run import yaml_text

PLACE = {"entity": "us", "project": "mine"}


@pytest.fixture(autouse=True)
def _no_answer_is_kept() -> Iterator[None]:
    yield
    upload.find_connection_error.cache_clear()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.delenv("WANDB_MODE", raising=False)
    with serving() as found:
        monkeypatch.setenv("WANDB_BASE_URL", found.address)
        yield found


def logged(run: Path, mode: str = "", **logger: object) -> Path:
    """Makes of a run one that was logged to W&B, by default online."""
    settings = yaml.safe_load((run / "config.yaml").read_text())
    node = {"_target_": LOGGER, "project": "sentattn", "entity": None, "host": None}
    (run / "config.yaml").write_text(yaml_text(settings | {"logger": node | logger}))
    folder = run / "wandb" / f"{mode}run-20260101_000000-{run.name}"
    folder.mkdir(parents=True)
    (folder / f"run-{run.name}.wandb").touch()
    return run


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    for model in ("structured", "lstm_mean"):
        logged(make_run(tmp_path / "outputs", f"model={model}", seed=0))
    return tmp_path / "outputs"


def study(folder: Path, metric: str = "val/accuracy") -> Path:
    """A study of two complete trials and one that failed."""
    (folder / "trials").mkdir(parents=True)
    for number in range(2):
        run = logged(make_run(folder / "made", "model=mean", split="val", study="mine", seed=number))
        shutil.move(run, folder / "trials" / str(number))
    columns = {
        "number": [0, 1, 2],
        "state": ["complete", "complete", "failed"],
        "optimizer.lr": [0.1, 0.01, 0.2],
        metric: [0.8, 0.9, None],
        "best_epoch": [1, 2, None],
        "seconds": [3.0, 4.0, None],
        "directory": [f"elsewhere/trials/{number}" for number in range(3)],  # where the study was made
    }
    pq.write_table(pa.table(columns), folder / "trials.parquet")
    return folder


def addresses(folder: Path) -> dict[str, str]:
    """The addresses in the file of a folder, which is about one comparison or study."""
    [one] = json.loads((folder / FILE).read_text()).values()
    return dict(one)


@pytest.mark.parametrize(("typed", "shown"), [("f1_macro", "test/f1_macro"), ("auroc", "test/accuracy")])
def test_charts_are_of_the_metric_where_runs_log_it(outputs: Path, typed: str, shown: str) -> None:
    [board, *_] = leaderboard(outputs, metric=typed).workspace(**PLACE).sections
    assert board.panels[0].title == shown


def test_a_workspace_is_made_without_a_network(outputs: Path) -> None:
    made = leaderboard(outputs).workspace(**PLACE)
    assert isinstance(made, ws.Workspace)
    assert (made.entity, made.project, made.name) == ("us", "mine", "demo, 2 settings")
    board, curves, errors = made.sections
    kinds = ["BarPlot"] * 2 + ["ScatterPlot"] * 3 + ["RunComparer"]
    assert [type(panel).__name__ for panel in board.panels] == kinds
    assert [panel.y for panel in curves.panels][:2] == [["val/accuracy"], ["val/log_loss"]]
    assert {panel.groupby_rangefunc for panel in [*board.panels[:2], *curves.panels]} == {"stderr"}
    assert {panel.groupby for panel in [*board.panels[:2], *curves.panels]} == {"config.setting"}
    assert errors.panels[0].query == {"summaryTable": {"tableKey": "test/confusion_matrix_table"}}
    for run in outputs.glob("demo/*/*"):
        assert run.name in made.runset_settings.filters


def test_a_workspace_is_of_runs_with_the_same_rows(outputs: Path) -> None:
    logged(make_run(outputs, "model=mean", rows_seed=1))
    assert refused(lambda: leaderboard(outputs).workspace(**PLACE)) == [("project", "conflict")]


def test_the_report_has_the_leaderboard_its_notes_and_the_charts(tmp_path: Path) -> None:
    for seed, revision in enumerate("ab"):
        logged(make_run(tmp_path, "model=mean", seed=seed, git=revision * 40))
    [comparison], _ = read_comparisons([tmp_path], split="test")
    workspace, report = comparison_pages(comparison, **PLACE)
    [note] = comparison.settings[0].notes
    assert wr.P(f"mean: {note}.") in report.blocks
    assert report.blocks[0].text.startswith("| settings |")
    charts, board = report.blocks[-1].panels, workspace.sections[0].panels
    assert [type(panel) for panel in charts][: len(board)] == [type(panel) for panel in board]


def assert_unchanged_by_wandb(folder: Path, server: Server) -> None:
    """Asserts that what was published is as before after W&B's own package has loaded and saved it."""
    saved = addresses(folder)
    specs = {key: json.loads(view["spec"]) for key, view in server.views.items()}
    ws.Workspace.from_url(saved["workspace"]).save()
    wr.Report.from_url(saved["report"]).save()
    assert {key: json.loads(view["spec"]) for key, view in server.views.items()} == specs


def test_it_is_saved_and_replaced_not_doubled(
    outputs: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(outputs), "to=wandb"]) == 0
    first = addresses(outputs)
    assert set(first) == {"workspace", "report"}
    printed = capsys.readouterr().out
    assert all(address in printed for address in first.values())
    assert sorted(view["type"] for view in server.views.values()) == ["project-view", "runs"]
    logged(make_run(outputs, "model=mean"))
    assert main([str(outputs), "to=wandb"]) == 0
    assert addresses(outputs)["workspace"] == first["workspace"]  # a report's address has its title
    assert [view["displayName"] for view in server.views.values()] == ["demo, 3 settings"] * 2
    assert_unchanged_by_wandb(outputs, server)
    server.views.clear()  # what was deleted on the server is made again
    assert main([str(outputs), "to=wandb"]) == 0
    assert len(server.views) == 2


def test_runs_trained_without_wandb_are_named_and_not_shown(
    outputs: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    others = [make_run(outputs, "model=mean", seed=seed) for seed in (0, 1)]
    assert main([str(outputs), "to=wandb"]) == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if "without W&B" in line]
    assert all(str(run) in line for run in others)
    [workspace] = [json.loads(view["spec"]) for view in server.views.values() if view["type"] == "project-view"]
    shown = json.dumps(workspace["section"]["runSets"])
    assert {run.name for run in outputs.glob("demo/*/*") if run.name in shown} == {
        run.name for run in outputs.glob("demo/*/*") if run not in others
    }
    assert server.runs == {}
    assert not list(others[0].glob("wandb"))


def test_where_no_run_was_logged_there_is_nothing_to_save(
    tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path, "model=mean")
    assert main([str(tmp_path), "to=wandb"]) == 2
    assert "logger=wandb" in capsys.readouterr().err
    assert server.asked == 0


def test_runs_that_were_logged_offline_are_uploaded(
    tmp_path: Path, server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    run = logged(make_run(tmp_path, "model=mean"))
    shutil.rmtree(run / "wandb")
    settings = {"model": {"name": "mean"}, "data": {"name": "demo"}, "group": None, "tags": []}
    logger = wandb_logger(mode="offline", run=LoggedRun(run, settings, "x"))
    logger.start()
    logger.log_metrics({"train/loss": 1.0, "epoch": 0})
    logger.finish({})
    assert main([str(tmp_path), "to=wandb"]) == 0
    assert server.runs[run.name].complete
    assert "1 run uploaded, 0 of these before" in capfd.readouterr().out


@pytest.mark.parametrize("kind", ["missing", "network"])
def test_without_a_key_or_a_network_one_message_says_so(
    outputs: Path, kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WANDB_BASE_URL", UNREACHABLE)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    if kind == "network":
        host = UNREACHABLE.removeprefix("http://")
        (tmp_path / "netrc").write_text(f"machine {host} login user password {'a' * 40}\n")
    assert main([str(outputs), "to=wandb"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert ("wandb login" if kind == "missing" else UNREACHABLE) in line
    assert not (outputs / FILE).exists()


def test_a_server_that_refuses_is_an_error(
    outputs: Path, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server, "save_view", lambda variables: {"upsertView": None})
    assert main([str(outputs), "to=wandb"]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert not (outputs / FILE).exists()


def test_the_addresses_of_what_was_saved_before_an_error_are_kept(
    outputs: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ws.Workspace, "save", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main([str(outputs), "to=wandb"])
    assert set(addresses(outputs)) == {"report"}
    monkeypatch.undo()
    monkeypatch.setenv("WANDB_BASE_URL", server.address)
    assert main([str(outputs), "to=wandb"]) == 0
    assert len(server.views) == 2


def test_a_study_has_a_workspace_of_its_own(tmp_path: Path, server: Server) -> None:
    folder = study(tmp_path / "mine")
    assert main([str(folder), "to=wandb"]) == 0
    assert [view["displayName"] for view in server.views.values()] == ["study mine"] * 2
    assert_unchanged_by_wandb(folder, server)


@pytest.mark.parametrize(
    ("metric", "logged_as"), [("val/accuracy", "val/accuracy"), ("parameters.total", "parameters/total")]
)
def test_the_pages_of_a_study(tmp_path: Path, metric: str, logged_as: str) -> None:
    workspace, report = study_pages(study(tmp_path / "mine", metric), **PLACE)
    parallel, importance = workspace.sections[0].panels
    expected = [wr.Config("optimizer.lr"), wr.SummaryMetric(logged_as)]
    assert [column.metric for column in parallel.columns] == expected
    assert importance.with_respect_to == logged_as
    [grid] = report.blocks
    assert [type(panel) for panel in grid.panels] == [type(parallel), type(importance)]


def test_pictures_of_attention_are_found_by_their_names(outputs: Path) -> None:
    [run] = outputs.glob("demo/structured/*/wandb/run-*")
    folder = run / "files" / "media" / "images" / "attention"
    folder.mkdir(parents=True)
    for name in ("row_12_1_0a1b2c.png", "row_12_2_ffff.png", "text_1_1_00ff.png"):
        (folder / name).touch()
    [*_, section] = leaderboard(outputs).workspace(**PLACE).sections
    assert section.panels[0].media_keys == ["attention/row_12", "attention/text_1"]


def test_without_the_package_it_is_refused_before_anything_is_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["none", "to=wandb"]) == 2
    assert "sentattn[dashboard]" in capsys.readouterr().err


def test_runs_of_another_project_are_named_and_not_shown(
    tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (make_run(tmp_path, f"model={name}") for name in ("mean", "structured"))
    logged(first, project="mine", entity="us")
    logged(second, project="other", entity="us")
    assert main([str(tmp_path), "to=wandb"]) == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if "another project" in line]
    assert (str(first) in line) != (str(second) in line)
    place = "/us/mine" if str(second) in line else "/us/other"  # that of the first run
    assert all(place in address for address in addresses(tmp_path).values())

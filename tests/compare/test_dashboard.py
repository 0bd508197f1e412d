"""The dashboard on W&B: what it shows, as plain data, and its publication on a stand-in for W&B's server."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from run_folders import make_run
from wandb_server import UNREACHABLE, Server, serving

from sentattn.compare.__main__ import main
from sentattn.compare.comparison import read_comparisons
from sentattn.compare.dashboard import specification
from sentattn.loggers.wandb import upload
from sentattn.loggers.wandb.dashboard import FILE, picture_panels, place_of, study_specification

STORED = Path(__file__).parent.parent / "fixtures" / "dashboard.json"
PLACE = {"project": "sentattn", "entity": None, "host": None}


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


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    for model in ("structured", "lstm_mean"):
        make_run(tmp_path / "outputs", f"model={model}", seed=0)
    return tmp_path / "outputs"


def study(folder: Path, metric: str = "val/accuracy") -> Path:
    """A study of two complete trials and one that failed."""
    for number in range(2):
        make_run(folder / "trials" / str(number), "model=mean", split="val", study="mine", seed=number)
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


def published(folder: Path) -> dict[str, str]:
    [one] = json.loads((folder / FILE).read_text())
    found: dict[str, str] = one["published"]
    return found


def test_the_specification_is_the_stored_one(outputs: Path) -> None:
    for model, seed in itertools.product(("structured", "lstm_mean"), (1, 2)):
        make_run(outputs, f"model={model}", seed=seed)
    [comparison], _ = read_comparisons([outputs], split="test")
    ids = {run.run.path: run.run.path.name for setting in comparison.settings for run in setting.runs}
    found = specification(comparison, ids, PLACE)
    assert json.loads(json.dumps(found)) == json.loads(STORED.read_text())


def test_it_has_the_notes_of_the_leaderboard(tmp_path: Path) -> None:
    for seed, revision in enumerate("ab"):
        make_run(tmp_path, "model=mean", seed=seed, git=revision * 40)
    [comparison], _ = read_comparisons([tmp_path], split="test")
    found = specification(comparison, {}, PLACE)
    [note] = comparison.settings[0].notes
    assert {"kind": "P", "text": f"mean: {note}."} in found["report"]["blocks"]


def test_it_is_published_and_replaced_not_doubled(
    outputs: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(outputs), "to=wandb"]) == 0
    first = published(outputs)
    assert set(first) == {"workspace", "report"}
    printed = capsys.readouterr().out
    assert all(address in printed for address in first.values())
    assert sorted(view["type"] for view in server.views.values()) == ["project-view", "runs"]
    make_run(outputs, "model=mean")
    assert main([str(outputs), "to=wandb"]) == 0
    assert published(outputs)["workspace"] == first["workspace"]  # a report's address has its title
    assert [view["displayName"] for view in server.views.values()] == ["demo, 3 settings"] * 2


def test_runs_trained_without_wandb_are_uploaded_once(outputs: Path, server: Server) -> None:
    [run] = outputs.glob("demo/structured/*-0")
    rows = [{"epoch": epoch, "val/accuracy": epoch / 10, "train/loss": 1.0} for epoch in (1, 2)]
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert main([str(outputs), "to=wandb"]) == 0
    assert {path.name for path in outputs.glob("demo/*/*")} == set(server.runs)
    uploaded = server.runs[run.name]
    assert uploaded.complete
    assert [row["val/accuracy"] for row in uploaded.history if "val/accuracy" in row] == [0.1, 0.2]
    assert any("confusion_matrix" in key for row in uploaded.history for key in row)
    assert uploaded.arguments["groupName"].startswith("demo-structured-")
    lines = {name: len(one.history) for name, one in server.runs.items()}
    assert main([str(outputs), "to=wandb"]) == 0
    assert {name: len(one.history) for name, one in server.runs.items()} == lines


def kinds_after_a_round_trip(folder: Path, server: Server) -> list[list[str]]:
    """Loads and saves what was published by W&B's own package, and returns the kinds of panels of the workspace."""
    import wandb_workspaces.reports.v2 as wr
    import wandb_workspaces.workspaces as ws

    addresses = published(folder)
    specs = {key: json.loads(view["spec"]) for key, view in server.views.items()}
    ws.Workspace.from_url(addresses["workspace"]).save()
    wr.Report.from_url(addresses["report"]).save()
    assert {key: json.loads(view["spec"]) for key, view in server.views.items()} == specs
    [workspace] = [spec for spec in specs.values() if "section" in spec]
    sections = workspace["section"]["panelBankConfig"]["sections"]
    return [[panel["viewType"] for panel in section["panels"]] for section in sections]


def test_wandbs_own_package_loads_and_saves_it_unchanged(outputs: Path, server: Server) -> None:
    assert main([str(outputs), "to=wandb"]) == 0
    kinds = kinds_after_a_round_trip(outputs, server)
    assert kinds[0] == ["Bar Chart", "Bar Chart", *["Scatter Plot"] * 3, "Run Comparer"]


def test_what_was_deleted_on_the_server_is_made_again(outputs: Path, server: Server) -> None:
    assert main([str(outputs), "to=wandb"]) == 0
    server.views.clear()
    assert main([str(outputs), "to=wandb"]) == 0
    assert len(server.views) == 2


@pytest.mark.parametrize("why", ["no key", "offline", "no network"])
def test_offline_the_file_is_written_and_nothing_waits(
    outputs: Path, why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline" if why == "offline" else "online")
    monkeypatch.setenv("WANDB_BASE_URL", UNREACHABLE)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    if why == "no network":
        host = UNREACHABLE.removeprefix("http://")
        (tmp_path / "netrc").write_text(f"machine {host} login user password {'a' * 40}\n")
    assert main([str(outputs), "to=wandb"]) == 0
    [one] = json.loads((outputs / FILE).read_text())
    assert one["published"] == {}
    assert sorted(one["runs"]) == sorted(path.name for path in outputs.glob("demo/*/*"))
    assert "not published" in capsys.readouterr().out
    assert not list(outputs.rglob("wandb"))


def test_a_server_that_refuses_is_an_error_and_the_file_stays(
    outputs: Path, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server, "save_view", lambda variables: {"upsertView": None})
    assert main([str(outputs), "to=wandb"]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert published(outputs) == {}


def test_a_study_has_a_dashboard_of_its_own(tmp_path: Path, server: Server) -> None:
    folder = study(tmp_path / "mine")
    assert main([str(folder), "to=wandb"]) == 0
    assert [view["displayName"] for view in server.views.values()] == ["study mine"] * 2
    assert len(server.runs) == 2
    assert all(name.startswith("mine-") for name in server.runs)  # a trial's number is not unique in a project
    configs = [json.loads(run.arguments["config"]) for run in server.runs.values()]
    assert sorted(config["optimizer.lr"]["value"] for config in configs) == [0.01, 0.1]
    assert kinds_after_a_round_trip(folder, server)[0] == ["Parallel Coordinates Plot", "Parameter Importance"]


def test_the_specification_of_a_study(tmp_path: Path) -> None:
    folder = study(tmp_path / "mine")
    ids = {path.parent: path.parent.name for path in folder.glob("trials/**/result.json")}
    found = study_specification(folder, ids, PLACE)
    assert sorted(found["runs"]) == sorted(ids.values())
    parallel, importance = found["workspace"]["sections"][0]["panels"]
    assert parallel["columns"] == [{"config": "optimizer.lr"}, {"summary": "val/accuracy"}]
    assert importance == {"kind": "ParameterImportancePlot", "with_respect_to": "val/accuracy"}
    header, _, *rows = [line.strip("| ").split(" | ") for line in found["report"]["blocks"][1]["text"].splitlines()]
    assert header == ["trial", "optimizer.lr", "val/accuracy", "seconds"]
    assert rows == [["1", "0.01", "0.9", "4"], ["0", "0.1", "0.8", "3"]]


def test_costs_as_objectives_are_final_values_not_settings(tmp_path: Path) -> None:
    folder = study(tmp_path / "mine", metric="parameters.total")
    ids = {path.parent: path.parent.name for path in folder.glob("trials/**/result.json")}
    panels = study_specification(folder, ids, PLACE)["workspace"]["sections"][0]["panels"]
    assert panels[0]["columns"] == [{"config": "optimizer.lr"}, {"summary": "parameters/total"}]
    assert panels[1]["with_respect_to"] == "parameters/total"


def test_pictures_of_attention_are_found_by_their_names(tmp_path: Path) -> None:
    folder = tmp_path / "wandb" / "run-20260101_000000-x" / "files" / "media" / "images" / "attention"
    folder.mkdir(parents=True)
    for name in ("row_12_1_0a1b2c.png", "row_12_2_ffff.png", "text_1_1_00ff.png", "other.png"):
        (folder / name).touch()
    assert picture_panels([tmp_path])[0]["media_keys"] == ["attention/row_12", "attention/text_1"]
    assert picture_panels([tmp_path / "none"]) == []


def test_runs_go_where_the_first_of_them_was_logged() -> None:
    logger = {"_target_": "sentattn.loggers.wandb_logger", "project": "mine", "entity": "us", "host": None, "mode": "x"}
    assert place_of([{"logger": None}, {"logger": logger}]) == {"project": "mine", "entity": "us", "host": None}
    assert place_of([{"logger": None}]) == PLACE


def test_without_the_package_it_is_refused_before_anything_is_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["none", "to=wandb"]) == 2
    assert "sentattn[dashboard]" in capsys.readouterr().err

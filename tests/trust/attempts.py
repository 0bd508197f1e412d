"""Commands that are interrupted by force, and what each must have written in the end."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from sentattn.data.datasets.demo import DemoSource

HANGS = 600.0
SMALL = ["logger=none", "trainer.accelerator=cpu", "trainer.max_epochs=2", "data.limit=100", "data.batch_size=20"]
TRAIN = [*SMALL, "checkpoint_minutes=0", "output_dir={out}/runs", "data.cache_dir={out}/cache"]
SLOTS = ["slots=2", "threads=1"]
CORPUS = ["data=table", "data.train={given}/rows.parquet", "trainer.limit_train_batches=2"]


class Command(NamedTuple):
    """A command of which any start may be killed.

    Attributes:
        module: Its module.
        words: Its arguments; {out} is its folder, {given} the folder of `given`.
        outcome: What its folder holds in the end: equal, whether it was killed or not.
        once: Whether it is refused where its result exists.
    """

    module: str
    words: list[str]
    outcome: Callable[[Path], object]
    once: bool = False


def digest(file: Path) -> str:
    """Returns a hash of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def finished_runs(out: Path) -> dict[str, object]:
    """Returns metrics and weights of all finished runs by variant and seed. Runs of the same setting must be equal."""
    found: dict[str, object] = {}
    for file in sorted(out.glob("**/result.json")):
        result = json.loads(file.read_text())
        if result["status"] == "finished":
            key = f"{result['settings']['model']['name']}, seed {result['seed']}"
            value = (result["metrics"], digest(file.parent / "model" / "model.safetensors"))
            assert found.setdefault(key, value) == value, "the same setting has another result"
    return found


def trials(out: Path) -> list[tuple[object, ...]]:
    """Returns setting and accuracy of the complete trials of a study."""
    [file] = out.glob("**/trials.parquet")
    rows = pq.read_table(file, filters=[("state", "=", "complete")]).to_pylist()
    return sorted((row["optimizer.lr"], row["val/accuracy"]) for row in rows)


def table(out: Path) -> str:
    """Returns a table of predictions."""
    return (out / "predicted.csv").read_text()


def board(out: Path) -> list[str]:
    """Returns the names and accuracies of a leaderboard."""
    return sorted(",".join(line.split(",")[:3]) for line in (out / "board.csv").read_text().splitlines())


def served(out: Path) -> dict[str, str]:
    """Returns the files of an exported model."""
    return {file.name: digest(file) for file in sorted((out / "served").iterdir())}


COMMANDS = {
    "train": Command("sentattn.train", ["model=mean", "resume=auto", *TRAIN], finished_runs),
    "seeds": Command("sentattn.train", ["model=mean", "seeds=3", *TRAIN], finished_runs),
    "grid": Command("sentattn.train", ["-m", "model=mean,wide", "seeds=2", *SLOTS, *TRAIN], finished_runs),
    "sweep": Command(
        "sentattn.sweep.__main__",
        ["sweep={given}/sweep.yaml", "trials=6", *SLOTS, "output_dir={out}/runs", "data.cache_dir={out}/cache"],
        trials,
    ),
    "states": Command(
        "sentattn.train",
        ["model=pretrained", "model.embedding.name={given}/encoder", "data.max_length=64", *TRAIN],
        finished_runs,
    ),
    "corpus": Command(
        "sentattn.train",
        ["model=mean", *(word for word in TRAIN if not word.startswith("data.limit")), *CORPUS, "resume=auto"],
        finished_runs,
    ),
    "references": Command(
        "sentattn.compare.__main__",
        ["{out}/runs", "reference=tfidf,nbsvm", "format=csv", "output={out}/board.csv"],
        board,
    ),
    "predict": Command(
        "sentattn.predict",
        ["run={given}/run", "input={given}/few.csv", "output={out}/predicted.csv"],
        table,
    ),
    "export": Command("sentattn.export.__main__", ["run={given}/run", "output={out}/served"], served, once=True),
}


def given(folder: Path) -> Path:
    """Writes what the commands read: an encoder, a table, a sweep file and finished runs."""
    from encoder_files import write_encoder

    from sentattn import fit

    write_encoder(folder / "encoder")
    rows = [row for _ in range(4) for row in DemoSource().read("train")]
    texts = [f"{row.text} {place % 977}" for place, row in enumerate(rows)]
    pq.write_table(pa.table({"text": texts, "label": [row.label for row in rows]}), folder / "rows.parquet")
    (folder / "few.csv").write_text("text\n" + "".join(f'"{text}"\n' for text in texts[:500]))
    (folder / "sweep.yaml").write_text(
        f"study: killed\noverrides: [model=mean, {', '.join(SMALL)}]\nspace: {{optimizer.lr: 'interval(1e-4,1e-2)'}}\n"
        "sampler: {name: qmc}\npruner: {name: none}\n"
    )
    for seed in (0, 1, 2):
        run = fit(["model=mean", f"seed={seed}", *SMALL, f"output_dir={folder}/runs"])
    (folder / "run").symlink_to(run.path)
    return folder


def new_folder(command: Command, given_in: Path, parent: Path) -> Path:
    """Returns a folder for a command, with the runs that it changes."""
    out = Path(tempfile.mkdtemp(dir=parent))
    if command.module.startswith("sentattn.compare"):
        shutil.copytree(given_in / "runs", out / "runs")
    return out


def start(command: Command, given_in: Path, out: Path, before: Callable[[], object] = lambda: None) -> int:
    """Starts a command in a process of its own, which leads a group; returns its number."""
    out.mkdir(parents=True, exist_ok=True)
    log = os.open(out / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    sys.stdout.flush()
    if pid := os.fork():
        os.close(log)
        return pid
    code = 1
    try:
        os.setsid()
        os.dup2(log, 1)
        os.dup2(log, 2)
        torch.set_num_threads(1)
        main = importlib.import_module(command.module).main
        words = [word.format(out=out, given=given_in) for word in command.words]
        before()
        sys.stdout, sys.stderr = (os.fdopen(number, "w", 1, closefd=False) for number in (1, 2))  # not those of pytest
        code = main(words)
    except BaseException:  # it must not go on as the tests
        traceback.print_exc()
    finally:
        os._exit(code)


def ended(pid: int, seconds: float) -> int | None:
    """Waits for a process; returns its exit code, minus the signal that ended it, or None after so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= deadline:
            return None
        time.sleep(0.005)


def kill(pid: int, *, group: bool) -> None:
    """Kills a process that runs, or its whole group."""
    if group:
        with suppress(ProcessLookupError):  # it does not lead one yet
            os.killpg(pid, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def finish(command: Command, given_in: Path, out: Path) -> object:
    """Runs a command to its end, and returns what it has written."""
    code = ended(start(command, given_in, out), HANGS)
    log = (out / "log").read_text()
    assert code == 0 or (command.once and code == 2), log
    assert "Traceback" not in log, log
    return command.outcome(out)

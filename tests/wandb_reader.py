"""Logs epochs, and reads an offline W&B run back: records in the log framing of LevelDB, each a protobuf."""

from __future__ import annotations

import json
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wandb.proto import wandb_internal_pb2

from sentattn.loggers import LoggedRun, wandb_logger
from sentattn.loggers.guard import Guard
from sentattn.loggers.wandb.upload import LOGGER
from sentattn.run import yaml_text

SETTINGS: dict[str, Any] = {"model": {"name": "mean"}, "data": {"name": "demo"}, "group": None, "tags": []}
BLOCK = 32768
FULL, LAST = 1, 4
MAX_ATTEMPTS = 100


def log(logger: Guard, *epochs: int) -> None:
    """Logs epochs as Lightning does: validation, then training; the record has a line of each."""
    for epoch in epochs:
        with (logger.directory / "metrics.jsonl").open("a") as file:
            row = {"epoch": epoch, "val/accuracy": epoch / 10, "train/loss": 1 / epoch, "train_seconds": 3.0}
            file.write(json.dumps(row) + "\n")
        logger.log_metrics({"val/accuracy": epoch / 10, "epoch": epoch - 1}, step=99)
        logger.log_metrics({"train/loss": 1 / epoch, "epoch": epoch - 1}, step=99)


def log_a_run(
    directory: Path,
    *,
    host: str | None = None,
    epochs: tuple[int, ...] = (1,),
    mode: Any = "offline",
    resumed: bool = False,
) -> Path:
    """Leaves behind what a training with a logger to W&B does."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.yaml").write_text(
        yaml_text({**SETTINGS, "logger": {"_target_": LOGGER, "host": host, "project": "sentattn"}})
    )
    logger = wandb_logger(host=host, mode=mode, run=LoggedRun(directory, SETTINGS, "x", resumed=resumed))
    logger.start()
    log(logger, *epochs)
    logger.finish({"best_epoch": 1})
    return directory


def records(path: Path) -> Iterator[Any]:
    """Yields the records of a `.wandb` file."""
    data = path.read_bytes()
    ident, magic, _ = struct.unpack("<4sHB", data[:7])
    assert (ident, magic) == (b":W&B", 0xBEE1)
    position, body = 7, b""
    while position + 7 <= len(data):
        if (left := BLOCK - position % BLOCK) < 7:
            position += left
            continue
        checksum, size, kind = struct.unpack_from("<IHB", data, position)
        part = data[position + 7 : position + 7 + size]
        if len(part) < size:  # the disk was full, or the program was killed
            return
        assert zlib.crc32(part, zlib.crc32(bytes([kind]))) == checksum
        position, body = position + 7 + size, body + part
        if kind in (FULL, LAST):
            record = wandb_internal_pb2.Record()  # type: ignore[attr-defined]
            record.ParseFromString(body)
            body = b""
            yield record


def read(directory: Path) -> dict[str, Any]:
    """Returns config, history rows, summary and the run itself of the one offline run in a directory.

    Of a resumed run it is the last file, the one that `sentattn.sync` uploads. On a busy machine W&B's own
    process writes the end of the file after the run was closed.
    """
    path = max(directory.glob("wandb/offline-run-*/run-*.wandb"), key=lambda path: path.parent.name)
    for _ in range(MAX_ATTEMPTS):
        if (run := _read(path))["exit_code"] is not None:
            break
        time.sleep(0.1)
    return run


def table(directory: Path, row: dict[str, Any], name: str) -> list[list[Any]]:
    """Returns the cells of a table that a history row names."""
    [path] = directory.glob(f"wandb/offline-run-*/files/{row[f'{name}.path']}")
    cells: list[list[Any]] = json.loads(path.read_text(encoding="utf-8"))["data"]
    return cells


def _read(path: Path) -> dict[str, Any]:
    run: dict[str, Any] = {"config": {}, "history": [], "summary": {}, "run": None, "exit_code": None}
    for record in records(path):
        match record.WhichOneof("record_type"):
            case "run":
                run["run"] = record.run
                run["config"] |= _items(record.run.config.update)
            case "config":
                run["config"] |= _items(record.config.update)
            case "history":
                run["history"].append(_items(record.history.item))
            case "summary":
                run["summary"] |= _items(record.summary.update)
            case "exit":
                run["exit_code"] = record.exit.exit_code
    return run


def _items(items: Any) -> dict[str, Any]:
    return {".".join(i.nested_key) if i.nested_key else i.key: json.loads(i.value_json) for i in items}

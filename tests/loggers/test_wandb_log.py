"""A log of W&B's is cut behind its first end, however its records lie in its blocks."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from wandb.proto import wandb_internal_pb2
from wandb_reader import records

from sentattn.loggers.wandb_log import cut_after_end

HEAD, BLOCK = 7, 32768


def framed(*bodies: bytes) -> bytes:
    """Bodies in the framing of LevelDB's log: parts of at most a block, each with checksum, length and kind."""
    log = struct.pack("<4sHB", b":W&B", 0xBEE1, 0)
    for body in bodies:
        first = True
        while True:
            room = BLOCK - len(log) % BLOCK
            if room < HEAD:
                log += bytes(room)
                continue
            part, body = body[: room - HEAD], body[room - HEAD :]
            kind = (1 if not body else 2) if first else (4 if not body else 3)
            log += struct.pack("<IHB", zlib.crc32(part, zlib.crc32(bytes([kind]))), len(part), kind) + part
            first = False
            if not body:
                break
    return log


def record(**fields: object) -> bytes:
    return bytes(wandb_internal_pb2.Record(**fields).SerializeToString())


def exit_record(code: int) -> bytes:
    return record(exit=wandb_internal_pb2.RunExitRecord(exit_code=code))


@pytest.mark.parametrize("size", [0, BLOCK - 40, BLOCK - 30, BLOCK - 29, BLOCK - 28, BLOCK - 27, BLOCK, 3 * BLOCK])
def test_the_first_end_is_the_last_record(tmp_path: Path, size: int) -> None:
    path = tmp_path / "run-abc.wandb"
    before = record(output_raw=wandb_internal_pb2.OutputRawRecord(line="x" * size))
    path.write_bytes(framed(before, exit_record(0), exit_record(1)))
    cut_after_end(path)
    kept = list(records(path))
    assert [one.WhichOneof("record_type") for one in kept] == ["output_raw", "exit"]
    assert kept[0].output_raw.line == "x" * size
    assert kept[1].exit.exit_code == 0
    assert path.read_bytes() == framed(before, exit_record(0))


def test_a_log_without_an_end_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "run-abc.wandb"
    whole = framed(record(output_raw=wandb_internal_pb2.OutputRawRecord(line="x" * 2 * BLOCK)))
    for log in (whole, whole[:-5], whole[:3], b""):
        path.write_bytes(log)
        cut_after_end(path)
        assert path.read_bytes() == log

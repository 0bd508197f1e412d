"""W&B's log file of a run: records in the framing of LevelDB's log, each a protobuf."""

from __future__ import annotations

import os
import struct
from pathlib import Path

START, HEAD, BLOCK = 7, 7, 1 << 15
"""Bytes of the file's own head, of the head of each part of a record, and of a block, which no part crosses."""
FULL, LAST = 1, 4
"""Kinds of parts that end a record."""


def cut_after_end(path: Path) -> None:
    """Cuts a log behind the first record that says the run has ended.

    A run that is closed and then given up has two of them, which `wandb sync` takes for a fault once all is uploaded.
    """
    from wandb.proto import wandb_internal_pb2

    log = path.read_bytes()
    position, body = START, b""
    while position + HEAD <= len(log):
        if (left := BLOCK - position % BLOCK) < HEAD:
            position += left
            continue
        _, size, kind = struct.unpack_from("<IHB", log, position)
        part = log[position + HEAD : position + HEAD + size]
        if len(part) < size:  # it was not written to its end
            return
        body += part
        position += HEAD + size
        if kind in (FULL, LAST):
            record = wandb_internal_pb2.Record()  # type: ignore[attr-defined]
            record.ParseFromString(body)
            body = b""
            if record.HasField("exit"):
                os.truncate(path, position)
                return

"""Whatever the bytes of a file are: nothing in it is unpickled, imported or run."""

from __future__ import annotations

import io
import json
import pickle
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fuzz import READERS, read
from harmful import Harmful

RUNS_CODE = ("pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen")
"""What Python tells of before it happens."""
happened: list[str] | None = None


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    if happened is not None and event in RUNS_CODE:
        happened.append(f"{event} {arguments}")


sys.addaudithook(_listen)


@pytest.fixture
def marker(tmp_path: Path) -> Iterator[Path]:
    """A file that none of the payloads may leave."""
    global happened
    happened = []
    before = set(sys.modules)
    yield tmp_path / "marker"
    found, happened = happened, None
    assert not found
    assert not (tmp_path / "marker").exists()
    assert not [name for name in set(sys.modules) - before if "payload" in name]


def payloads(marker: Path) -> dict[str, bytes]:
    """Returns bytes that run a command where a reader believes them."""
    harmful, command = Harmful(marker), f"touch {marker}"
    torch.save(harmful, of_torch := io.BytesIO())
    np.savez(of_numpy := io.BytesIO(), states=np.array([harmful], dtype=object), offsets=np.array([0, 1]))
    with zipfile.ZipFile(archive := io.BytesIO(), "w") as opened:
        opened.writestr("../../payload.py", f"import os; os.system({command!r})")
        opened.writestr("yelp_review_subset.json", pickle.dumps(harmful))
    target = {"_target_": "os.system", "command": command, "_args_": [command]}
    own = {"format": 2, "seed": 0, "status": "finished", "model": target, "sampler": target, "space": {"a": target}}
    return {
        "pickle": pickle.dumps(harmful),
        "torch": of_torch.getvalue(),
        "numpy": of_numpy.getvalue(),
        "archive": archive.getvalue(),
        "yaml": f"!!python/object/apply:os.system ['{command}']\n".encode(),
        "nested yaml": f"a: &a !!python/object/new:os.system ['{command}']\nb: *a\n".encode(),
        "target": json.dumps(own).encode(),
        "resolver": f"text: ${{oc.env:HOME}}\nseed: ${{eval:'{command}'}}\nname: $({command})\n".encode(),
        "formula": f"text,label\n\"=cmd|'/C {command}'!A1\",a\n".encode(),
    }


@pytest.fixture
def good(name: str) -> bytes:
    """The content of a good file, made before anything is listened to."""
    return READERS[name].good()


@pytest.mark.parametrize("payload", payloads(Path("marker")))
@pytest.mark.parametrize("name", [name for name in READERS if name != "explorer"])
def test_no_file_runs_what_it_holds(name: str, payload: str, good: bytes, marker: Path, tmp_path: Path) -> None:
    content = payloads(marker)[payload]
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "payload.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    read(READERS[name], content, folder)
    read(READERS[name], good[:20] + content, folder)
    assert {file.name for file in tmp_path.iterdir()} == {"folder"}, "nothing is written beside what was read"


def test_a_pickle_that_is_believed_is_noticed(marker: Path) -> None:
    global happened
    pickle.loads(pickle.dumps(Harmful(marker)))
    assert happened
    marker.unlink()
    happened.clear()

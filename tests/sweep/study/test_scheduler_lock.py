"""Which process works on a study."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sentattn.errors import RunError
from sentattn.sweep.study.coordination import has_ended, identity, locked, owner


def test_a_folder_has_one_owner_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path):
        assert owner(tmp_path) == os.getpid()
        with pytest.raises(RunError) as caught, locked(tmp_path):
            pass
        assert (caught.value.faults[0].key, caught.value.faults[0].kind) == ("study", "busy")
    assert owner(tmp_path) is None


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no process is known to have ended")
def test_a_process_that_has_ended_is_known_on_its_machine_only() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        known = identity(process.pid)
        assert not has_ended(known)
        process.kill()
    assert has_ended(known)
    assert not has_ended(known | {"machine": "another"})
    assert has_ended(identity(os.getpid()) | {"started": "0"}), "its number was given to this process"

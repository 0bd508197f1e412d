"""A model that cannot fit is refused before it is built."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sentattn import build
from sentattn.config.compose import compose
from sentattn.errors import TrainingError
from sentattn.training import memory
from sentattn.training.memory import format_bytes, require_memory, total_memory


def require(limit: int, *words: str, rows: int = 0, tokens: int = 0) -> None:
    settings = compose(["trainer.accelerator=cpu", *words])
    with pytest.MonkeyPatch.context() as patch, torch.device("meta"):
        patch.setattr(memory, "total_memory", lambda _: (limit, "this machine"))
        model = build.build_model(settings["model"], num_embeddings=8, classes=2)
        require_memory(settings, model, rows=rows, tokens=tokens)


def test_parameters_by_hand() -> None:
    # weights, gradients and their average, of 4 bytes; 8 words of 100 numbers, and a head of 2 x 100 + 2
    needed = 3 * 4 * (8 * 100 + 2 * 100 + 2)
    require(needed, "model=mean")
    with pytest.raises(TrainingError) as caught:
        require(needed - 1, "model=mean")
    [fault] = caught.value.faults
    assert (fault.key, fault.kind) == ("model", "resources")
    assert "12 kB" in fault.message
    require(needed - 1, "model=mean", "ema_decay=null")
    require(needed // 2, "model=mean", "trainer.precision=bf16-true")


def test_the_attention_of_a_batch_counts_where_its_size_is_known() -> None:
    words = ["model.attention.hops=1000000"]
    require(10**10, *words)
    with pytest.raises(TrainingError, match=r"model\.attention\.hops \(now 1000000\)"):
        require(10**10, *words, rows=64, tokens=20)


def test_a_system_that_does_not_say_its_memory_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.sysconf")
    assert total_memory("cpu") == (None, "this machine")


def test_the_limit_of_a_control_group_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(memory, "CGROUP_LIMIT", limit)
    physical = total_memory("cpu")[0]
    limit.write_text("max\n")
    assert total_memory("cpu")[0] == physical
    limit.write_text("1000000\n")
    assert total_memory("cpu")[0] == 1_000_000


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1500, "2 kB"), (33e6, "33 MB"), (1.26e9, "1.3 GB"), (4.2e12, "4,200 GB")],
)
def test_sizes_for_people(size: float, text: str) -> None:
    assert format_bytes(size) == text

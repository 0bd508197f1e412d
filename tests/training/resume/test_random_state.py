"""Random numbers go on where they were."""

from __future__ import annotations

import io
import random

import numpy as np
import torch

from sentattn.training.resume.random_state import random_state, restore_random_state


def draws() -> list[float]:
    return [random.random(), float(np.random.rand()), float(np.random.randn()), float(torch.rand(()))]


def test_restored_generators_draw_the_same_numbers_again() -> None:
    draws()
    file = io.BytesIO()
    torch.save(random_state(), file)
    first = [draws(), draws()]
    file.seek(0)
    restore_random_state(torch.load(file, weights_only=True))
    assert [draws(), draws()] == first

"""Counts, on a CPU, where a step of training or a batch of validation would wait for a GPU, and its operations."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from pytorch_lightning import Callback
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

WAITING = {"_local_scalar_dense", "nonzero", "_unique2", "unique_dim", "masked_select", "equal", "bincount"}
"""Operators whose result, or its size, depends on values that a GPU has yet to compute."""
COPYING = {"cpu", "numpy", "tolist"}
"""Methods that copy to main memory; on a CPU no operator is called for them."""
HOST_ONLY = {"lift_fresh", "promote_types"}
"""Operators of tensors in main memory, such as those of a batch that is being loaded, and of no tensor."""


class Count(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operators and syncs.

    Attributes:
        operations: How often each operator was called.
        syncs: How often each place of the code waited.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: Counter[str] = Counter()
        self.syncs: Counter[str] = Counter()
        self.checks_on_cpu_only = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if func.namespace == "aten" and name not in HOST_ONLY:
            self.operations[name] += 1
        by_mask = name in ("index", "index_put_") and any(
            isinstance(index, Tensor) and index.dtype == torch.bool for index in args[1]
        )
        if (name in WAITING or by_mask) and not self.checks_on_cpu_only:
            self.wait(name)
        return func(*args, **(kwargs or {}))

    def wait(self, name: str) -> None:
        """Counts a sync, with the code that caused it."""
        calls = [call for call in traceback.extract_stack() if "site-packages/torch/" not in call.filename]
        where = [f"{call.filename.rpartition('/')[2]}:{call.lineno}" for call in calls if __file__ != call.filename]
        self.syncs[f"{name} < {' < '.join(where[:-4:-1])}"] += 1


class Copies(TorchFunctionMode):
    """Adds to a count what only functions of torch show: copies from and to main memory that do nothing on a CPU."""

    def __init__(self, count: Count) -> None:
        super().__init__()
        self.count = count

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        # By its name: a device that is read from a tensor would be the GPU's.
        to_cpu = name == "to" and any(
            isinstance(value, str) and value == "cpu" for value in (*args[1:], *kwargs.values())
        )
        if name in COPYING or to_cpu or (name in ("tensor", "as_tensor") and kwargs.get("device") is not None):
            self.count.wait(name)
        # On a GPU, one_hot does not check the range of the classes.
        self.count.checks_on_cpu_only = func is functional.one_hot
        try:
            return func(*args, **kwargs)
        finally:
            self.count.checks_on_cpu_only = False


@contextmanager
def counted() -> Iterator[Count]:
    """Counts what is called in the block."""
    count = Count()
    with count, Copies(count):
        yield count


class CountSteps(Callback):
    """Counts each step, from the start of a batch to that of the next one, and each batch of validation.

    Attributes:
        steps: The counts of the steps of an epoch but for the first, and the last two, before which a checkpoint is
            written.
        validation: Those of the batches of its validation.
    """

    def __init__(self) -> None:
        self.steps: list[Count] = []
        self.validation: list[Count] = []
        self._open: Any = None

    def _end(self, counts: list[Count] | None = None) -> None:
        if self._open is not None:
            block, count = self._open
            block.__exit__(None, None, None)
            self._open = None
            if counts is not None:
                counts.append(count)

    def _begin(self) -> None:
        block = counted()
        self._open = (block, block.__enter__())

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self._end(self.steps)
        if 0 < batch_idx < trainer.num_training_batches - 2:
            self._begin()

    def on_validation_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int, _: int = 0) -> None:
        self._end(self.validation)
        self._begin()

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self._end(self.validation)

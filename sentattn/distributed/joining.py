"""Connecting the processes that train one model together."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from datetime import timedelta

import torch
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from torch import distributed
from torch.distributed.rendezvous import rendezvous

from sentattn.distributed import ranks
from sentattn.distributed.places import place
from sentattn.distributed.rank import FOLDER
from sentattn.errors import Interruption, SettingError, UserError

MEET = timedelta(minutes=10)
"""How long ranks wait for one another at the beginning."""
WORK = timedelta(days=7)
"""How long they wait later, as for rank 0 to read the data; a dead rank is noticed without this limit."""


class Environment(LightningEnvironment):
    """Where Lightning finds the place of this process, whoever has launched it; it stays known for the next training.

    SLURM's own would answer signals by queueing the job again, and refuse what srun allows.
    """

    def teardown(self) -> None:
        """Leaves the variables as they are."""


@contextmanager
def joined() -> Iterator[None]:
    """Connects this process with the others, if there are any, for all that is done inside.

    Ranks other than the first print nothing but faults of their own, and leave with an exit code: what there is to be
    said is the first one's to say, or the launcher's, if that is ours.
    """
    here = place()
    if here is None or distributed.is_initialized():
        yield
        return
    os.environ.update(here.environment())
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    store, rank, world = next(rendezvous("env://", here.rank, here.world, timeout=MEET))
    distributed.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=WORK)
    try:
        if here.rank == 0:
            yield
        else:
            with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
                yield
    except (UserError, Interruption) as error:
        if here.rank == 0 or FOLDER in os.environ:
            raise
        if isinstance(error, Interruption):
            sys.exit(error.exit_code)
        if not isinstance(error, SettingError) and not ranks.is_agreed(error):  # these all ranks have
            print(*error.messages, sep="\n", file=sys.stderr)
        sys.exit(2)
    finally:
        distributed.destroy_process_group()

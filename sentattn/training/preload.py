"""Imported once by the server from which trainings are forked: libraries, and what is slow the first time."""

import gc
import sys
from types import TracebackType

import numpy as np
import pyarrow.compute
import pyarrow.parquet  # each training writes a table at its end
import torch

from sentattn.config.request import read_request
from sentattn.training import fit  # noqa: F401
from sentattn.training.environment import quiet_libraries


def print_server_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Prints an error of the server, but not the end of the connection to a scheduler that was killed meanwhile."""
    if not issubclass(kind, EOFError):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = print_server_error
quiet_libraries()
pyarrow.array(np.zeros(1))  # imports pandas, where it is installed
torch.set_num_threads(1)  # a process that forks must not have a pool of threads
read_request([])  # Hydra builds the tables of its grammar
gc.collect()
gc.freeze()  # a collection would write to the pages that the processes share

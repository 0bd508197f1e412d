"""Keeps what libraries say to their developers from the users of a normal run."""

from __future__ import annotations

import logging
import warnings

# Each is known and of no use to the user: the reason stands beside it.
IRRELEVANT = (
    r".*does not have many workers.*",  # batches are collated from a memory map faster than workers start
    r".*isinstance\(treespec, LeafSpec\).*",  # torch's deprecation, caused inside Lightning
    r".*The number of training batches .* is smaller than the logging interval.*",  # we log by epoch
    r".*Checkpoint directory .* exists and is not empty.*",  # our own new run directory
    r".*`trainer.fit` .*already .*",
    r".*It is recommended to use `self.log\(.*sync_dist=True.*",  # what is logged has been reduced
    r".*`broadcast_buffers` is deprecated.*",  # its new name came with torch 2.13
)


def libraries() -> None:
    """Lets through warnings and errors only, less those known to be irrelevant."""
    for name in ("pytorch_lightning", "lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    for message in IRRELEVANT:
        warnings.filterwarnings("ignore", message=message)

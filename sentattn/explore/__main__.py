"""Explore the attention of trained models in the browser: several models side by side, on any text.

usage: python -m sentattn.explore DIR [DIR ...] [port=8765] [split=test] [open=true] [trust=false]

  DIR      run directories, `latest`, folders that hold some at any depth, or hf://USER/NAME on the Hugging Face Hub;
           of runs that differ in their seed only the first is shown, and of more than eight settings the most accurate
           eight
  port     port of the page; another free one is taken where nothing was typed and 8765 is in use. The page is served on
           this machine only: from another one it is reached by ssh -L 8765:127.0.0.1:8765 HOST
  split    the rows to browse, test or val
  open     false does not open the browser
  trust    trust=true loads runs with classes of your own: it can run any code that a run names

The page begins with the surest error of the model that is the most accurate in validation. Type a review or pick one:
each model shows its label, its probabilities and its attention, hop by hop, and the weights from token to token where
it has them. Two models are shown, others on request. A click on a word removes or replaces it and predicts the text;
integrated gradients are shown next to attention on request. The address of the page is a link to what it shows. The
errors of a model, and the texts on which models disagree, are listed below. Ctrl-C ends the server.

Examples:
  python -m sentattn.explore outputs
  python -m sentattn.explore outputs/imdb/structured outputs/imdb/transformer port=9000
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from sentattn.config import command_line
from sentattn.config.types import Tree
from sentattn.errors import Fault, RunError, SettingError, require_packages
from sentattn.run import HUB_PREFIX, LATEST_RUN, load

KEYS = {
    "port": "Count",
    "split": 'Literal["test", "val"]',
    "open": "bool",
    "trust": "bool",
}
DEFAULTS: Tree = {"split": "test", "open": True, "trust": False}
PORT = 8765


@command_line.command
def main(arguments: list[str]) -> None:
    """Runs the command."""
    options = DEFAULTS | command_line.raw_arguments(arguments, KEYS, "runs")
    if not options["runs"]:
        message = "Give run directories or a folder that holds some, such as outputs."
        raise SettingError(Fault("runs", "missing", message))
    require_packages("explore", "The explorer", ("fastapi", "uvicorn"), "sentattn[explore]")
    listening = _listening(options.get("port"))

    import torch

    from sentattn.explore.server import load_models, read_rows, serve

    torch.set_num_threads(1)  # the fastest for single texts
    paths = [
        load(text).path if text == LATEST_RUN or text.startswith(HUB_PREFIX) else Path(text) for text in options["runs"]
    ]
    models, faults = load_models(paths, trust=options["trust"])
    rows, more = read_rows(models, options["split"])
    for fault in [*faults, *more]:
        print(f"warning: {fault}", file=sys.stderr)
    serve(models, rows, listening, opens=options["open"])


def _listening(port: int | None) -> socket.socket:
    """Returns a listening socket, so that a port in use is reported before anything is loaded; else a `RunError`."""
    for number in [port] if port else [PORT, 0]:
        try:
            return socket.create_server(("127.0.0.1", number))
        except (OSError, OverflowError) as error:  # a port above 65535
            reason = getattr(error, "strerror", None) or error
    message = f"port={port or PORT} cannot be used: {reason}. Type another port=, or leave it out."
    raise RunError(Fault("port", "conflict", message))


if __name__ == "__main__":
    sys.exit(main())

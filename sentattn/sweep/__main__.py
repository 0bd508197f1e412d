"""`python -m sentattn.sweep`."""

from __future__ import annotations

import sys

from sentattn.sweep.cli import main

if __name__ == "__main__":
    sys.exit(main())

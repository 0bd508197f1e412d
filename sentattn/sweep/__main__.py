"""`python -m sentattn.sweep`."""

from __future__ import annotations

import sys

from sentattn.sweep import main

if __name__ == "__main__":
    sys.exit(main())

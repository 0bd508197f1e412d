"""`python -m sentattn.sweep`."""

import sys

from sentattn.sweep.cli import main

if __name__ == "__main__":
    sys.exit(main())

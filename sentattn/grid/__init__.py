"""`train -m`: every combination of several values and seeds, each an ordinary run."""

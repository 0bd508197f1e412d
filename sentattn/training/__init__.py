"""Training and judging: from settings to a run, and from a run to figures."""

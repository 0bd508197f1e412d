"""Training and evaluation: settings to a run, and a run to metrics."""

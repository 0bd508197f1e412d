"""Sweeps: a study is searched by many trainings at once; see `python -m sentattn.sweep --help`."""

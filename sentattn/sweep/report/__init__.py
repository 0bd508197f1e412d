"""The results of a sweep: a table of its trials, its best setting, and a report."""

"""Weights & Biases: runs, media, uploads and dashboards."""

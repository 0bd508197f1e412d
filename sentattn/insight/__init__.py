"""Showing what a model attended to."""

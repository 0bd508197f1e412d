"""Readers: downloads, archives, tables, and labels as they are written in tables."""

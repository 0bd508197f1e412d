"""Attentions: states to values, and how much of each token they hold. One file each."""

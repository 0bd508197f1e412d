"""Encoders: embedded words to states that know their context. One file each."""

"""Predictions on the terminal, as an HTML page and as a picture; the look of all charts."""

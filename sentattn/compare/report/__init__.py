"""The report of a comparison: one page with charts, the numbers behind them, and texts with attention."""

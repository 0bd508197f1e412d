"""Comparison of finished runs: leaderboard, statistics, report."""

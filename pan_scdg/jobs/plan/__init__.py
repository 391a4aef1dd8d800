"""Estimate the cost of a run: count tokens, measure speed."""

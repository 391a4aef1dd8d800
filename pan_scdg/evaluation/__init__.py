"""Compute the measures of both tasks with their intervals, and print them as tables."""

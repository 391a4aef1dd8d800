"""Frozen causal language models -> log-probabilities. Knows no task."""

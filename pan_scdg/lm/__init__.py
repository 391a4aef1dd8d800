"""Compute log-probabilities with frozen causal language models, independent of the task."""

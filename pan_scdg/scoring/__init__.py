"""Score texts through the store: document pairs, candidates of queries, baselines."""

"""The method: gains, aggregations and decisions, with NumPy only."""

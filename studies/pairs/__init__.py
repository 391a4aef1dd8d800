"""The studies of document pairs: methods on splits, and the same-topic stress test."""

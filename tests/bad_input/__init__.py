"""The table of bad inputs, a file a kind of input."""

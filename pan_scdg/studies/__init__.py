"""The tables and the figure of the paper, each from stored scores and the user's copy of the data."""

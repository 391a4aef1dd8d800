"""The paper's studies: the tables and the figure, each from stored scores and the user's copy of the data."""

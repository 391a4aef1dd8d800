"""The tables and figures of the paper, from the results of ``run``: ``python -m studies``. No model is loaded here."""

"""``check``: folders of texts in, a ranked table and a report for people out."""

"""``check``: folders of texts in, a ranked table and an HTML report out."""

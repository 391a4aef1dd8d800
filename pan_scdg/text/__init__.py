"""What is true of one text, whatever it is compared with.

- `sentences` splits a text into sentences; `stemming` stems English words; `languages` has the words of languages.
- `headings` finds the lines that are no sentences, `code` and `tables` the listings and tables.
- `parts` finds what of a target does not count, by `quotations`, `references` and `formal_parts`.
- `units` splits a text into words and units, the sentences that `pan_scdg.align` compares, by all of these.
"""

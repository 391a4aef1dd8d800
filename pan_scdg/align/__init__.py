"""Find the passages of a target that correspond to passages of a source, without a language model.

- `units` splits a text into words and sentences.
- `headings` finds the lines that are no sentences.
- `parts` finds what of a target does not count, by `quotations`, `references` and `formal_parts`.
- `seeds` finds what two texts share: runs of equal words and pairs of similar sentences.
- `passages` makes passages of them.
- `vectors` encodes sentences; `matches` compares two texts by these vectors.
- `locator` finds passages by words and, with vectors, rewritten paragraphs.
- `selection` leaves out the pairs whose score cannot reach a limit, for a large number of pairs.

`pan_scdg.methods.alignment` computes the score of a pair.
"""

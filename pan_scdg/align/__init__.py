"""Find the passages of a target that correspond to passages of a source, without a language model.

- `seeds` finds what two texts share: runs of equal words and pairs of similar sentences.
- `passages` makes passages of them; `equal_words` marks the equal words of one.
- `vectors` encodes sentences; `matches` compares two texts by these vectors.
- `locator` finds passages by words and, with vectors, rewritten paragraphs.
- `selection` leaves out the pairs whose score cannot reach a limit, for a large number of pairs.
- `shared` finds what many texts share.

`pan_scdg.text` splits a text; `pan_scdg.methods.alignment` computes the score of a pair.
"""

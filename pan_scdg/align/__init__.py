"""Passages of a target that correspond to passages of a source: align, verify, decide.

Read the modules in this order:

1. Texts become words and sentences: `units`, and `quotations`, which finds the parts that a verdict leaves out.
2. Align: `verbatim` finds runs of common words, `similarity` pairs of similar sentences, `clusters` groups of these,
   and `align` makes passages of runs and groups. `paragraphs` matches rewritten paragraphs by embeddings.
3. Verify: `pan_scdg.scoring.verification` measures the gain of a passage from its source, with a control.
4. Decide: `scorer` computes the numbers of a pair, of sentences by `match`, of passages, and of texts as `wholes`;
   `pan_scdg.profile.baseline.Alignment` makes one score of them.
5. Show: `finder` finds the passages of a pair, or the sentences that decided; `counterpart` the place in a source that
   is most like a given passage of a query.

Of many pairs, `reachable` (with the loops in `kernels`) leaves out those whose score cannot reach the threshold.
"""

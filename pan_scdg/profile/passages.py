"""The table ``[passages]``: how passages are aligned. Chosen on PAN 2013 pairs: benchmarks/results/passages.md."""

from pydantic import Field

from pan_scdg.profile.table import Table


class PassageSettings(Table):
    """Parameters of the alignment.

    Units are sentences. Gaps are counted in units, lengths in characters of the shorter side.
    """

    encoder: str | None = Field(default=None, min_length=1)
    """The embedding model that matches rewritten paragraphs; None: passages are found by their words only."""
    gains: bool = False
    """Ask the language model how much easier each passage of a positive pair is to predict given its source."""
    unit_words: int = Field(default=3, ge=1)
    """A sentence of fewer words is joined to the next."""
    seed_cosine: float = Field(default=0.33, gt=0, le=1)
    seed_dice: float = Field(default=0.3, gt=0, le=1)
    gap: int = Field(default=4, ge=0)
    least_gap: int = Field(default=2, ge=0)
    cosine: float = Field(default=0.34, ge=0, le=1)
    """Least cosine of the two sides of a passage of ``full_length`` or more."""
    full_length: int = Field(default=300, ge=1)
    short_cosine: float = Field(default=0.3, ge=0)
    """Added to ``cosine`` for a passage without length; between that and ``full_length`` in proportion."""
    many_cosine: float = Field(default=0.1, ge=0)
    """Added to ``short_cosine`` times the logarithm of the pairs of units beyond `align.MANY`."""
    length: int = Field(default=120, ge=1)
    """Least length of a passage."""
    seed_worth: float = Field(default=0.25, ge=0, le=1)
    gap_penalty: float = Field(default=0.1, ge=0)
    """See `clusters.trim_cluster`."""
    run_words: int = Field(default=8, ge=2)
    """Least length of a verbatim run in words."""
    run_gap: int = Field(default=150, ge=0)
    """Most characters between two runs of one verbatim passage."""
    run_length: int = Field(default=200, ge=1)
    """Characters in runs that make a verbatim passage by themselves."""
    paragraphs: int = Field(default=5, ge=2)
    """Two texts with at least this many paragraphs each are also matched by paragraphs."""
    paragraph_length: int = Field(default=150, ge=1)
    """A shorter paragraph, such as a heading, is not matched."""
    paragraph_cosine: float = Field(default=0.65, ge=0, le=1)
    paragraph_margin: float = Field(default=0.1, ge=0)
    """Least difference between the cosines of the nearest and the second source paragraph."""
    summary_ratio: float = Field(default=3.0, ge=1)
    """Least ratio of the source side's length to the target's in a summary."""
    summary_gap: int = Field(default=24, ge=0)
    summary_length: int = Field(default=150, ge=1)

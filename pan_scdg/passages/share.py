"""Share a text among several sources: each of its sentences belongs to the sources that match it best.

A text that is written from several sources has sentences of each of them, and documents on the same topic match all of
its sentences a little. What counts is therefore which document matches a sentence better than the others do.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]


def share_sentences(cosines: Floats, words: npt.NDArray[np.integer], temperature: float) -> npt.NDArray[np.float64]:
    """Return the share of a text's words that each document explains, ``[k]``; the shares sum up to 1.

    The words of a sentence are divided by the softmax of its cosines over the temperature.

    Args:
        cosines: of each sentence with the most similar one of each document, ``[k, u]``.
        words: number of words of each sentence, ``[u]``.
        temperature: differences of cosines that are small beside it count little.

    Raises:
        ValueError: there is no document, or shapes disagree.
    """
    if cosines.ndim != 2 or not len(cosines) or words.shape != cosines.shape[1:]:
        raise ValueError(f"cosines of shape {cosines.shape} and words of shape {words.shape} do not fit")
    if not words.sum():
        return np.full(len(cosines), 1 / len(cosines))
    scaled = cosines.astype(np.float64) / temperature
    weights = np.exp(scaled - scaled.max(axis=0))
    shares: npt.NDArray[np.float64] = (weights / weights.sum(axis=0)) @ (words / words.sum())
    return shares

"""Names of the array types that the method works on."""

from typing import Any

import numpy as np
import numpy.typing as npt

TokenIds = npt.NDArray[np.int64]
"""Token ids, ``[n]``."""

Floats = npt.NDArray[np.floating[Any]]
"""Numbers of any float type, ``[n]``."""

Offsets = npt.NDArray[np.int64]
"""Half-open intervals in characters of a text, one a token, ``[n, 2]``."""

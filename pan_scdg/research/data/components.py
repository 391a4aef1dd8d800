"""Which pairs belong together because they share documents (paper, PAN25 Document-Linked Splits).

The vertices of a bipartite graph are the suspicious and the source files, each pair is an edge, and what is connected,
directly or by way of others, must not be divided between training and test.
"""

from collections.abc import Sequence

import numpy as np


def component_ids(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """The component of each pair ``(suspicious file, source file)``, in their order.

    A component is named by the smallest of its vertices, which are compared as texts: ``src:NAME`` and ``susp:NAME``.
    The two kinds never meet, so that a file name that occurs on both sides is two vertices.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if not pairs:
        return []
    edges = [(f"src:{source}", f"susp:{suspicious}") for suspicious, source in pairs]
    vertices = sorted({vertex for edge in edges for vertex in edge})
    number = {vertex: index for index, vertex in enumerate(vertices)}
    rows, columns = np.array([[number[vertex] for vertex in edge] for edge in edges]).T
    graph = coo_array((np.ones(len(rows), dtype=np.int8), (rows, columns)), shape=(len(vertices), len(vertices)))
    _, labels = connected_components(graph, directed=False)
    smallest = np.unique(labels, return_index=True)[1]  # vertices are in order, so the first of a label is its smallest
    return [vertices[smallest[labels[row]]] for row in rows]

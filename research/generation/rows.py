"""A function of a batch, applied to any number of rows on a mesh."""

# B batch, N rows

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from research.data.progress import MANY, progress
from research.distributed import sharding


def map_rows(
    run: Callable[[Any], Any],
    arrays: Any,
    *,
    batch: int,
    mesh: Any,
    before_batch: Callable[[], None] = lambda: None,
    shown: str = "",
) -> Any:
    """The results of all rows on the host, each [N, ...].

    Args:
      run: a compiled function of arrays [B, ...] to arrays [B, ...], replicated.
      arrays: a tree of arrays [N, ...], the same in all processes.
      batch: rows per batch; rounded up to a number that the mesh divides. The last
        batch is padded with the last row.
      mesh: rows are sharded over it.
      before_batch: called before each batch, equally often in all processes.
      shown: what the rows are, for the progress on standard error if there are many.
    """
    count = len(jax.tree.leaves(arrays)[0])
    num_shards = mesh.shape["data"] * mesh.shape["fsdp"]
    batch = -(-min(batch, count) // num_shards) * num_shards
    where, results = sharding.batch_sharding(mesh), []
    with (
        sharding.context(mesh),
        progress(shown, count, silent=not shown or count < MANY) as report,
    ):
        for first in range(0, count, batch):
            before_batch()
            report(first, f"{first} of {count}")
            row = np.minimum(np.arange(first, first + batch), count - 1)
            rows = jax.tree.map(
                lambda x, row=row: jax.device_put(x[row], where), arrays
            )
            results.append(jax.device_get(run(rows)))
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:count], *results)

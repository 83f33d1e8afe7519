"""Models of tests/goldens/huggingface as networks to export."""

import jax
import numpy as np

from research.checkpoints.checkpoint import path_name
from research.contract.batch import VocabInfo
from research.interop.huggingface import export
from tests.testing.huggingface_goldens import params_of


def vocab_of(model):
    size = model.config["vocab_size"]
    special = np.arange(size) < 5
    ordinary = np.arange(5, size, dtype=np.int32)
    return VocabInfo(
        size, model.sizes.pad_id, 1, 2, 3, 4, (), special, ordinary, (), None, ordinary
    )


def network_of(golden, **changes):
    """The golden's network with its own parameters, before it is exported."""
    tree = params_of(golden)
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    params = {path_name(path): np.asarray(leaf) for path, leaf in leaves}
    patterns, model = golden.model.family.patterns, golden.model
    fields = {
        "options": golden.network.options,
        "params": params,
        "pattern": patterns[0] if patterns else "",
        "vocab": vocab_of(model),
        "prefers": (model.family.model_type,),
        "head_activation": model.family.head_activation,
        "pool": "mean" if model.config.get("classifier_pooling") == "mean" else "token",
    }
    return export.Network(**(fields | changes))

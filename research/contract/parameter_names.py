"""Names of parameters: those of earlier versions stand for today's."""

import re
from collections.abc import Callable
from typing import Any

import jax

RENAMED = {
    "place": "embeddings",
    "encoder_place": "encoder_embeddings",
    "decoder_place": "decoder_embeddings",
    "kind": "token_type",
    "sides": "boundary_head",
    "answer_*": "head_*",
    "rows": "embedding",
    "tail_*_rows": "tail_*_embedding",
}
"""Component of a parameter's path in earlier versions -> today's; * is any text.

No network of this version may have a component of the left side. Runs keep their noise:
a module draws as the one that had its earlier name (`networks.layers.dense.Module`).
"""

NAME_KEYS = ("optimizer.frozen", "train.init_scope")
"""Config keys whose values are paths of parameters."""


def current_name(path: str) -> str:
    """A path such as "place/kind", or several with commas, in today's names."""
    return _rename(path, RENAMED)


def earlier_name(path: str) -> str:
    """The same in the names of earlier versions."""
    return _rename(path, {new: old for old, new in RENAMED.items()})


def rename_keys(tree: Any, rename: Callable[[str], str]) -> Any:
    """The tree with the keys of all its dicts renamed."""

    def is_dict(node: Any) -> bool:
        return isinstance(node, dict)

    def rename_node(node: Any) -> Any:
        if not is_dict(node):
            return node
        return {rename(key): rename_keys(value, rename) for key, value in node.items()}

    return jax.tree.map(rename_node, tree, is_leaf=is_dict)


def _rename(path: str, names: dict[str, str]) -> str:
    def rename_component(match: re.Match) -> str:
        for old, new in names.items():
            pattern = re.escape(old).replace(r"\*", "(.+)")
            if found := re.fullmatch(pattern, match[0]):
                return new.replace("*", *found.groups()) if "*" in new else new
        return match[0]

    return re.sub(r"[^/,\s]+", rename_component, path)

"""The families that are known, in modules by kind, and which of them a config is of."""

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from typing import Any

from research.contract.errors import UserError
from research.contract.parts import PartTable
from research.interop.huggingface.family import TASK_HEADS, Family, class_names

FAMILIES = tuple(
    value
    for module in sorted(each.name for each in pkgutil.iter_modules(__path__))
    for value in vars(importlib.import_module(f"{__name__}.{module}")).values()
    if isinstance(value, Family)
)
"""In the order of their definitions: a model is exported as the first that computes the
same. Those of two modules never do."""


def _line(model_type: str) -> str:
    """Its classes, the head of its tasks, and its notes."""
    own = [family for family in FAMILIES if family.model_type == model_type]
    classes = (name for family in own for name, _ in family.architectures)
    heads = (each.head_activation for each in own)
    facts = [f"objective.head={head}" for head in heads if head]
    facts += [each.note for each in own if each.note]
    return "; ".join([", ".join(dict.fromkeys(classes)), *dict.fromkeys(facts)])


LISTED = PartTable(
    "Families of Hugging Face",
    "hf:DIR, export",
    {name: _line(name) for name in sorted({each.model_type for each in FAMILIES})},
)


def family_of(config: Mapping[str, Any], where: Any) -> Family:
    """The family of a config.json; of several of a type that with the config's class.

    Args:
      where: the folder, for errors.

    Raises:
      UserError: it is of no family that is known.
    """
    model_type = config.get("model_type")
    found = [family for family in FAMILIES if family.model_type == model_type]
    if not found:
        known = ", ".join(dict.fromkeys(family.model_type for family in FAMILIES))
        raise UserError(
            f"{where} is a model of type {model_type!r}, which has no counterpart "
            f"here; known: {known}"
        )
    try:
        classes = {*class_names(config)}
    except UserError as error:
        raise UserError(f"{where}: {error}") from error
    own = [each for each in found if classes & dict(each.architectures).keys()]
    return (own or found)[0]


def preferred(params: Iterable[str], tokenizer_type: str) -> tuple[str, ...]:
    """The types of models to which a network is exported, if several compute the same.

    They have one of its heads other than those for tasks, such as nsp, or the type of
    its vocabulary.

    Args:
      params: the paths of its parameters.
    """
    first = (path.partition("/")[0] for path in params)
    own = {name.removeprefix("head_") for name in first if name.startswith("head_")}
    return tuple(
        family.model_type
        for family in FAMILIES
        if tokenizer_type in family.tokenizer_types
        or own.difference(TASK_HEADS) & family.heads.keys()
    )

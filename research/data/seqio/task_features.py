"""The split and the features of a seqio task that an objective reads."""

from typing import Any

from research.contract.errors import UserError, unknown


def find_split(provider: Any, split: str) -> str:
    """The provider's name for a split: our valid may be its validation.

    Raises:
      UserError: it has no such split.
    """
    known = tuple(provider.splits)
    if split not in known and split == "valid" and "validation" in known:
        return "validation"
    if split not in known:
        raise unknown(f"split of data.task {provider.name}", split, known)
    return split


def choose_features(
    provider: Any, objective: Any, length: int
) -> tuple[tuple[str, ...], dict[str, int]]:
    """The features that are read, and the maximum of tokens of texts, without eos.

    They are the objective's arrays, if the task has all of them; then no feature is a
    text. Else they are `inputs` and `targets`, if the objective reads an input and a
    target, or `targets`.

    Args:
      provider: a `seqio.Task` or `seqio.Mixture`.
      length: data.length.

    Raises:
      UserError: the task has none of these, or texts of two vocabularies.
    """
    features, name = provider.output_features, f"data.task {provider.name}"
    specs = objective.batch_spec(length)
    if set(specs) <= set(features):
        for key, spec in specs.items():
            if features[key].rank != len(spec.shape):
                raise UserError(
                    f"{name}: {key} has {features[key].rank} dimensions; the objective "
                    f"needs {len(spec.shape)}"
                )
        return (*specs, *(("example",) if "example" in features else ())), {}
    spec = objective.text_spec(length)
    rooms = {"targets": spec.width}
    if spec.label:
        raise UserError(
            f"{name} has no labels, which the objective reads; use a task that has the "
            "objective's arrays, or objective.name=sequence_to_sequence"
        )
    if spec.max_first:
        rooms = {"inputs": spec.max_first, "targets": spec.length - spec.max_first}
    elif spec.has_pairs and not spec.pair_labels:
        raise UserError(
            f"{name} does not mark the parts of its texts, which the objective needs; "
            "name files of text (data.train with data.fields), or use a task that has "
            "the objective's arrays"
        )
    elif spec.has_pairs:
        raise UserError(
            f"{name} has single texts, but the objective reads pairs of texts; use a "
            "task that has the objective's arrays"
        )
    if any(key not in features or features[key].rank != 1 for key in rooms):
        raise UserError(
            f"{name} has neither the objective's arrays ({', '.join(specs)}) nor token "
            f"ids as {' and '.join(rooms)}; it has {', '.join(features)}"
        )
    first, *others = (features[key].vocabulary for key in rooms)
    if any(other != first for other in others):
        raise UserError(
            f"{name}: its inputs and targets have different vocabularies, but the "
            "network has one"
        )
    return tuple(rooms), rooms


def count_ids(
    provider: Any, objective: Any, length: int, vocab_size: int
) -> dict[str, int]:
    """Feature with token ids -> the number of ids.

    Texts have the task's own ids; an array may also have special ids that were added to
    its vocabulary. Labels of words are not token ids.

    Args:
      length: data.length.
      vocab_size: including the ids that were added.
    """
    names, rooms = choose_features(provider, objective, length)
    features = provider.output_features
    if rooms:
        return {name: features[name].vocabulary.vocab_size for name in rooms}
    kind = objective.text_spec(length).label_type
    of_words = bool(objective.predicts and kind and kind.array)
    ends = ("token",) if of_words else ("token", "target")
    return {name: vocab_size for name in names if name.endswith(ends)}

"""Writes networks in Hugging Face's layout."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from research.contract.batch import VocabInfo
from research.contract.errors import UserError
from research.interop.huggingface import folder as folders
from research.interop.huggingface import rows
from research.interop.huggingface.families import FAMILIES
from research.interop.huggingface.family import ONLY_TRAINED_WITH, TASK_HEADS, Family
from research.networks import readouts
from research.networks.transformer.options import STACK_PATTERNS


@dataclasses.dataclass(frozen=True)
class Network:
    """A network to export.

    Attributes:
      params: by path, as NumPy arrays.
      pattern: the attention pattern; "" for an encoder-decoder.
      prefers: model types that are chosen before others with the same network.
      labels: the names of the values of its head; (): they have none.
      problem_type: of a classifier, a value of Hugging Face's key; "": another network.
      head_activation: that of its head's own hidden layer; "": there is none.
      pool: the states that its classifier reads, as `objective.pool` has them.
    """

    options: Any
    params: Mapping[str, np.ndarray]
    pattern: str
    vocab: VocabInfo
    prefers: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    problem_type: str = ""
    head_activation: str = ""
    pool: str = "token"


MEANT_BY_ALL = {"attention": "dense"} | readouts.keys()
"""Options of which config.json says nothing, as any family's network has them."""
PRECISION_AND_SPEED = ("attention", "dtype", "product_dtype", "remat", "scan_unroll")
"""Options of how a network is computed, not of what: Hugging Face has its own."""
OTHER_MASK = 3
"""Options that another attention mask counts as, in the choice of the nearest."""
NOT_STATES = ("head_", "pooler/", "future_")
"""Beginnings of parameters that change no state: heads, blocks of later tokens."""
POOLED_HEADS = ("label", "choice")
"""Heads that read one state of a text."""


def write_network(
    folder: Path, network: Network, extra: Mapping[str, Any] | None = None
) -> list[str]:
    """Writes config.json and model.safetensors.

    Args:
      extra: further keys of config.json.

    Returns:
      lines that say which class loads it, and what has no place there.

    Raises:
      UserError: Hugging Face has no such network; names the options.
    """
    family, config, changed = _choose_family(network)
    sizes = _sizes(network, config)
    name, heads = _architecture(family, network.params)
    tensors, written = rows.write(family.rows(heads), network.params, sizes)
    left = sorted(set(network.params) - written)
    if outside := [path for path in left if not path.startswith(NOT_STATES)]:
        raise UserError(
            f"Hugging Face's {name} has no parameters for {', '.join(outside)}"
        )
    config |= {"architectures": [name], "model_type": family.model_type}
    config |= _label_config(network, heads)
    if len(family.pools) > 1 and {*heads} & {*POOLED_HEADS}:
        config["classifier_pooling"] = "mean" if network.pool == "mean" else "cls"
    folders.write_folder(folder, config | dict(extra or {}), tensors)
    lines = [f"{name}, {sum(t.size for t in tensors.values()):,} numbers"]
    if left:
        parts = dict.fromkeys(path.partition("/")[0] for path in left)
        lines.append(f"left out, which {name} does not have: {', '.join(parts)}")
    if changed:
        lines.append(f"not in config.json, which has no such key: {', '.join(changed)}")
    return lines


def _label_config(network: Network, heads: tuple[str, ...]) -> dict[str, Any]:
    """The keys of config.json about labels.

    Raises:
      UserError: the head has not as many values as there are names.
    """
    head = next((name for name in ("label", "tag") if name in heads), None)
    if head is None:
        return {}
    count = network.params[f"head_{head}/out/kernel"].shape[-1]
    names = network.labels or tuple(f"LABEL_{n}" for n in range(count))
    if len(names) != count:
        raise UserError(f"the head has {count} values, but {len(names)} labels")
    problem = {"problem_type": network.problem_type} if network.problem_type else {}
    return problem | {
        "id2label": {str(n): name for n, name in enumerate(names)},
        "label2id": {name: n for n, name in enumerate(names)},
    }


def _choose_family(network: Network) -> tuple[Family, dict[str, Any], list[str]]:
    """The family, its config, and options of training that it cannot say."""
    if "token/embedding" not in network.params:
        raise UserError(
            "Hugging Face has no architecture for a network without its own token "
            "table, such as model.network=two_towers"
        )
    pattern, others, without_head = network.pattern, [], None
    tasks = _task_heads(network.params)
    for family in _candidates(network):
        if bool(family.patterns) != bool(pattern):
            continue
        config = family.write_config(network.options, network.vocab.pad_id)
        again = _read_again(family, config, network)
        differ = _differences(family, network, again)
        if pattern and pattern not in family.patterns:
            differ = [f"attention masks {family.patterns[0]} (not {pattern})", *differ]
        if not differ:
            config = _with_vocab(config, network)
            if family.has_class_ids:
                config |= {
                    "cls_token_id": network.vocab.bos_id,
                    "sep_token_id": network.vocab.eos_id,
                }
            found = family, config, _training(network, again)
            if tasks.issubset(_architecture(family, network.params)[1]):
                return found
            without_head = without_head or found
        else:
            lacks = bool(pattern) and pattern not in family.patterns
            order = again is None, len(differ) + OTHER_MASK * lacks
            others.append((order, family.model_type, differ))
    if without_head:
        return without_head
    _, name, differ = min(others, key=lambda other: other[0])
    raise UserError(
        "Hugging Face has no architecture of this network; the nearest, "
        f"{name}, has {', '.join(differ)}. Networks of published experiments have one, "
        "such as those of experiments/roberta.py, gpt2.py and t5.py"
    )


def _candidates(network: Network) -> list[Family]:
    return sorted(FAMILIES, key=lambda family: family.model_type not in network.prefers)


def _read_again(family: Family, config: dict, network: Network) -> Any:
    """The options that are read from what was written; None: no network has them."""
    rows_of_table = len(network.params["token/embedding"])
    is_table = network.options.output_rows == "table"
    size = rows_of_table if is_table else network.vocab.size
    config = config | {"vocab_size": size}
    try:
        values = MEANT_BY_ALL | family.read_options(config, {})
        return dataclasses.replace(network.options, **values)
    except (UserError, ValueError, TypeError, KeyError):
        return None


def _differences(family: Family, network: Network, again: Any) -> list[str]:
    """Options in which what is read again computes something else."""
    if again is None:
        return ["a config that cannot say these options"]
    before, after = (_computes(o, network) for o in (network.options, again))
    differ = [
        f"model.{name} {after[name]} (not {value})"
        for name, value in before.items()
        if after[name] != value
    ]
    differ += _fixed(family, network)
    own, theirs = network.head_activation, family.head_activation
    if _has_hidden_layer(family, network) and own and own != theirs:
        differ.append(f"objective.head {theirs} (not {own})")
    if network.pool not in family.pools:
        differ.append(f"objective.pool {family.pools[0]} (not {network.pool})")
    readout, activation = _readout(network), network.options.activation
    if readout and readout not in family.readout:
        differ.append(f"model.output_head {family.readout[0]} (not {readout})")
    if (
        readout == "transform"
        and (family.readout_activation or activation) != activation
    ):
        differ.append(
            f"model.activation {family.readout_activation} (not {activation})"
        )
    return differ


def _fixed(family: Family, network: Network) -> list[str]:
    """What the family's code demands, and the network does not have."""
    width, heads, pad_id = network.options.width, network.options.heads, family.pad_id
    differ = []
    if family.heads_divide_width and width % heads:
        differ.append(f"model.heads that divide model.width {width} (not {heads})")
    if family.has_own_pad and network.vocab.pad_id != pad_id:
        differ.append(f"padding id {pad_id} (not {network.vocab.pad_id})")
    return differ


def _has_hidden_layer(family: Family, network: Network) -> bool:
    """Whether the family's head for the network's task has one of its own."""
    tasks = _task_heads(network.params) & family.heads.keys()
    rows_of = (row for task in tasks for row in family.heads[task])
    paths = (path for row in rows_of for path in row.paths)
    return bool(family.head_activation) and any("/dense/" in path for path in paths)


def _computes(options: Any, network: Network) -> dict[str, Any]:
    """Options that decide what a trained network computes, each in one spelling."""
    values = dataclasses.asdict(options)
    for name in (*ONLY_TRAINED_WITH, *PRECISION_AND_SPEED):
        del values[name]
    del values["output_head"]
    if options.max_positions is None:
        values["max_length"] = None
    if options.bias:
        values["qkv_bias"] = True
    if _readout(network) is None or network.vocab.size % 128 == 0:
        values["output_rows"] = None
    return values | {
        "head_width": options.key_width,
        "num_kv_heads": options.num_kv_heads or options.heads,
        "position_bias": options.bias_scheme is not None,
        "position_buckets": _buckets(options, network.pattern),
        "embedding_width": options.table_width,
        "decoder_layers": options.decoder_layers or options.layers,
        "embedding_norm": options.has_embedding_norm,
        "token_types": max(1, options.token_types),
        "init": "t5" if options.init == "t5" else "",
    }


def _buckets(options: Any, pattern: str) -> str:
    """The buckets of the bias in each stack; "": it has none."""
    if (scheme := options.bias_scheme) is None:
        return ""
    patterns = [pattern] if pattern else STACK_PATTERNS.values()
    return " and ".join(filter(None, map(scheme.buckets, patterns)))


def _readout(network: Network) -> str | None:
    """The layers of the readout; None: the network is a classifier and has none."""
    if "output/dense/kernel" in network.params:
        return "transform"
    if "output/bias" in network.params:
        return "bias"
    is_discriminator = any(path.startswith("head_replaced/") for path in network.params)
    return None if is_discriminator or _task_heads(network.params) else "table"


def _task_heads(params: Mapping[str, np.ndarray]) -> set[str]:
    """The heads for tasks that a network has."""
    found = {path.split("/")[0].removeprefix("head_") for path in params}
    return found.intersection(TASK_HEADS)


def _training(network: Network, again: Any) -> list[str]:
    """Rates of dropout that the config cannot say."""
    return [
        f"model.{place}_dropout {network.options.dropout_rate(place)}"
        for place in network.options.dropout_places
        if again.dropout_rate(place) != network.options.dropout_rate(place)
    ]


def _with_vocab(config: dict[str, Any], network: Network) -> dict[str, Any]:
    vocab = network.vocab
    is_table = network.options.output_rows == "table"
    size = len(network.params["token/embedding"]) if is_table else vocab.size
    ids = {"bos_token_id": vocab.bos_id, "eos_token_id": vocab.eos_id}
    return config | ids | {"vocab_size": size, "dtype": "float32"}


def _sizes(network: Network, config: Mapping[str, Any]) -> rows.Sizes:
    options = network.options
    return rows.Sizes(
        vocab=config["vocab_size"],
        heads=options.heads,
        key_width=options.key_width,
        table_width=options.table_width,
        pad_id=network.vocab.pad_id,
    )


def _architecture(
    family: Family, params: Mapping[str, np.ndarray]
) -> tuple[str, tuple[str, ...]]:
    """The first architecture whose heads the network has."""
    tasks = _task_heads(params)

    def is_tied(r: rows.Row) -> bool:
        return bool(r.instead) and "output/embedding" in r.paths

    def fits(heads: tuple[str, ...]) -> bool:
        if tasks != tasks.union(heads).intersection(TASK_HEADS):
            return False
        needed = [r for head in heads for r in family.heads[head]]
        held = {path for r in needed for path in r.paths}
        own = tuple(f"head_{head}/" for head in tasks)
        return held.issuperset(p for p in params if p.startswith(own)) and all(
            r.neutral or is_tied(r) or all(path in params for path in r.paths)
            for r in needed
        )

    for name, heads in family.architectures:
        if fits(heads):
            return name, heads
    return family.architectures[-1]

"""What Hugging Face's golden inputs give in our networks: a function for each kind."""

import jax
import jax.numpy as jnp
import numpy as np

from research import objectives
from research.contract.batch import NEVER
from research.objectives.lm import lm
from research.objectives.losses.cross_entropy import (
    Term,
    binary_cross_entropy,
    masked_cross_entropy,
)
from research.objectives.mlm import mlm
from research.objectives.tasks import task_input
from research.objectives.tasks.sequence_classification import POOLS
from research.program.step import weighted_loss

IGNORED = -100


def _group(token, mask, *, causal=False, token_type=None, prefix=""):
    position = np.broadcast_to(np.arange(token.shape[1]), token.shape)
    rank = position if causal else np.zeros_like(position)
    arrays = {
        "token": token,
        "position": position,
        "segment": mask,
        "token_type": np.zeros_like(position) if token_type is None else token_type,
        "rank": rank,
        "reach": rank,
    }
    return {prefix + key: np.asarray(x, np.int32) for key, x in arrays.items()}


def _mean_loss(terms):
    return weighted_loss(terms, {name: term.weight for name, term in terms.items()})


def _logits(readout):
    logits = jnp.einsum("...e,ve->...v", readout.feature, readout.table)
    bias = jnp.expand_dims(readout.bias, range(logits.ndim - 1))
    return (logits + bias)[..., : readout.size]


def _masked(model, inputs):
    """Masked tokens and pairs; the last scored position is the class token."""
    mask, labels = inputs["attention_mask"], inputs["labels"]
    group = _group(inputs["input_ids"], mask, token_type=inputs.get("token_type_ids"))
    chosen = labels != IGNORED
    count = chosen.sum(axis=1).max() + 1
    scored = np.argsort(~chosen, axis=1, kind="stable")[:, :count]
    weight = np.take_along_axis(chosen, scored, axis=1).astype(np.float32)
    scored = np.where(weight > 0, scored, 0)
    target = np.where(weight > 0, np.take_along_axis(labels, scored, axis=1), 0)
    batch = group | {
        "scored": scored.astype(np.int32),
        "target": target.astype(np.int32),
        "weight": weight,
    }
    task, pair = "none", {"nsp": "next_sentence_label", "sop": "sentence_order_label"}
    for name, key in pair.items():
        if key in inputs:
            task = name
            batch["label"] = inputs[key].astype(np.int32)
            batch["label_weight"] = np.ones(len(mask), np.float32)
    pairs = {} if task == "none" else {"format": "segment_pair", "sentence_task": task}
    objective = mlm.Objective(**pairs)
    outputs_of = {"nsp": "seq_relationship_logits", "sop": "sop_logits"}

    def outputs(net):
        terms, _ = objective.loss(net, batch, None)
        states = net.states(group)
        if task == "none":
            return _mean_loss(terms), {"logits": _logits(net.readout(states))}
        return _mean_loss(terms), {
            "prediction_logits": _logits(net.readout(states)),
            outputs_of[task]: net.head(task, states[:, 0]),
        }

    return outputs, mask > 0


def _replaced(model, inputs):
    mask = inputs["attention_mask"]
    group = _group(inputs["input_ids"], mask)

    def outputs(net):
        logits = net.head("replaced", net.states(group))[..., 0]
        weight = jnp.asarray(mask, jnp.float32)
        term, _ = binary_cross_entropy(logits, inputs["labels"], weight)
        return _mean_loss({"discriminator": term}), {"logits": logits}

    return outputs, mask > 0


def _causal(model, inputs):
    mask, labels = inputs["attention_mask"], inputs["labels"]
    group = _group(inputs["input_ids"], mask, causal=True)
    target = np.concatenate([labels[:, 1:], np.full_like(labels[:, :1], IGNORED)], 1)
    batch = group | {
        "target": np.maximum(target, 0).astype(np.int32),
        "weight": (target != IGNORED).astype(np.float32),
    }

    def outputs(net):
        terms, _ = lm.Objective().loss(net, batch, None)
        return _mean_loss(terms), {"logits": _logits(net.readout(net.states(group)))}

    return outputs, mask > 0


def _seq2seq(model, inputs):
    labels, start = inputs["labels"], model.config["decoder_start_token_id"]
    target = np.maximum(labels, 0).astype(np.int32)
    pad_id, before = model.config["pad_token_id"], np.full_like(labels, start)
    before[:, 1:] = np.where(labels == IGNORED, pad_id, labels)[:, :-1]
    ones = np.ones_like(labels)
    batch = (
        _group(inputs["input_ids"], inputs["attention_mask"], prefix="encoder_")
        | _group(before, ones, causal=True, prefix="decoder_")
        | {"target": target, "weight": (labels != IGNORED).astype(np.float32)}
    )
    name, fields = model.family.trained_by
    objective = objectives.make_objective(name, **fields)
    decoder = {k.removeprefix("decoder_"): v for k, v in batch.items()}
    encoder = {k.removeprefix("encoder_"): v for k, v in batch.items()}

    def outputs(net):
        terms, _ = objective.loss(net, batch, None)
        states = net.states(decoder, encoded=net.encode(encoder))
        return _mean_loss(terms), {"logits": _logits(net.readout(states))}

    return outputs, ones > 0


def _permuted(model, inputs):
    """Both streams of XLNet; the second half of the batch is read backwards."""
    rows, length = inputs["input_ids"].shape
    rank, target_index = inputs["rank"], inputs["target_index"]
    backward = (np.arange(rows) >= rows // 2)[:, None]
    content = _group(inputs["input_ids"], np.ones((rows, length)))
    position = np.where(backward, length - 1 - content["position"], content["position"])
    content |= {"position": position, "rank": rank, "reach": rank}
    content["token_type"] = inputs["token_type_ids"]
    query = {
        key: np.take_along_axis(array, target_index, axis=1)
        for key, array in content.items()
    }
    query |= {"rank": query["rank"] * 0 + NEVER, "reach": query["reach"] - 1}
    group = {
        key: np.concatenate([content[key], query[key]], 1).astype(np.int32)
        for key in content
    }
    num_targets = target_index.shape[1]
    scored = np.broadcast_to(length + np.arange(num_targets), target_index.shape)
    batch = {
        "target": inputs["labels"].astype(np.int32),
        "weight": np.ones(target_index.shape, np.float32),
    }
    mems = np.moveaxis(inputs["mems"], (0, 1, 2), (1, 2, 0))
    mems = {"state": mems, "segment": np.ones((rows, mems.shape[2]), np.int32)}

    def outputs(net):
        found = net.outputs(
            group, scored=scored.astype(np.int32), num_keys=length, mems=mems
        )
        readout = net.readout(found.states)
        terms = masked_cross_entropy("plm", readout, batch)
        return _mean_loss(terms), {"logits": _logits(readout)}

    return outputs, np.ones(target_index.shape, bool)


def _labels(model, inputs):
    token, mask = inputs["input_ids"], inputs["attention_mask"]
    backward = model.config.get("bi_data", False)
    is_causal = model.family.patterns[:1] == ("causal",)
    group = _group(token, mask, causal=is_causal)
    if backward:
        half = (np.arange(len(token)) >= len(token) // 2)[:, None]
        length = token.shape[1]
        position = np.where(half, length - 1 - group["position"], group["position"])
        group["position"] = position.astype(np.int32)
    last = mask.sum(axis=1) - 1

    def outputs(net):
        if model.family.patterns:
            states = net.states(group)
            is_last = is_causal or model.family.task_format in task_input.POOLED_LAST
            at = last if is_last else last * 0
        else:
            shifted = np.roll(token, 1, axis=1)
            shifted[:, 0] = model.config["decoder_start_token_id"]
            decoder = _group(shifted, np.ones_like(mask), causal=True)
            states, at = net.states(decoder, encoded=net.encode(group)), last
        pooled = states[np.arange(len(token)), at]
        if model.config.get("classifier_pooling") == "mean":
            pooled = POOLS["mean"](states, group["segment"])
        logits = net.head("label", pooled)
        log_p = jax.nn.log_softmax(logits)
        picked = log_p[np.arange(len(token)), inputs["labels"]]
        term = Term(-jnp.sum(picked), jnp.float32(len(token)))
        return _mean_loss({"label": term}), {"logits": logits}

    return outputs, None


def _mean_of_labels(logits, labels):
    """The mean cross-entropy of labels that are not IGNORED."""
    log_p = jax.nn.log_softmax(logits)
    weight = (labels != IGNORED).astype(np.float32)
    picked = jnp.take_along_axis(log_p, np.maximum(labels, 0)[..., None], -1)[..., 0]
    return -jnp.sum(weight * picked) / weight.sum()


def _tags(model, inputs):
    mask = inputs["attention_mask"]
    is_causal = model.family.patterns == ("causal",)
    group = _group(inputs["input_ids"], mask, causal=is_causal)

    def outputs(net):
        logits = net.head("tag", net.states(group))
        return _mean_of_labels(logits, inputs["labels"]), {"logits": logits}

    return outputs, mask > 0


def _span(model, inputs):
    mask = inputs["attention_mask"]
    group = _group(inputs["input_ids"], mask)

    def outputs(net):
        start, end = jnp.moveaxis(net.head("span", net.states(group)), 2, 0)
        names = ("start_positions", "end_positions")
        pairs = zip((start, end), (inputs[name] for name in names), strict=True)
        losses = [_mean_of_labels(logits, gold) for logits, gold in pairs]
        return sum(losses) / 2, {"start_logits": start, "end_logits": end}

    return outputs, mask > 0


def _choice(model, inputs):
    """Each choice is a row."""
    rows = (-1, inputs["input_ids"].shape[2])
    token, mask = (inputs[k].reshape(rows) for k in ("input_ids", "attention_mask"))
    group = _group(token, mask)

    def outputs(net):
        logits = net.head("choice", net.states(group)[:, 0])[:, 0].reshape(2, 2)
        return _mean_of_labels(logits, inputs["labels"]), {"logits": logits}

    return outputs, None


def _states(model, inputs):
    """The states of a body alone, and their mean square."""
    mask = inputs["attention_mask"]
    group = _group(inputs["input_ids"], mask)

    def outputs(net):
        states = net.states(group)
        total = jnp.sum(states**2 * mask[..., None])
        return total / mask.sum(), {"states": states}

    return outputs, mask > 0


OUTPUTS = {
    "states": _states,
    "tags": _tags,
    "span": _span,
    "choice": _choice,
    "masked": _masked,
    "replaced": _replaced,
    "causal": _causal,
    "seq2seq": _seq2seq,
    "permuted": _permuted,
    "labels": _labels,
}

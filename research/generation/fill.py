"""Fills in mask tokens by a masked model."""

# B batch, L length, P masks of a row, K candidates

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from research import networks, objectives
from research.contract.batch import VocabInfo
from research.contract.errors import UserError
from research.distributed import sharding
from research.generation.rows import map_rows
from research.objectives.layout import input_format
from research.objectives.layout.prompt import pad_rows


class Candidate(NamedTuple):
    """A token in the place of a mask."""

    token: int
    probability: float  # given all tokens that are no masks


def make_fill(
    objective: Any,
    network: Any,
    params: Any,
    vocab: VocabInfo,
    mesh: Any,
    *,
    top_k: int = 5,
    batch: int = 32,
) -> Callable[..., list[list[list[Candidate]]]]:
    """A function that fills in the masks of texts.

    It takes texts of token ids without bos and eos, with `vocab.mask_id` where tokens
    are to be filled in. It returns, for each text and each of its masks in order, the
    `top_k` most probable tokens, best first. Masks are predicted independently of each
    other, as in training; a text is read with the objective's `specials`, in BERT bos,
    text, eos, all of one token type. It compiles once per length of the longest text
    and largest number of masks of a call.

    A text that is followed by another one, `beside`, is read as bos, text, eos, other
    text, eos, the latter two of token type 1 (BERT's pairs); masks in the other text
    are kept. `width` is the minimum length of rows.

    Args:
      objective: of the run; one that predicts masked tokens (mlm, electra, unilm, ...).
      network: that of the run, unbound; for ELECTRA the generator is used.
      params: its parameters, on the mesh.
      mesh: `Program.mesh`.
      batch: number of texts that are read together.

    Raises:
      UserError: the objective does not predict masked tokens in place; from the
        function: a text is too long for learned positions.
    """
    check_fills(objective)
    before, after, token_type, *_ = objective.specials(vocab)

    def run(params, arrays):
        def states(net):
            net = objective.token_predictor(net)
            return net.readout(net.states(arrays, scored=arrays["scored"]))

        logits_BPV = networks.apply(network, params, states).logits()
        log_p_BPV = jax.nn.log_softmax(logits_BPV, axis=-1)
        count = min(top_k, vocab.size)
        log_p_BPK, best_BPK = jax.lax.top_k(log_p_BPV[..., : vocab.size], count)
        return best_BPK, log_p_BPK

    run = jax.jit(run, out_shardings=sharding.replicated(mesh))

    def fill(texts, beside=(), width=0):
        rows = [[*before, *text, *after] for text in texts]
        masks = [np.flatnonzero(np.array(row) == vocab.mask_id) for row in rows]
        first = np.array([len(row) for row in rows])
        if beside:
            rows = [
                [*row, *other, *after] for row, other in zip(rows, beside, strict=True)
            ]
        for row in rows:
            check_length(len(row), network.options.max_positions)
        token, length = pad_rows(rows, vocab.pad_id)
        more = max(0, width - token.shape[1])
        token = np.pad(token, ((0, 0), (0, more)), constant_values=vocab.pad_id)
        scored, _ = pad_rows(masks, 0)
        if not scored.size:
            return [[] for _ in texts]
        arrays = input_format.full_input(token, length) | {"scored": scored}
        position = arrays["position"]
        is_beside = (position >= first[:, None]) & (position < length[:, None])
        arrays["token_type"] = token_type * arrays["segment"] + is_beside
        run_rows = partial(run, params)
        best, log_p = map_rows(run_rows, arrays, batch=batch, mesh=mesh, shown="texts")
        return [
            _candidates(best_PK[: len(mask)], log_p_PK[: len(mask)])
            for mask, best_PK, log_p_PK in zip(masks, best, log_p, strict=True)
        ]

    return fill


def check_length(num_tokens: int, most: int | None) -> None:
    """Raises UserError if the network has fewer positions than a row has tokens."""
    if most is not None and num_tokens > most:
        raise UserError(
            f"the text has {num_tokens} tokens, special ones included; the model reads "
            f"at most {most}"
        )


def _candidates(best_PK: np.ndarray, log_p_PK: np.ndarray) -> list[list[Candidate]]:
    """The candidates of each mask of a text."""
    return [
        list(map(Candidate, best_K.tolist(), np.exp(log_p_K).tolist()))
        for best_K, log_p_K in zip(best_PK, log_p_PK, strict=True)
    ]


def check_fills(objective: Any) -> None:
    """Checks that an objective predicts masked tokens in place.

    Raises:
      UserError: it does not.
    """
    if not objective.fills_masks:
        writers = objective.writers.values()
        if any(writer.write_order == "masks" for writer in writers):
            advice = "palimpsest generate writes the masked tokens of a prompt"
        else:
            able = [
                name
                for name in objectives.names()
                if objectives.make_objective(name).fills_masks
            ]
            advice = f"these do: {', '.join(able)}"
        raise UserError(
            f"objective {objective.name} does not predict masked tokens in place; "
            f"{advice}"
        )

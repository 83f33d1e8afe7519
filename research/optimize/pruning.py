"""Pruning while a network trains: the schedule of the remaining weights, and masks.

Pruned weights are zeros in the parameters, so that all code that reads them sees the
pruned network: evaluations, exports, other runs. Arrays keep their sizes, and dense
products with zeros take as long as before: pruning does not save time. The masks are
part of the optimizer's state, and so of checkpoints.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from research.contract.errors import UserError

METHODS = ("none", "magnitude", "movement", "soft_movement", "l0")
"""Which weights are pruned.

magnitude  those with the smallest absolute values, permanently (Zhu and Gupta 2017).
movement   those with the smallest scores, which accumulate minus gradient x weight:
           weights that training moves towards 0. They may return (Sanh et al. 2020,
           section 4; huggingface/transformers-research-projects, movement-pruning/
           emmental/modules/masked_nn.py, topK).
soft_movement  those whose score has a sigmoid below a threshold, which rises; a penalty
           on the mean sigmoid lowers scores, so that training itself determines how
           many remain in each matrix (the same section and code, sigmoied_threshold).
l0         those whose gate is 0: weights are multiplied by gates, which are drawn in
           each step and pushed towards 0 by a penalty (Louizos et al. 2018;
           l0_gates.py).
"""

MIN_KEPT = 0.005
"""The smallest fraction of a matrix that soft movement keeps (emmental's binarizer.py,
ThresholdBinarizer)."""

SCOPES = ("matrix", "global")
"""What the remaining fraction applies to: each matrix, or all together."""

SCORE_BETAS = 0.9, 0.999
"""Adam's decay rates of the moments of scores."""


class Pruning(NamedTuple):
    """The state of a pruning optimizer. Leaves that are not pruned have none."""

    count: jax.Array  # type: ignore[assignment]  # [] int32, number of updates
    mask: Any  # bool: weights that remain
    score: Any  # of weights, for both movements; () for magnitude
    score_moments: Any  # Adam's moments of scores; () for magnitude
    weight: Any  # weights including pruned ones, for both movements; () for magnitude
    inner: Any  # state of the optimizer


@dataclass(frozen=True)
class Pruner:
    """What is pruned, and when.

    Attributes:
      method, scope: one of METHODS, one of SCOPES.
      kept: the fraction of weights that remains at the end.
      begin, end: the steps between which weights are pruned.
      score_rate: the learning rate of scores by step.
      threshold, penalty: final values for soft movement: the threshold of sigmoids of
        scores, and the factor of their mean over the elements of a matrix and over
        matrices. Both rise from 0.
    """

    method: str
    scope: str
    kept: float
    begin: int
    end: int
    score_rate: Callable[[jax.Array], Any] = lambda count: 1e-2
    threshold: float = 0.1
    penalty: float = 400.0

    def fraction_kept(self, step: jax.Array) -> jax.Array:
        """The fraction of weights that remains after a step, counted from 1.

        It falls from 1 to `kept` as a cubic that is flat at its end (Zhu and Gupta
        2017, equation 1; Sanh et al. 2020, equation 3; emmental's schedule_threshold
        with initial_threshold 1).
        """
        return self.kept + (1 - self.kept) * self._left(step)

    def _left(self, step: jax.Array) -> jax.Array:
        """1 before pruning begins, 0 after it has ended."""
        span = max(1, self.end - self.begin)
        return (1 - jnp.clip((step - self.begin) / span, 0, 1)) ** 3

    def wrap(
        self,
        optimizer: optax.GradientTransformation,
        is_frozen: Callable[[Any], Any] | None = None,
    ) -> optax.GradientTransformation:
        """The optimizer, extended so that pruned weights are 0 after its updates.

        Args:
          is_frozen: as in `select`, which its `init` calls.
        """
        moves = self.method != "magnitude"
        moments = optax.scale_by_adam(*SCORE_BETAS)

        def init(params: Any) -> Pruning:
            pruned = select(params, is_frozen)
            zeros = jax.tree.map(jnp.zeros_like, pruned) if moves else ()
            return Pruning(
                count=jnp.zeros((), jnp.int32),
                mask=jax.tree.map(lambda leaf: jnp.ones(leaf.shape, bool), pruned),
                score=zeros,
                score_moments=moments.init(zeros) if moves else (),
                weight=jax.tree.map(jnp.copy, pruned) if moves else (),
                inner=optimizer.init(params),
            )

        def update(grads: Any, state: Pruning, params: Any) -> tuple[Any, Pruning]:
            count = optax.safe_increment(state.count)
            pick = partial(select_like, selected=state.mask)
            dense, score, score_moments = params, (), ()
            if moves:
                # Gradients of scores are those of the mask (straight through)
                gradient = jax.tree.map(jnp.multiply, pick(grads), state.weight)
                if self.method == "soft_movement":
                    gradient = self._penalize(gradient, state.score, count)
                change, score_moments = moments.update(gradient, state.score_moments)
                rate = self.score_rate(state.count)
                score = jax.tree.map(lambda s, c: s - rate * c, state.score, change)
                dense = merge(params, state.weight)
                grads = merge(grads, _masked(pick(grads), state.mask))
            updates, inner = optimizer.update(grads, state.inner, dense)
            after = pick(optax.apply_updates(dense, updates))
            mask = self._mask(score, after, state.mask, count)
            own = jax.tree.map(
                lambda kept, new, old, step: jnp.where(
                    kept, new - old if moves else step, -old
                ),
                mask,
                after,
                pick(params),
                pick(updates),
            )
            weight = after if moves else ()
            state = Pruning(count, mask, score, score_moments, weight, inner)
            return merge(updates, own), state

        return optax.GradientTransformation(init, update)

    def _penalize(self, gradient: Any, score: Any, count: jax.Array) -> Any:
        """Adds the gradient of soft movement's penalty to that of scores."""
        num_matrices = sum(len(leaf) for leaf in jax.tree.leaves(score))
        factor = self.penalty * (1 - self._left(count)) / num_matrices

        def add(gradient: jax.Array, score: jax.Array) -> jax.Array:
            own = jax.nn.sigmoid(score)
            return gradient + factor * own * (1 - own) / score[0].size

        return jax.tree.map(add, gradient, score)

    def _mask(self, score: Any, weight: Any, before: Any, count: jax.Array) -> Any:
        """The mask after an update."""
        fraction = self.fraction_kept(count)
        if self.method == "movement":
            return self._largest(score, fraction)
        if self.method == "soft_movement":
            threshold = self.threshold * (1 - self._left(count))
            return jax.tree.map(partial(_above, threshold=threshold), score)
        sizes = jax.tree.map(jnp.abs, _masked(weight, before))
        largest = self._largest(sizes, fraction)
        return jax.tree.map(jnp.logical_and, largest, before)

    def _largest(self, values: Any, fraction: jax.Array) -> Any:
        """Bool: the largest values of each matrix, or of all.

        Equal values are all among them, or none.
        """
        if self.scope == "matrix":
            return jax.tree.map(
                lambda leaf: jax.vmap(lambda x: x >= _quantile(x, fraction))(leaf),
                values,
            )
        every = jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(values)])
        least = _quantile(every, fraction)
        return jax.tree.map(lambda leaf: leaf >= least, values)


def _above(score: jax.Array, threshold: jax.Array) -> jax.Array:
    """Bool: scores whose sigmoid is above a threshold, and the largest of a matrix."""
    least = jax.vmap(lambda one: _quantile(one, jnp.float32(MIN_KEPT)))(score)
    least = jnp.expand_dims(least, range(1, score.ndim))
    return (jax.nn.sigmoid(score) > threshold) | (score >= least)


def _quantile(values: jax.Array, fraction: jax.Array) -> jax.Array:
    """The smallest of the largest round(fraction x size) values, of at least one."""
    count = jnp.round(fraction * values.size).astype(jnp.int32)
    return kth_largest(values, jnp.maximum(count, 1))


def kth_largest(values: jax.Array, k: jax.Array) -> jax.Array:
    """The kth largest of float32 values, found bit by bit from the highest bit.

    It takes 32 passes that compare and count. Sorting millions of weights would take
    most of a step (on a CPU) and need all of them in one place (on a mesh).
    """
    bits = jax.lax.bitcast_convert_type(values.astype(jnp.float32), jnp.uint32)
    sign = jnp.uint32(1 << 31)
    # Integers in the order of the values: negative ones are reversed.
    keys = jnp.where(bits >= sign, ~bits, bits | sign)

    def add_bit(index: jax.Array, found: jax.Array) -> jax.Array:
        larger = found | (sign >> index.astype(jnp.uint32))
        return jnp.where(jnp.sum(keys >= larger, dtype=jnp.int32) >= k, larger, found)

    found = jax.lax.fori_loop(0, 32, add_bit, jnp.uint32(0))
    bits = jnp.where(found >= sign, found ^ sign, ~found)
    return jax.lax.bitcast_convert_type(bits, jnp.float32).astype(values.dtype)


def is_pruned(params: Any) -> Any:
    """True for kernels of blocks, not for embeddings, heads, biases or norms.

    Their first dim is the layer.
    """

    def of_blocks(path: Any, _: Any) -> bool:
        names = [str(key.key) for key in path]
        return "blocks" in names and names[-1] == "kernel"

    return jax.tree_util.tree_map_with_path(of_blocks, params)


def check_prunable(options: Any, params: Any, what: str) -> None:
    """Checks that the network has weights that can be pruned.

    Args:
      options: of the network.
      what: what sets weights to 0, for the error.

    Raises:
      UserError: it has no blocks, or weights with two values, neither of which is 0.
    """
    if not any(jax.tree.leaves(is_pruned(params))):
        raise UserError(
            f"{what} leaves weights of 0 in a transformer's blocks, of which "
            f"model.network={options.name} has none"
        )
    if not options.keeps_zero_weights:
        raise UserError(
            f"{what} leaves weights of 0, which model.quantization="
            f"{options.quantization} does not have; set it to none, int8 or ternary"
        )


def select(params: Any, is_frozen: Callable[[Any], Any] | None = None) -> Any:
    """The leaves that are pruned, without the others.

    Args:
      is_frozen: parameters -> True for each that does not change and so is not pruned;
        None: all change.

    Raises:
      UserError: all that could be pruned are frozen.
    """
    pruned = _keep(is_pruned(params), params)
    if is_frozen is None or not jax.tree.leaves(pruned):
        return pruned
    changing = _keep(jax.tree.map(operator.not_, is_frozen(params)), pruned)
    if not jax.tree.leaves(changing):
        raise UserError(
            "optimizer.prune: all kernels of blocks are below the paths of "
            "optimizer.frozen, so none is pruned; set one of the two keys alone"
        )
    return changing


def _keep(keep: Any, tree: Any) -> Any:
    """The leaves of a tree where `keep` is True."""
    return jax.tree.map(
        lambda keeps, leaf: leaf if keeps else optax.MaskedNode(), keep, tree
    )


def select_like(tree: Any, selected: Any) -> Any:
    """The leaves of a tree that the result of `select` has."""
    return jax.tree.map(
        lambda own, leaf: own if _is_left_out(own) else leaf,
        selected,
        tree,
        is_leaf=_is_left_out,
    )


def merge(tree: Any, selected: Any) -> Any:
    """The tree, in which the leaves of the result of `select` are replaced."""
    return jax.tree.map(
        lambda own, leaf: leaf if _is_left_out(own) else own,
        selected,
        tree,
        is_leaf=_is_left_out,
    )


def _is_left_out(leaf: Any) -> bool:
    return isinstance(leaf, optax.MaskedNode)


def prune_smallest(params: Any, kept: float, scope: str) -> Any:
    """The parameters with the smallest weights of the kernels of blocks set to 0.

    Args:
      kept: the fraction that remains.
      scope: one of SCOPES.
    """
    pruned = select(params)
    sizes = jax.tree.map(jnp.abs, pruned)
    mask = Pruner("magnitude", scope, kept, 0, 0)._largest(sizes, jnp.float32(kept))
    return merge(params, _masked(pruned, mask))


def _masked(values: Any, mask: Any) -> Any:
    return jax.tree.map(lambda leaf, kept: jnp.where(kept, leaf, 0), values, mask)

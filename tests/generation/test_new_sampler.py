"""A sampler that does not write left to right needs one file: masks, best first."""

# B batch, T new tokens, V vocabulary

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from research.generation import samplers
from research.generation.fill import make_fill
from research.generation.generate import make_generate
from research.generation.readouts import vocabulary_logits
from research.generation.written import Written
from research.objectives.diffusion import masked_diffusion
from research.objectives.layout import input_format
from research.objectives.layout.prompt import Prompt, pad_rows
from tests.testing.objective_cases import VOCAB

PROMPTS = [[60, 61, 70], [50]]


class Objective(masked_diffusion.Objective):
    write_order = "any"

    def prompt(self, texts, vocab):
        rows = [[vocab.bos_id, *text] for text in texts]
        return Prompt(input_format.full_input(*pad_rows(rows, vocab.pad_id)))


@dataclass(frozen=True, kw_only=True)
class Sampler(samplers.Sampler):
    order = "any"

    def check_writer(self, writer):
        pass

    def positions_needed(self, writer, prompt):
        return 1 + len(prompt) + self.max_tokens

    def prepare(self, writer, prompts, width):
        group = writer.objective.prompt(prompts, writer.vocab).group
        length = (group["segment"] > 0).sum(axis=1)
        slot = length[:, None] + np.arange(self.max_tokens)
        token = np.pad(group["token"], ((0, 0), (0, self.max_tokens)))
        np.put_along_axis(token, slot, VOCAB.mask_id, axis=1)
        group = input_format.full_input(token, length + self.max_tokens)
        return group | {"scored": slot.astype(np.int32)}, None

    def write(self, writer, rows, layout):
        slot, mask_id = rows.arrays["scored"], writer.vocab.mask_id
        row = jnp.arange(len(slot))

        def unmask(_, carry):
            token, log_p = carry
            group = rows.arrays | {"token": token}
            logits_BTV = writer.apply(
                lambda net: vocabulary_logits(
                    net.readout(net.states(group, scored=slot))
                )
            )
            log_p_BTV = jax.nn.log_softmax(logits_BTV)[..., : writer.vocab.size]
            is_open = jnp.take_along_axis(token, slot, axis=1) == mask_id
            best_BT = jnp.where(is_open, log_p_BTV.max(axis=-1), -jnp.inf)
            at = best_BT.argmax(axis=1)
            chosen = log_p_BTV[row, at].argmax(axis=-1)
            token = token.at[row, slot[row, at]].set(chosen)
            return token, log_p + best_BT.max(axis=1)

        start = rows.arrays["token"], jnp.zeros(len(slot))
        token, log_p = jax.lax.fori_loop(0, self.max_tokens, unmask, start)
        token = jnp.take_along_axis(token, slot, axis=1)
        length = jnp.full(len(slot), self.max_tokens)
        written = token, length, log_p, log_p, length < 0
        return Written(*(array[:, None] for array in written))


def test_masks_are_written_in_any_order(make_model, mesh):
    _, network, params = make_model("masked_diffusion")
    model = Objective(), network, params
    write = make_generate(*model, VOCAB, mesh, Sampler(max_tokens=3))
    for (text,) in write(PROMPTS):
        assert len(text.tokens) == 3 and VOCAB.mask_id not in text.tokens
    one = make_generate(*model, VOCAB, mesh, Sampler(max_tokens=1))(PROMPTS)
    filled = make_fill(*model, VOCAB, mesh)([[*p, VOCAB.mask_id] for p in PROMPTS])
    for (text,), ((best, *_),) in zip(one, filled, strict=True):
        assert text.tokens == [best.token]
        np.testing.assert_allclose(np.exp(text.log_prob), best.probability, rtol=1e-5)

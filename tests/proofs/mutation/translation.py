"""Mutants of translation by LSTMs (CoVe): the decoder, its cache, vectors of words."""

from tests.proofs.mutation import Mutant

DECODER = "research/networks/recurrent/lstm_encoder_decoder.py"
TEST = "tests/networks/test_lstm_encoder_decoder.py"
FORMULAS = "those_of_the_formulas"

MUTANTS = [
    Mutant(
        "the decoder's attention has the rate of embeddings",
        "research/networks/shared/flax_bridge.py",
        'AFTER_BLOCKS = ("norm", "attention")',
        'AFTER_BLOCKS = ("norm",)',
        TEST,
        "attention_follows",
    ),
    Mutant(
        "the backward states that a decoder begins with are those of a text's end",
        DECODER,
        "gather_positions(backward, first_BL)",
        "gather_positions(backward, last_BL)",
        TEST,
        FORMULAS,
    ),
    Mutant(
        "the decoder begins with zeros",
        DECODER,
        "begin = (0, 0) if inputs.begin is None else inputs.begin",
        "begin = (0, 0)",
        TEST,
        FORMULAS,
    ),
    Mutant(
        "the attentional state is not fed",
        DECODER,
        "x, found = jnp.where(continues, fed, 0), []",
        "x, found = jnp.where(continues, 0 * fed, 0), []",
        TEST,
        FORMULAS,
    ),
    Mutant(
        "the attentional state of the text before is fed to a packed one",
        DECODER,
        "x, found = jnp.where(continues, fed, 0), []",
        "x, found = fed, []",
        TEST,
        "packed",
    ),
    Mutant(
        "a decoder attends to all texts of a row",
        DECODER,
        "same_segment(segment_BL, attended.segment)",
        "same_segment(0 * segment_BL + 1, 0 * attended.segment + 1)",
        TEST,
        "packed",
    ),
    Mutant(
        "keys and values are exchanged",
        DECODER,
        "for kernel in (self.bilinear, self.context)",
        "for kernel in (self.context, self.bilinear)",
        TEST,
        FORMULAS,
    ),
    Mutant(
        "a cache forgets what was fed",
        DECODER,
        "return states, DecoderState(after, fed, attended)",
        "return states, DecoderState(after, 0 * fed, attended)",
        TEST,
        "token_by_token",
    ),
    Mutant(
        "rows of a cache are selected without what was fed to them",
        DECODER,
        'fed = jnp.take(self.fed, row, 0, mode="clip")',
        "fed = self.fed",
        TEST,
        "token_by_token",
    ),
    Mutant(
        "what is fed has no dropout",
        DECODER,
        "x = x if inputs.kept[-1] is None else x * inputs.kept[-1]",
        "pass",
        TEST,
        "next_position_reads",
    ),
    Mutant(
        "an encoder's prompt has no vectors",
        "research/generation/generate.py",
        "encoder = objective.read_constants(encoder, constants)",
        "pass",
        "tests/generation/test_generate.py",
        "vectors_of_a_prompt",
    ),
    Mutant(
        "a run starts from parameters that have rows of another vocabulary",
        "research/interop/partial_restore.py",
        "name in by_name and name in of_vocabulary for name in _by_name(params)",
        "False for name in _by_name(params)",
        "tests/checkpoints/test_checkpoint.py",
        "another_vocabulary",
    ),
    Mutant(
        "features of vectors are behind the last states",
        "research/networks/shared/features.py",
        "jnp.concatenate([group[FEATURE].astype(dtype), *own], axis=-1)",
        "jnp.concatenate([*own, group[FEATURE].astype(dtype)], axis=-1)",
        "tests/networks/shared/test_features.py",
        "before_the_last_states",
    ),
]

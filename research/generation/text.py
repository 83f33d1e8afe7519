"""A trained run as a function from prompts to new texts, both as strings."""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from research.contract.errors import UserError
from research.data.tokenize.masked_text import encode_with_masks
from research.data.tokenize.vocabulary import Vocabulary
from research.generation.generate import find_writer, make_generate
from research.generation.options import Options

SENTINEL = re.compile(r"<extra_id_(\d+)>")


class NewText(NamedTuple):
    """What was written after a prompt; see `generate.Text`."""

    text: str
    log_prob: float
    score: float
    ended: bool


def make_writer(
    run: Any, options: Options, *, batch: int = 32
) -> Callable[[Sequence[str]], list[list[NewText]]]:
    """A function from prompts to new texts, the best of each prompt first.

    In prompts <extra_id_0>, <extra_id_1>, ... are sentinels and [MASK] or <mask> is the
    mask; new texts spell sentinels likewise. A new text that continues its prompt keeps
    the space between them.

    Args:
      run: has an objective, network, params, vocabulary and mesh, and gives the
        constants of inputs (`RestoredRun`).
      batch: prompts that are continued at once.

    Raises:
      UserError: as `make_generate`; or there is no such sentinel.
    """
    objective, vocabulary = find_writer(run.objective, options.part), run.vocabulary
    vocab = vocabulary.vocab
    generate = make_generate(
        run.objective,
        run.network,
        run.params,
        vocab,
        run.mesh,
        options,
        batch=batch,
        constants=run.input_constants(objective, objective.needs(vocab)),
    )

    def write(prompts):
        tokens = [encode_prompt(vocabulary, prompt) for prompt in prompts]
        if not tokens:
            return []
        layout = objective.prompt(tokens, vocab)
        continues = layout.encoder is None and layout.appended != "mask"
        before = tokens if continues else [[]] * len(tokens)
        return [
            [
                NewText(decode_after(vocabulary, row, text.tokens), *text[1:])
                for text in texts
            ]
            for row, texts in zip(before, generate(tokens), strict=True)
        ]

    return write


def encode_prompt(vocabulary: Vocabulary, text: str) -> list[int]:
    """The ids of a text that may spell sentinels and masks.

    Raises:
      UserError: the vocabulary has no such sentinel.
    """
    sentinels = {str(n): id for n, id in enumerate(vocabulary.vocab.sentinel_ids)}
    first, *others = SENTINEL.split(text)
    ids = encode_with_masks(vocabulary, first)
    for number, part in zip(others[::2], others[1::2], strict=True):
        if number not in sentinels:
            raise UserError(
                f"<extra_id_{number[:20]}>: the vocabulary has {len(sentinels)} "
                "sentinels, numbered from 0"
            )
        ids += [sentinels[number], *encode_with_masks(vocabulary, part)]
    return ids


def decode_after(
    vocabulary: Vocabulary, before: Sequence[int], tokens: Sequence[int]
) -> str:
    """The text of tokens that follow others, with the space between them."""
    text, prefix = (spell(vocabulary, ids) for ids in ([*before, *tokens], before))
    if not text.startswith(prefix):  # it ends inside a character
        return spell(vocabulary, tokens)
    return text[len(prefix) :]


def spell(vocabulary: Vocabulary, tokens: Sequence[int]) -> str:
    """The text of ids, in which sentinels are spelled."""
    names = {
        id: f"<extra_id_{n}>" for n, id in enumerate(vocabulary.vocab.sentinel_ids)
    }
    parts: list[Any] = [[]]
    for token in tokens:
        if token in names:
            parts += [names[token], []]
        else:
            parts[-1].append(token)
    texts = (p if isinstance(p, str) else vocabulary.decode(p) for p in parts)
    return ("" if vocabulary.keep_whitespace else " ").join(filter(None, texts))

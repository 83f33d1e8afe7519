"""A trained run as a function from prompts to new texts, both as strings."""

import re
import sys
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np

from research.contract.errors import UserError
from research.data.tokenize.masked_text import encode_with_masks
from research.data.tokenize.vocabulary import Vocabulary
from research.generation.generate import (
    Text,
    check_written,
    find_writer,
    make_generate,
)
from research.generation.samplers import Sampler, Writer

SENTINEL = re.compile(r"<extra_id_(\d+)>")


class NewText(NamedTuple):
    """What was written after a prompt; see `generate.Text`."""

    text: str
    log_prob: float
    score: float
    ended: bool


def make_writer(
    run: Any, sampler: Sampler, *, batch: int = 32, length: int = 0
) -> Callable[[Sequence[str]], list[list[NewText] | UserError]]:
    """A function from prompts to new texts, the best of each prompt first.

    If nothing can be written after a prompt, it returns the reason.

    In prompts <extra_id_0>, <extra_id_1>, ... are sentinels and [MASK] or <mask> is the
    mask; new texts spell sentinels likewise. A new text that continues its prompt keeps
    the space between them. Where masks are filled, the new text of a prompt with masks
    is the whole text. Of another prompt that leaves the network no positions for
    `max_tokens` the end is read, as by lm_eval's HFLM; standard error has their number.

    Args:
      run: has an objective, network, params, vocabulary and mesh, and gives the
        constants of inputs (`RestoredRun`).
      batch: prompts that are continued at once.
      length: positions at most; 0: those of the network, which may be any.

    Raises:
      UserError: as `make_generate`.
    """
    objective, vocabulary = find_writer(run.objective, sampler), run.vocabulary
    vocab = vocabulary.vocab
    writer = Writer(objective, vocab, run.network.options)
    generate = make_generate(
        run.objective,
        run.network,
        run.params,
        vocab,
        run.mesh,
        sampler,
        batch=batch,
        shown="prompts",
        constants=run.input_constants(objective, objective.needs(vocab)),
    )

    limits = run.network.options.max_positions, length or None
    most = min((limit for limit in limits if limit), default=None)

    def is_filled(token: Sequence[int]) -> bool:
        fills = objective.write_order == "masks" or objective.fills_one_mask
        return fills and vocab.mask_id in token

    def prepare(prompt: str) -> tuple[list[int], int]:
        """The ids that are read of a prompt, and how many before them are not."""
        token = encode_prompt(vocabulary, prompt)
        cut = max(0, sampler.positions_needed(writer, token) - most) if most else 0
        cut = cut if cut < len(token) and not is_filled(token) else 0
        sampler.prepare(writer, [token[cut:]], 0)  # checks it
        return token[cut:], cut

    def write(prompts):
        found: list[Any] = [caught(prepare, prompt) for prompt in prompts]
        numbers = [n for n, row in enumerate(found) if not isinstance(row, UserError)]
        if not numbers:
            return found
        tokens, cut = zip(*(found[n] for n in numbers), strict=True)
        if num_cut := np.count_nonzero(cut):
            print(
                f"of {num_cut} prompts only the end is read: they and "
                f"{sampler.max_tokens} new tokens have more than {most} positions",
                file=sys.stderr,
            )
        layout = objective.prompt(tokens[:1], vocab)
        continues = layout.encoder is None and layout.appended != "mask"
        written = generate(tokens, numbers=numbers)
        for number, row, texts in zip(numbers, tokens, written, strict=True):
            before = row if continues else []
            if is_filled(row):
                texts, before = [_fill(row, text, vocab.mask_id) for text in texts], []
            found[number] = caught(spelled, vocabulary, before, texts)
        return found

    return write


def _fill(row: Sequence[int], text: Text, mask_id: int) -> Text:
    """The text whose tokens are the row, with new ones instead of masks.

    All new tokens stand for a single mask.
    """
    new, num_masks = iter(text.tokens), row.count(mask_id)
    count = 1 if num_masks > 1 else len(text.tokens)
    tokens = [
        each
        for token in row
        for each in (islice(new, count) if token == mask_id else [token])
    ]
    return text._replace(tokens=tokens)


def spelled(
    vocabulary: Vocabulary, before: Sequence[int], texts: Sequence[Text]
) -> list[NewText]:
    """The new texts after the tokens of a prompt.

    Raises:
      UserError: none has a probability above 0.
    """
    check_written(texts)
    return [
        NewText(decode_after(vocabulary, before, text.tokens), *text[1:])
        for text in texts
    ]


def caught(function: Callable[..., Any], *args: Any) -> Any:
    """What a function returns of one of many inputs, or the UserError it raises."""
    try:
        return function(*args)
    except UserError as error:
        return error


T = TypeVar("T")


def all_or_error(answers: Sequence[T | UserError]) -> list[T]:
    """The answers; raises the first UserError among them, if there is one."""
    found = []
    for answer in answers:
        if isinstance(answer, UserError):
            raise answer
        found.append(answer)
    return found


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

"""Training of a vocabulary: on lines picked by a hash, the same on every machine."""

import collections
import io
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import sentencepiece
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from research.data.corpora import word_boundaries
from research.data.corpora.files import Corpus
from research.data.tokenizers import tokenizer_models, tokenizer_sample
from research.errors import UserError

KINDS = ("unigram", "bpe", "wordpiece", "bytebpe")
THREADS = 4
"""Of SentencePiece's trainer, on any machine: its result depends on their number."""
RULES = 1
"""To be raised when a change here makes another vocabulary of the same text."""


def specials(sentinels: int) -> list[str]:
    """The pieces of ids 0, 1, ...: pad, bos, eos, mask, unk, and the sentinels."""
    names = ["<pad>", "<s>", "</s>", "<mask>", "<unk>"]
    return names + [f"<extra_id_{n}>" for n in range(sentinels)]


def made_of(
    corpus: Corpus, kind: str, size: int, sentinels: int, alpha: float = 0.0
) -> dict:
    """Everything that a trained vocabulary depends on."""
    library = sentencepiece if kind in ("unigram", "bpe") else tokenizers
    flattened = {"alpha": alpha} if alpha and corpus.parts else {}
    return flattened | {
        "corpus": corpus.fingerprint(),
        "kind": kind,
        "size": size,
        "sentinels": sentinels,
        "library": library.__version__,
        "rules": [tokenizer_sample.SAMPLE, tokenizer_sample.LONGEST, THREADS, RULES],
    }


def train(
    corpus: Corpus,
    kind: str,
    size: int,
    sentinels: int,
    alpha: float = 0.0,
    cache: Path | None = None,
) -> tokenizer_models.Model:
    """A model of one of `KINDS` with `size` pieces, specials included.

    alpha: 0, or the power to which the sizes of a joined corpus's parts are raised.
    cache: where the lines of a large corpus's portions are kept, for processes that
      share the work; None: nowhere.

    Raises:
      UserError: the corpus has no text, or not as many pieces, or more characters.
    """
    fewest = len(specials(sentinels)) + 256 + 1
    if size < fewest:
        raise _wrong_size(size, f"give at least {fewest}, for sentinels and bytes")
    print(f"training a {kind} vocabulary of {size} on {corpus.name}", file=sys.stderr)
    lines = tokenizer_sample.sample(corpus, alpha, cache)
    makers: dict[str, Callable] = {"wordpiece": _wordpiece, "bytebpe": _bytebpe}
    if kind in makers:
        return tokenizer_models.Tokens(makers[kind](lines, size, sentinels))
    return tokenizer_models.SentencePiece(_sentencepiece(lines, kind, size, sentinels))


def _sentencepiece(lines: list[str], kind: str, size: int, sentinels: int) -> bytes:
    model = io.BytesIO()
    names = specials(sentinels)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type=kind,
            vocab_size=size,
            byte_fallback=True,
            character_coverage=0.9995,
            normalization_rule_name="identity",
            num_threads=THREADS,
            input_sentence_size=0,
            max_sentence_length=tokenizer_sample.LONGEST,
            pad_id=0,
            bos_id=1,
            eos_id=2,
            unk_id=4,
            pad_piece=names[0],
            bos_piece=names[1],
            eos_piece=names[2],
            unk_piece=names[4],
            control_symbols=[names[3], *names[5:]],
            minloglevel=2,
        )
    except RuntimeError as error:
        raise _wrong_size(size, _advice(str(error))) from error
    return model.getvalue()


def _wordpiece(lines: list[str], size: int, sentinels: int) -> bytes:
    """Merges are chosen by count, ties by id, so every id is given in advance.

    The library itself numbers "##" letters in the order of a hash map, which differs
    from run to run.
    """
    letters = _letters(lines, room=size // 2)
    inside = [
        letter
        for letter in letters
        if not word_boundaries.alone(word_boundaries.points(letter))[0]
    ]
    given = [*specials(sentinels), *letters, *("##" + letter for letter in inside)]
    model = tokenizers.Tokenizer.from_str(
        tokenizer_models.wordpiece(given, "<unk>").decode()
    )
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        special_tokens=given,
        initial_alphabet=letters,
        limit_alphabet=len(letters),
        show_progress=False,
    )
    model.train_from_iterator(lines, trainer)
    vocabulary = model.get_vocab()
    _check_size(size, len(vocabulary))
    return tokenizer_models.wordpiece(sorted(vocabulary, key=vocabulary.get), "<unk>")


def _letters(lines: list[str], room: int) -> list[str]:
    """The commonest letters: all but a share of 1e-4, and of at most `room` pieces.

    A letter is one piece where it is a word (CJK, punctuation), else two: x and ##x.
    """
    counts = collections.Counter("".join(lines).replace(" ", ""))
    letters = sorted(counts, key=lambda letter: (-counts[letter], letter))
    share = np.cumsum([counts[letter] for letter in letters]) / counts.total()
    taken = np.cumsum(
        2 - word_boundaries.alone(word_boundaries.points("".join(letters)))
    )
    needed = 1 + int((share < 1 - 1e-4).sum())
    return letters[: min(needed, int((taken <= room).sum()))]


def _bytebpe(lines: list[str], size: int, sentinels: int) -> bytes:
    model = tokenizers.Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=specials(sentinels),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    model.train_from_iterator((" " + line for line in lines), trainer)
    _check_size(size, model.get_vocab_size())
    return model.to_str().encode("utf-8")


def _check_size(size: int, found: int) -> None:
    """Refuses a vocabulary that the text did not fill."""
    if found != size:
        raise _wrong_size(size, f"its text gives {found}; give at most as many")


def _advice(message: str) -> str:
    """What would be right, from what SentencePiece's trainer says."""
    most = re.search(r"too high.* <= (\d+)", message)
    fewest = re.search(r"smaller than required.* vs (\d+)", message)
    if most:
        return f"its text gives {most[1]}; give at most as many"
    if fewest:
        return f"give at least {fewest[1]}, for its letters, sentinels and bytes"
    return " ".join(message.split())


def _wrong_size(size: int, advice: str) -> UserError:
    return UserError(
        f"data.vocabulary_size is {size}, which does not fit the corpus: {advice}"
    )

"""Training of a vocabulary on lines picked by a hash; machine-independent."""

import collections
import contextlib
import io
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import sentencepiece
import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import decoders, models, pre_tokenizers, trainers
from tokenizers.normalizers import Normalizer

from research.contract.errors import UserError
from research.data.read import sentences, word_boundaries
from research.data.read.corpus import Corpus
from research.data.read.formats.cooccurrences import CELLS
from research.data.tokenize import (
    model_files,
    normalization,
    tokenizer_models,
    tokenizer_sample,
)

TOKENIZER_TYPES = ("unigram", "bpe", "wordpiece", "bytebpe")
"""Types whose pieces are parts of words."""
TRAINED_TYPES = (*TOKENIZER_TYPES, "words")
"""Types that can be trained. words: the most frequent words, which are text between
white space; others are unknown."""
NUM_THREADS = 4
"""Threads of SentencePiece's trainer on every machine; its result depends on them."""
VERSION = 2
"""Raise it when a change here trains another vocabulary on the same text."""

LARGE_BYTES = 2**26
"""Bytes of text from which on the cost of a training is printed."""
COST = {
    "unigram": (2.7, 23),
    "bpe": (0.15, 9),
    "wordpiece": (0.45, 6),
    "bytebpe": (0.45, 7),
    "words": (0.4, 5),
}
"""Type -> seconds of one core and MB of memory for a MB of text, measured on 75 MB of
English Wikipedia and novels with 8,192 pieces, on an AMD EPYC."""


def special_pieces(sentinels: int) -> list[str]:
    """The pieces of ids 0, 1, ...: pad, bos, eos, mask, unk, and the sentinels."""
    pieces = ["<pad>", "<s>", "</s>", "<mask>", "<unk>"]
    return pieces + [f"<extra_id_{n}>" for n in range(sentinels)]


class Options(NamedTuple):
    """The vocabulary to train."""

    tokenizer_type: str  # one of `TRAINED_TYPES`
    size: int  # pieces, special ones included
    sentinels: int  # sentinel pieces
    sampling: tokenizer_sample.Options = tokenizer_sample.Options()
    normalizer: str = "none"  # one of `normalization.NORMALIZERS`


def train(
    corpus: Corpus, options: Options, cache_dir: Path | None = None
) -> tokenizer_models.TokenizerModel:
    """A trained tokenizer model.

    Prints how long the training takes and how much memory, where that is much.

    Args:
      cache_dir: where processes that share the work keep the sampled lines of the work
        shards of a large corpus; None: nowhere.

    Raises:
      UserError: the corpus has no text, too few pieces, or too many characters.
    """
    tokenizer_type, size, sentinels, sampling, _ = options
    min_size = len(special_pieces(sentinels)) + (tokenizer_type != "bytebpe")
    has_bytes = tokenizer_type not in ("wordpiece", "words")
    min_size += 256 * has_bytes
    if size < min_size:
        what = "sentinels and bytes" if has_bytes else "sentinels"
        if tokenizer_type not in ("bytebpe", "words"):
            what += ", and as many more as the text has letters"
        raise _size_error(size, f"give at least {min_size}, for {what}")
    print(
        f"training a {tokenizer_type} vocabulary of {size} on corpus {corpus.name!r}",
        file=sys.stderr,
    )
    lines = tokenizer_sample.sample_lines(corpus, sampling, cache_dir)
    _print_cost(tokenizer_type, lines.num_bytes)
    train_types: dict[str, Callable] = {
        "wordpiece": _train_wordpiece,
        "bytebpe": _train_bytebpe,
        "words": partial(_train_words, is_of_pairs=CELLS in corpus.arrays),
    }
    if tokenizer_type in train_types:
        data = train_types[tokenizer_type](lines, options)
        return tokenizer_models.HuggingFaceModel(data)
    return tokenizer_models.SentencePieceModel(_train_sentencepiece(lines, options))


def _print_cost(tokenizer_type: str, num_bytes: int) -> None:
    """Prints what the training takes, if its text is large."""
    if num_bytes >= LARGE_BYTES:
        seconds, memory = (each * num_bytes / 1e6 for each in COST[tokenizer_type])
        print(
            f"it is trained on {num_bytes / 1e6:,.0f} MB of text, which takes about "
            f"{seconds / 60:.0f} min of one core and {memory / 1e3:.1f} GB of memory; "
            "data.vocabulary_sample sets how much text is taken at most",
            file=sys.stderr,
        )


def _train_sentencepiece(
    lines: tokenizer_sample.SampledLines, options: Options
) -> bytes:
    model = io.BytesIO()
    tokenizer_type, size, sentinels, _, normalizer = options
    special = special_pieces(sentinels)
    large = {"train_extremely_large_corpus": True} if lines.num_bytes >= 2**31 else {}
    try:
        with _sentencepiece_rules(normalizer) as rules:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(lines),
                model_writer=model,
                model_type=tokenizer_type,
                vocab_size=size,
                byte_fallback=True,
                character_coverage=0.9995,
                num_threads=NUM_THREADS,
                input_sentence_size=0,
                max_sentence_length=tokenizer_sample.MAX_LINE_BYTES,
                pad_id=0,
                bos_id=1,
                eos_id=2,
                unk_id=4,
                pad_piece=special[0],
                bos_piece=special[1],
                eos_piece=special[2],
                unk_piece=special[4],
                control_symbols=[special[3], *special[5:]],
                minloglevel=2,
                **rules,
                **large,
            )
    except RuntimeError as error:
        raise _size_error(size, *_size_advice(str(error))) from error
    if normalizer not in normalization.BY_CHARACTER:
        return model.getvalue()
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    proto.normalizer_spec.name = normalizer
    return proto.SerializeToString(deterministic=True)


@contextlib.contextmanager
def _sentencepiece_rules(normalizer: str) -> Iterator[dict[str, str]]:
    """The options of SentencePiece's trainer that normalize its text."""
    if normalizer not in normalization.BY_CHARACTER:
        names = {"none": "identity"}
        yield {"normalization_rule_name": names.get(normalizer, normalizer)}
        return
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as file:
        file.write(normalization.character_rules(normalizer))
        file.flush()
        yield {"normalization_rule_tsv": file.name}


def _train_wordpiece(lines: Iterable[str], options: Options) -> bytes:
    """A `tokenizer.json` of as many pieces as the options say.

    Raises:
      UserError: the text gives more or fewer; it names a size that the text gives.
    """
    _, size, sentinels, _, name = options
    normalizer = normalization.make_normalizer(name, bert=True)
    counts: collections.Counter[str] = collections.Counter()
    for line in lines:
        counts.update(normalizer.normalize_str(line))
    del counts[" "]
    fits, letters = size, None
    # Another size has room for other letters, which may give yet another size.
    while (chosen := _frequent_letters(counts, max_pieces=fits // 2)) != letters:
        letters = chosen
        pieces = _wordpieces(lines, letters, normalizer, fits, sentinels)
        fits = len(pieces)
    _check_size(size, fits)
    return model_files.wordpiece_json(pieces, "<unk>", normalizer)


def _wordpieces(
    lines: Iterable[str],
    letters: list[str],
    normalizer: Normalizer,
    size: int,
    sentinels: int,
) -> list[str]:
    """Trained pieces; the ids of all letters are fixed before the training.

    The trainer chooses merges by count and breaks ties by id. The library itself
    numbers "##" letters in the order of a hash map, which differs from run to run.
    """
    own_word = zip(letters, _is_own_word(letters), strict=True)
    inside = ["##" + letter for letter, is_own in own_word if not is_own]
    initial = [*special_pieces(sentinels), *letters, *inside]
    model = tokenizers.Tokenizer.from_str(
        model_files.wordpiece_json(initial, "<unk>", normalizer).decode()
    )
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        special_tokens=initial,
        initial_alphabet=letters,
        limit_alphabet=len(letters),
        show_progress=False,
    )
    model.train_from_iterator(lines, trainer)
    vocabulary = model.get_vocab()
    return sorted(vocabulary, key=vocabulary.get)


def _frequent_letters(counts: collections.Counter[str], max_pieces: int) -> list[str]:
    """The most frequent letters, which cover a fraction 1 - 1e-4 of normalized text.

    There are fewer if their pieces would exceed `max_pieces`. A letter is one piece if
    it is a word by itself (CJK, punctuation), else two: x and ##x.
    """
    letters = sorted(counts, key=lambda letter: (-counts[letter], letter))
    covered = np.cumsum([counts[letter] for letter in letters]) / counts.total()
    pieces = np.cumsum(2 - _is_own_word(letters))
    needed = 1 + int((covered < 1 - 1e-4).sum())
    return letters[: min(needed, int((pieces <= max_pieces).sum()))]


def _is_own_word(letters: list[str]) -> np.ndarray:
    return word_boundaries.is_own_word(word_boundaries.code_points("".join(letters)))


def _train_bytebpe(lines: Iterable[str], options: Options) -> bytes:
    _, size, sentinels, sampling, _ = options
    if not sampling.keep_whitespace:
        lines = (" " + line for line in lines)
    model = tokenizers.Tokenizer(models.BPE())
    if normalizer := normalization.make_normalizer(options.normalizer):
        model.normalizer = normalizer
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=special_pieces(sentinels),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    model.train_from_iterator(lines, trainer)
    _check_size(size, model.get_vocab_size())
    return model.to_str().encode("utf-8")


def _train_words(lines: Iterable[str], options: Options, *, is_of_pairs: bool) -> bytes:
    """A `tokenizer.json` of the most frequent words; ties are in alphabetical order.

    Words are those of Transformer-XL's code (pytorch/utils/vocabulary.py, Vocab).

    Args:
      is_of_pairs: lines are words that meet (`data.formats.cooccurrences`), among which
        a word is as frequent as it meets others, and not as it is in their text.

    Raises:
      UserError: there are fewer words; or more, of pairs.
    """
    units = collections.Counter(
        unit for line in lines for unit in sentences.split_units(line)
    )
    normalizer = normalization.make_normalizer(options.normalizer)
    counts: collections.Counter[str] = collections.Counter()
    for unit, count in units.items():
        text = sentences.spell_unit(unit)
        for word in (normalizer.normalize_str(text) if normalizer else text).split():
            counts[word] += count
    words = sorted(counts, key=lambda word: (-counts[word], word))
    special = special_pieces(options.sentinels)
    pieces = [*special, *(tokenizer_models.MARK + word for word in words)]
    _check_size(options.size, min(len(pieces), options.size))
    if is_of_pairs and len(pieces) > options.size:
        raise _size_error(
            options.size,
            f"pairs of words do not tell which are frequent; give {len(pieces)}, for "
            "all of them, or count fewer (palimpsest cooccurrences --max-words)",
        )
    return model_files.words_json(pieces[: options.size], special, normalizer)


def _check_size(size: int, found: int) -> None:
    """Raises UserError: the text gave another number of pieces than `size`."""
    if found != size:
        bound = "most" if found < size else "least"
        advice = f"its text gives {found}; give at {bound} as many"
        raise _size_error(size, advice, found)


def _size_advice(message: str) -> tuple[str, int]:
    """The size to use instead, from an error message of SentencePiece's trainer."""
    too_high = re.search(r"too high.* <= (\d+)", message)
    too_low = re.search(r"smaller than required.* vs (\d+)", message)
    if too_high:
        most = int(too_high[1])
        return f"its text gives {most}; give at most as many", most
    if too_low:
        least = f"give at least {too_low[1]}, for its letters, sentinels and bytes"
        return least, int(too_low[1])
    return " ".join(message.split()), 0


class SizeError(UserError):
    """A size of a vocabulary that does not fit its text.

    Attributes:
      fits: a size that does; 0: it is not known.
    """

    fits: int = 0


def _size_error(size: int, advice: str, fits: int = 0) -> SizeError:
    error = SizeError(
        f"data.vocabulary_size is {size}, which does not fit the corpus: {advice}"
    )
    error.fits = fits
    return error

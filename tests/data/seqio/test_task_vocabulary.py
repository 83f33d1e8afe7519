"""Special ids and word starts of seqio vocabularies."""

import numpy as np
import pytest
import seqio

from research.contract.errors import UserError
from research.data.seqio import task_vocabulary


@pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
def test_words_start_at_marks_punctuation_and_ideographs(
    vocabularies, tmp_path, algorithm
):
    path = vocabularies[algorithm].save(tmp_path)
    vocabulary = seqio.SentencePieceVocabulary(str(path))
    starts = task_vocabulary.word_starts(vocabulary, 500)
    assert starts.shape == (500,) and starts[420:].all()
    pieces = vocabularies[algorithm].model.pieces
    by_piece = dict(zip(pieces, starts[:420].tolist(), strict=True))
    assert by_piece["学"] and by_piece["▁"] and by_piece[","] and by_piece["。"]
    assert all(start for piece, start in by_piece.items() if piece.startswith("▁"))
    assert not any(by_piece[letter] for letter in "bdgka")
    assert not any(
        start for piece, start in by_piece.items() if piece.startswith("<0x")
    )


def test_every_byte_starts_a_word():
    assert task_vocabulary.word_starts(seqio.ByteVocabulary(), 259).all()


def test_extra_ids_are_sentinels_the_last_one_first():
    vocab = task_vocabulary.make_vocab_info(seqio.ByteVocabulary(extra_ids=3), 5)
    assert vocab.sentinel_ids[:3] == (261, 260, 259)
    assert len(vocab.sentinel_ids) == 5 and vocab.size > 262
    assert not np.isin(vocab.sentinel_ids, vocab.ordinary_ids).any()


def test_a_vocabulary_without_a_size_is_refused():
    with pytest.raises(UserError, match="how many ids"):
        task_vocabulary.make_vocab_info(seqio.PassThroughVocabulary(0), 5)

"""A type of vocabulary is one new file, which the laws find and hold."""

from tests.testing.new_part import check_laws

TYPE = '''
"""Characters: the most frequent ones are pieces, and others are unknown."""

import collections
from dataclasses import dataclass

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from research.data.read import sentences
from research.data.tokenize import tokenizer_types
from research.data.tokenize.tokenizer_types import check_size, special_pieces
from research.data.tokenize.tokenizer_types.sentencepiece_model import MARK


@dataclass(frozen=True)
class TokenizerType(tokenizer_types.TokenizerType):
    """A space is a piece of its own."""

    cost = (0.1, 2)

    def train(self, lines, options, corpus):
        counts = collections.Counter(MARK)
        for line in lines:
            for unit in sentences.split_units(line):
                counts.update(sentences.spell_unit(unit).replace(" ", MARK))
        letters = sorted(counts, key=lambda letter: (-counts[letter], letter))
        special = special_pieces(options.sentinels)
        pieces = [*special, *letters][: options.size]
        check_size(options.size, len(pieces))
        vocab = {piece: n for n, piece in enumerate(pieces)}
        model = tokenizers.Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
        spaces = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
        each = pre_tokenizers.Split(tokenizers.Regex("."), "isolated")
        model.pre_tokenizer = pre_tokenizers.Sequence([spaces, each])
        steps = [decoders.Fuse(), decoders.Replace(MARK, " ")]
        model.decoder = decoders.Sequence(steps)
        model.add_special_tokens(special)
        return model.to_str().encode("utf-8")

    def recognises(self, state):
        return state["model"]["type"] == "WordLevel" and "Fuse" in str(state["decoder"])

    def piece_bytes(self, piece):
        return piece.replace(MARK, " ").encode()
'''


def test_the_laws_hold_a_new_file(tmp_path):
    (tmp_path / "characters.py").write_text(TYPE)
    package = "research.data.tokenize.tokenizer_types"
    laws = "tests/laws/test_tokenizer_type.py"
    check_laws(package, tmp_path, 5, laws, "-k", "characters")

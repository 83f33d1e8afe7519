"""Vocabularies and token streams: white space, samples of text, cache keys."""

from tests.proofs.mutation import Mutant

SENTENCES = "research/data/read/sentences.py"
VOCABULARY = "research/data/tokenize/vocabulary.py"
MODELS = "research/data/tokenize/tokenizer_models.py"
SAMPLE = "research/data/tokenize/tokenizer_sample.py"

TEST_VOCABULARY = "tests/data/tokenize/test_vocabulary.py"
TEST_WHITESPACE = "tests/data/tokenize/test_whitespace.py"
TEST_NORMALIZATION = "tests/data/tokenize/test_normalization.py"
TEST_BYTE_LEVEL = "tests/data/tokenize/test_byte_level_patterns.py"
TEST_SPACES = "tests/data/tokenize/test_spaces_of_normalizers.py"

MUTANTS = [
    Mutant(
        "a zero width space beside a word is a token of its own",
        MODELS,
        "if not self.drops_units:\n            return _concatenate(self._encode(",
        "if True:\n            return _concatenate(self._encode(",
        TEST_SPACES,
        "ids_are_those_of_the_whole_text and unigram",
    ),
    Mutant(
        "after a Chinese full stop no zero width space starts a word",
        MODELS,
        'unit[0] == " " or normalize(unit)[:1] == " "',
        'unit[0] == " "',
        TEST_SPACES,
        "ids_are_those_of_the_whole_text and unigram",
    ),
    Mutant(
        "a document of which a normalizer leaves nothing has no token",
        "research/data/store/tokenize.py",
        "number[starts[empty]] = self._numbers[_NOTHING]",
        "pass",
        TEST_SPACES,
        "no_document_is_empty and none",
    ),
    Mutant(
        "an exported tokenizer joins words at control characters",
        "research/data/tokenize/export_tokenizer.py",
        'steps.insert(0, normalizers.Replace(_WHITE, " "))',
        "pass",
        TEST_SPACES,
        "ids_of_the_file and unigram",
    ),
    Mutant(
        "byte-level BPE of any family is cut by GPT-2's pattern",
        MODELS,
        'self.cuts = "texts" if joins_words or strips else "spans"',
        'self.cuts = "units"',
        TEST_BYTE_LEVEL,
        "ids_are_those_of_the_whole_text",
    ),
    Mutant(
        "added tokens that are text, indentation for one, are decoded to nothing",
        MODELS,
        '{token["content"] for token in added if token["special"]}\n        ordinary',
        '{token["content"] for token in added}\n        ordinary',
        TEST_BYTE_LEVEL,
        "only_special_pieces",
    ),
    Mutant(
        "no sentence starts within units that a tokenizer joins",
        "research/data/tokenize/span_flags.py",
        "flags[token[starts]] |= SENTENCE",
        "pass",
        TEST_BYTE_LEVEL,
        "starts_of_sentences",
    ),
    Mutant(
        "a stream of ids that an earlier version gave is taken from the cache",
        "research/data/store/stream.py",
        'cache_key["encoding"] = vocabulary.model.version',
        "pass",
        TEST_BYTE_LEVEL,
        "not_taken_from_the_cache",
    ),
    Mutant(
        "an empty line has no eos",
        "research/data/store/tokenize.py",
        "known[_LINE_END] = len(self.separator_ids) * self.lines",
        "known[_LINE_END] = 0",
        "tests/data/store/test_stream.py",
        "eos_ends_each_line",
    ),
    Mutant(
        "equally frequent words are ordered as they occur",
        "research/data/tokenize/train_tokenizer.py",
        "words = sorted(counts, key=lambda word: (-counts[word], word))",
        "words = sorted(counts, key=lambda word: -counts[word])",
        "tests/data/tokenize/test_words.py",
        "most_frequent_words_in_order",
    ),
    Mutant(
        "text that spells a special piece is that piece",
        "research/data/tokenize/tokenizer_models.py",
        'if step["type"] == "Metaspace" and state["model"]["type"] != "WordLevel":',
        'if step["type"] == "Metaspace":',
        "tests/data/tokenize/test_words.py",
        "spells_a_special_piece",
    ),
    Mutant(
        "byte-level BPE never sees a line's end or an indentation",
        VOCABULARY,
        'whitespace != "collapse" and tokenizer_type == "bytebpe"',
        'whitespace == "keep" and tokenizer_type == "bytebpe"',
        TEST_WHITESPACE,
        "rebuilds_every_text",
    ),
    Mutant(
        "a vocabulary is trained on single spaces, though text keeps its white space",
        SAMPLE,
        "            if keep_whitespace:\n                yield from _LINE",
        "            if False:\n                yield from _LINE",
        TEST_WHITESPACE,
        "indentation_and_empty_lines",
    ),
    Mutant(
        "a word takes all of the spaces before it, unlike in GPT-2",
        SENTENCES,
        "[{_SPACE}]+(?![^{_SPACE}])|",
        "",
        TEST_WHITESPACE,
        "as_the_library_cuts",
    ),
    Mutant(
        "lines do not end paragraphs where white space is kept",
        SENTENCES,
        'BLANK | NEWLINE * ("\\n" in unit)',
        "BLANK",
        TEST_WHITESPACE,
        "paragraphs_are_known",
    ),
    Mutant(
        "blank text at the start of a document is a sentence of its own",
        SENTENCES,
        "inside = document[:-1] == document[1:]",
        "inside = document[:-1] <= document[1:]",
        TEST_WHITESPACE,
        "paragraphs_are_known",
    ),
    Mutant(
        "streams with and without their white space share a place in the cache",
        "research/data/store/stream.py",
        '"keep_whitespace": vocabulary.keep_whitespace,',
        "",
        TEST_WHITESPACE,
        "streams_are_cached",
    ),
    Mutant(
        "a vocabulary sees 8 MiB of text, however much is asked for",
        SAMPLE,
        "smallest = _SmallestHashes(options.max_bytes)",
        "smallest = _SmallestHashes(2**23)",
        "tests/data/tokenize/test_tokenizer_sample.py",
        "smallest_hashes",
    ),
    Mutant(
        "vocabularies of samples of any size share a place in the cache",
        "research/data/tokenize/vocabulary.py",
        '"max_bytes": sampling.max_bytes,',
        "",
        TEST_VOCABULARY,
        "cache_key_depends",
    ),
    Mutant(
        "an uncased vocabulary keeps the accents",
        "research/data/tokenize/normalization.py",
        'strip_accents=name != "lower" if changes else None,',
        'strip_accents=name == "accents" if changes else None,',
        TEST_NORMALIZATION,
        "trained_on_plain_text and uncased",
    ),
    Mutant(
        "the exported tokenizer of byte-level BPE is cased",
        "research/data/tokenize/export_tokenizer.py",
        'normalizers.Sequence([*_one_space(" "), *steps])',
        'normalizers.Sequence(_one_space(" "))',
        TEST_NORMALIZATION,
        "exported_ids and bytebpe",
    ),
    Mutant(
        "letters of WordPiece are counted in the text as it is",
        "research/data/tokenize/train_tokenizer.py",
        "counts.update(normalizer.normalize_str(line) if normalizer else line)",
        "counts.update(line)",
        TEST_NORMALIZATION,
        "trained_on_plain_text and wordpiece",
    ),
    Mutant(
        "a cased and an uncased vocabulary share a place in the cache",
        VOCABULARY,
        'later["normalizer"] = options.normalizer',
        "pass",
        TEST_NORMALIZATION,
        "cache_key",
    ),
]

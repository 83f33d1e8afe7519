"""The cache and its files: damage that is trained on, checks that are not made."""

from tests.proofs.mutation import Mutant

CACHE = "research/data/cache.py"
STREAM = "research/data/store/stream.py"
SAVED = "research/data/source/saved_batches.py"

TEST_CACHE = "tests/data/test_cache.py"
TEST_STREAM = "tests/data/store/test_stream.py"
TEST_SAVED = "tests/data/source/test_saved_batches.py"

MUTANTS = [
    Mutant(
        "a cached folder is checked by the sizes of its files alone",
        CACHE,
        "if damage := checksums.find_damage(epath.Path(path)):",
        'if damage := "":',
        TEST_CACHE,
        "damage_is_named",
    ),
    Mutant(
        "every start reads all bytes of the cache",
        CACHE,
        "if states != _checked_states(path):",
        "if True:",
        TEST_CACHE,
        "bytes_are_read_once",
    ),
    Mutant(
        "a file that was replaced by one of the same size and time is not read again",
        CACHE,
        "[s.st_size, s.st_mtime_ns, s.st_ino]",
        "[s.st_size, s.st_mtime_ns]",
        TEST_CACHE,
        "bytes_are_read_once",
    ),
    Mutant(
        "offsets of documents and sentences may lie outside the stream",
        STREAM,
        'if not in_range(array, 0, shard["tokens"] + 1, ascending=True):',
        "if False:",
        TEST_STREAM,
        "looks_unchanged",
    ),
    Mutant(
        "a token beyond the vocabulary is trained on",
        STREAM,
        "if token.max(initial=0) >= self.vocabulary_size:",
        "if False:",
        TEST_STREAM,
        "beyond_the_vocabulary",
    ),
    Mutant(
        "a stream knows the ids of the first vocabulary that read it alone",
        STREAM,
        "vocabulary_size=vocabulary.vocab.size",
        "vocabulary_size=len(vocabulary.model.pieces)",
        TEST_STREAM,
        "differ_in_sentinels",
    ),
    Mutant(
        "vocabularies that differ in sentinels count the tokens of a stream in turn",
        "research/data/store/token_counts.py",
        '{"stream": stream.fingerprint, "size": stream.vocabulary_size}',
        '{"stream": stream.fingerprint}',
        TEST_STREAM,
        "differ_in_sentinels",
    ),
    Mutant(
        "words that the first tokens of a shard lack are not counted",
        STREAM,
        "for begin in range(0, len(shard), COUNTED_TOGETHER):",
        "for begin in range(0, 1, COUNTED_TOGETHER):",
        TEST_STREAM,
        "all_tokens_are_counted",
    ),
    Mutant(
        "counts of another stream are read",
        "research/data/store/token_counts.py",
        "if (len(count), count.sum()) == (stream.vocabulary_size, stream.num_tokens):",
        "if True:",
        TEST_STREAM,
        "all_tokens_are_counted",
    ),
    Mutant(
        "spans of the index may lie outside the stream",
        "research/data/store/example_index.py",
        'cache_dir, "index", cache_key, create, find_damage=find_damage',
        'cache_dir, "index", cache_key, create',
        "tests/data/store/test_example_index.py",
        "looks_unchanged",
    ),
    Mutant(
        "saved batches of another run are read where their description was changed",
        SAVED,
        'if meta.pop("digest") != fingerprint(meta):',
        'if not meta.pop("digest"):',
        TEST_SAVED,
        "damaged_file_is_named and json",
    ),
    Mutant(
        "saved batches of the validation split are evaluated as the test split",
        SAVED,
        '    "eval_split",\n',
        "",
        TEST_SAVED,
        "error_names",
    ),
    Mutant(
        "data.test beside saved batches is tested on the evaluation split",
        "research/data/pipeline.py",
        "        if saved_batches.has_saved_batches(data.task):\n"
        "            _refuse_named_splits(data)\n",
        "        if saved_batches.has_saved_batches(data.task):\n",
        TEST_SAVED,
        "beside_the_folder",
    ),
    Mutant(
        "saved batches are read with any value of a key that is newer than they are",
        SAVED,
        "for key in made_of | settings:",
        "for key in LATER_SETTINGS | made_of:",
        TEST_SAVED,
        "without_a_later_key",
    ),
    Mutant(
        "batches of a mixture of objectives are made and then cannot be saved",
        SAVED,
        "values = config.objective.to_dict()",
        "values = config.objective",
        TEST_SAVED,
        "mixture_of_objectives",
    ),
    Mutant(
        "a vocabulary is not trained on lines that SentencePiece would skip",
        "research/data/tokenize/tokenizer_sample.py",
        '        for part in _cut(line.encode("utf-8"), options.keep_whitespace):\n',
        '        part = line.encode("utf-8")\n'
        "        if len(part) <= MAX_LINE_BYTES:\n",
        "tests/data/tokenize/test_tokenizer_sample.py",
        "too_long_are_cut",
    ),
    Mutant(
        "a file whose lines end with carriage returns is one line",
        "research/data/read/formats/parsing/lines.py",
        'yield from line.replace(b"\\r", b"\\n").splitlines(keepends=True)',
        "yield line",
        "tests/data/read/test_files.py",
        "as_on_any_system",
    ),
    Mutant(
        "a length without room for text is compiled",
        "research/objectives/__init__.py",
        "if length < objective.min_length:",
        "if length < 0:",
        "tests/program/test_setup.py",
        "length_without_room",
    ),
    Mutant(
        "prefix language modelling trains on nothing at length 1",
        "research/objectives/lm/lm.py",
        'return 2 if self.prefix == "random" or self.mem_len else 1',
        "return 2 if self.mem_len else 1",
        "tests/laws/test_contract.py",
        "min_length and lm",
    ),
    Mutant(
        "too few sentinels are told after the compilation",
        "research/data/pipeline.py",
        "    train.empty_rows(1)",
        "    pass",
        "tests/data/source/test_build.py",
        "too_few_sentinels",
    ),
    Mutant(
        "a classifier is trained on one label",
        "research/objectives/tasks/sequence_classification.py",
        "if len(classes) < 2:",
        "if not classes:",
        "tests/objectives/test_sequence_classification.py",
        "wrong_fields_and_labels",
    ),
    Mutant(
        "launch.commands.prepare does not build the test split of a task",
        "launch/commands/prepare.py",
        "        open_data(tested, objective)\n",
        "        pass\n",
        "tests/launch/commands/test_prepare.py",
        "test_split",
    ),
]

"""Mutants of the way in from Hugging Face's layout and out to it."""

from tests.proofs.mutation import Mutant

FOLDER = "research/checkpoints/huggingface"
ROWS, RESTORE = f"{FOLDER}/rows.py", f"{FOLDER}/restore.py"
EXPORT = f"{FOLDER}/export.py"

TEST_GOLDENS = "tests/checkpoints/huggingface/test_goldens.py"
TEST_EXPORT = "tests/checkpoints/huggingface/test_export.py"
TEST_RESTORE = "tests/checkpoints/huggingface/test_restore.py"
TEST_FOLDER = "tests/checkpoints/huggingface/test_folder.py"
TEST_TOKENIZER = "tests/data/tokenizers/test_export_tokenizer.py"
TEST_MASKED = "tests/data/tokenizers/test_masked_text.py"
TEST_OPEN = "tests/inference/test_open_run.py"
TEST_FILES = "tests/data/tokenizers/test_huggingface_files.py"

EXPORT_RUN, TEST_RUN = "research/run/export.py", "tests/run/test_export.py"

LANGUAGE_MODEL = "research/inference/language_model.py"

MUTANTS = [
    Mutant(
        "vectors are given in the order of their texts' lengths",
        LANGUAGE_MODEL,
        "vectors[at] = found[: len(at)]",
        "vectors[start : start + batch] = found[: len(at)]",
        TEST_OPEN,
        "its_text_alone or are_those_of_the_states",
    ),
    Mutant(
        "the normalisation of sentence-transformers is not read",
        f"{FOLDER}/sentence_transformers.py",
        '"Normalize" in found, length',
        "False, length",
        TEST_OPEN,
        "sentence_transformers",
    ),
    Mutant(
        "texts are cut at the model's length, not that of sentence-transformers",
        LANGUAGE_MODEL,
        "length = max_length or min(self.max_length or most, most)",
        "length = max_length or most",
        TEST_OPEN,
        "sentence_transformers",
    ),
    Mutant(
        "an exported tokenizer of a model with token types gives none of them",
        "research/data/tokenizers/export_tokenizer.py",
        '*["token_type_ids"] * token_types,',
        '*["token_type_ids"] * 0,',
        TEST_RUN,
        "with_its_rows and tags",
    ),
    Mutant(
        "an exported regression predicts fractions of its label scale",
        EXPORT_RUN,
        "scale = np.float32(objective.label_scale)",
        "scale = np.float32(1)",
        TEST_RUN,
        "with_its_rows and numbers",
    ),
    Mutant(
        "pairs of RoBERTa's format are exported with one separator",
        EXPORT_RUN,
        '"roberta": "twice",',
        '"roberta": "both",',
        TEST_RUN,
        "with_its_rows and without_types",
    ),
    Mutant(
        "an exported tokenizer cuts texts at the run's length, not the model's",
        EXPORT_RUN,
        'max_length=network.options.max_positions or data["length"],',
        'max_length=data["length"],',
        TEST_RUN,
        "with_its_rows and tags",
    ),
    Mutant(
        "a classifier of another token than Hugging Face's is exported",
        EXPORT_RUN,
        'reads_last != (objective.format == "xlnet")',
        "reads_last != reads_last",
        TEST_RUN,
        "reads_something_else",
    ),
    Mutant(
        "heads of a class are read as those of another with the same keys",
        f"{FOLDER}/family.py",
        "if not named or name in own or name not in TASK_HEADS",
        "if not named or name in own or name",
        TEST_RESTORE,
        "another_class",
    ),
    Mutant(
        "RoBERTa's positions start at the padding id's row",
        ROWS,
        "AFTER_PAD = _offset(lambda sizes: sizes.pad_id + 1)",
        "AFTER_PAD = _offset(lambda sizes: sizes.pad_id)",
        TEST_GOLDENS,
        "hugging_face and xlm",
    ),
    Mutant(
        "XLNet's output projection is not transposed",
        ROWS,
        "lambda x, sizes: _join_heads(x, sizes).T, lambda x, sizes: _split_heads(x.T,",
        "lambda x, sizes: _join_heads(x, sizes), lambda x, sizes: _split_heads(x,",
        TEST_GOLDENS,
        "hugging_face and xlnet-label",
    ),
    Mutant(
        "heads of keys are repeated as a whole: query h reads key h mod num_kv_heads",
        "research/networks/layers/attention.py",
        "key, value = (jnp.repeat(each, repeats, axis=2) for each in (key, value))",
        "key, value = (jnp.tile(each, (1, 1, repeats, 1)) for each in (key, value))",
        TEST_GOLDENS,
        "hugging_face and llama",
    ),
    Mutant(
        "rotary angles have base 10,000 whatever rope_theta",
        "research/networks/layers/attention.py",
        "rotary_angles(each, options.key_width, theta)",
        "rotary_angles(each, options.key_width)",
        TEST_GOLDENS,
        "hugging_face and llama",
    ),
    Mutant(
        "GPT's gelu is taken for the exact one",
        f"{FOLDER}/decoders.py",
        'Key("afn", "activation", {"gelu": "gelu_tanh", "relu": "relu"}, "gelu_tanh")',
        'Key("afn", "activation", {"gelu": "gelu", "relu": "relu"}, "gelu_tanh")',
        TEST_GOLDENS,
        "hugging_face and openai",
    ),
    Mutant(
        "T5 v1.1 is read as if its tables were tied",
        f"{FOLDER}/encoder_decoders.py",
        "    tied = not differs and scaled is not False\n",
        "    tied = True\n",
        TEST_RESTORE,
        "t5_unties",
    ),
    Mutant(
        "rows that only pad the vocabulary are exported",
        ROWS,
        "VOCAB = Change(lambda x, sizes: x, lambda x, sizes: x[: sizes.vocab], "
        "is_vocab=True)",
        "VOCAB = Change(lambda x, sizes: x, lambda x, sizes: x, is_vocab=True)",
        TEST_EXPORT,
        "tensors_and_the_config and gpt2",
    ),
    Mutant(
        "rows that the folder does not have become 0",
        "research/checkpoints/partial_restore.py",
        "        return _keep_rows(array, leaf, saved.num_rows[name])",
        "        return array",
        TEST_RESTORE,
        "any_mesh",
    ),
    Mutant(
        "a vocabulary of another size is read, its rows to whatever tokens there are",
        RESTORE,
        "    if not num_pieces <= sizes.vocab <= _padded_rows(shapes):",
        "    if False:",
        TEST_RESTORE,
        "another_size",
    ),
    Mutant(
        "a second table that differs from the tied one is ignored",
        RESTORE,
        "            if not np.array_equal(tensors[key], tensors[original]):",
        "            if False:",
        TEST_RESTORE,
        "copy_of_a_tied_table",
    ),
    Mutant(
        "an index names a file outside its folder, which is read",
        f"{FOLDER}/folder.py",
        "        if not isinstance(file, str) or Path(file).name != file:",
        "        if not isinstance(file, str):",
        TEST_FOLDER,
        "outside_the_folder",
    ),
    Mutant(
        "a network with other attention masks is exported all the same",
        EXPORT,
        "        if pattern and pattern not in family.patterns:",
        "        if False:",
        TEST_EXPORT,
        "another_attention_mask",
    ),
    Mutant(
        "parameters that an architecture has no place for are dropped",
        EXPORT,
        "if not path.startswith(heads_alone)]:",
        "if False]:",
        TEST_EXPORT,
        "without_a_place",
    ),
    Mutant(
        "an exported tokenizer does not cut after Chinese full stops",
        "research/data/tokenizers/export_tokenizer.py",
        '        [pre_tokenizers.Split(MARK, "merged_with_next"), _after_stops()]',
        '        [pre_tokenizers.Split(MARK, "merged_with_next")]',
        TEST_TOKENIZER,
        "chinese_full_stop",
    ),
    Mutant(
        "a tokenizer.json puts a mark before each unit, also inside a word",
        "research/data/tokenizers/tokenizer_models.py",
        '            step["prepend_scheme"] = "never"',
        '            step["prepend_scheme"] = "always"',
        TEST_FILES,
        "unigram",
    ),
    Mutant(
        "what is exported is read with a second mark before each word",
        "research/data/tokenizers/tokenizer_models.py",
        '    kept = [step for step in normal if step["type"] != "Prepend"]\n',
        "    kept = normal\n",
        TEST_TOKENIZER,
        "read_again",
    ),
    Mutant(
        "an exported vocabulary that makes one space of white space keeps it",
        "research/data/tokenizers/vocabulary.py",
        '    if whitespace == "auto" and model.adds_space:\n',
        "    if False:\n",
        TEST_TOKENIZER,
        "read_again and bytebpe",
    ),
    Mutant(
        "the ids of XLM-R are those of its SentencePiece model",
        "research/data/tokenizers/model_files.py",
        "for each in proto.pieces[3:]]",
        "for each in proto.pieces]",
        TEST_FILES,
        "xlm_r",
    ),
    Mutant(
        "only the first of GPT's words in a unit starts a word",
        "research/data/tokenizers/vocabulary.py",
        "        flags[1:][self._ends_word[token[:-1]]] = WORD\n",
        "",
        TEST_FILES,
        "gpt",
    ),
    Mutant(
        "what follows a mask right behind it is read as a word of its own",
        "research/data/tokenizers/masked_text.py",
        "        if joined and units and not text[0].isspace():\n",
        "        if False:\n",
        TEST_MASKED,
        "beside_masks and unigram",
    ),
    Mutant(
        "the mean of a text's states is also over padding",
        "research/inference/language_model.py",
        "        weight = (position < length) / length if",
        "        weight = (position >= 0) / length if",
        TEST_OPEN,
        "text_alone",
    ),
    Mutant(
        "XLNet's class token has the token type of the text",
        "research/inference/language_model.py",
        "self.needs.token_types > TYPE_OF_LAST:",
        "False:",
        TEST_OPEN,
        "those_of_the_states and xlnet",
    ),
    Mutant(
        "a model without a readout is asked for tokens",
        "research/inference/language_model.py",
        "        if self.missing:\n",
        "        if False:\n",
        TEST_OPEN,
        "classifier",
    ),
    Mutant(
        "a softmax counts rows of special tokens that a model lacks",
        "research/inference/open_run.py",
        "    vocab = _resize(vocabulary.vocab, rows)\n",
        "    vocab = vocabulary.vocab\n",
        TEST_OPEN,
        "lacks_have_no_rows",
    ),
    Mutant(
        "blank lines have no vectors, so that those of others move up",
        "research/data/formats/parsing/lines.py",
        '        text = decode(line, number).rstrip("\\r\\n")\n',
        '        text = decode(line, number).rstrip("\\r\\n")\n'
        "        if not text:\n            continue\n",
        "tests/launch/test_embed.py",
        "vectors_of_lines",
    ),
]

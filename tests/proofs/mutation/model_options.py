"""Mutants of the options of networks, and of what reaches a loss or a step."""

from tests.proofs.mutation import Mutant

HEADS = "research/networks/layers/heads.py"

TEST_ATTENTION = "tests/networks/layers/test_attention.py"
TEST_RELATIVE = "tests/networks/layers/test_relative.py"
TEST_HEADS = "tests/networks/layers/test_heads.py"
TEST_NETWORK = "tests/networks/test_transformer.py"
TEST_ENCODER_DECODER = "tests/networks/test_encoder_decoder_and_electra.py"

MUTANTS = [
    Mutant(
        "a bias of positions has none of mems",
        "research/networks/transformer.py",
        "if needs.mems and self.has_position_bias:",
        "if False:",
        "tests/networks/test_needs.py",
        "transformers_keys",
    ),
    Mutant(
        "queries of the second stream read the mask token's row",
        "research/networks/modules/transformer.py",
        "            query = self.query_embedding(rows, length - num_keys)",
        '            query = token(group["token"][:, num_keys:])',
        TEST_ATTENTION,
        "appended_queries_equal_two_streams",
    ),
    Mutant(
        "heads have the width of the stream over their number, whatever head_width",
        "research/networks/transformer.py",
        "return self.head_width or self.width // self.heads",
        "return self.width // self.heads",
        TEST_RELATIVE,
        "published_formula",
    ),
    Mutant(
        "each layer has its own biases of relative positions though they are shared",
        "research/networks/modules/blocks.py",
        "        if options.shared_relative_biases:\n",
        "        if False:\n",
        TEST_RELATIVE,
        "parameters_of_the_stack",
    ),
    Mutant(
        "dropout is at the rate of model.dropout at every place",
        "research/networks/layers/dense.py",
        "rate = module.options.dropout_rate(place)",
        "rate = module.options.dropout",
        TEST_NETWORK,
        "rate_of_its_own",
    ),
    Mutant(
        "there is no dropout inside feed-forward layers",
        "research/networks/layers/dense.py",
        '        y = dropout(self, y, "feedforward")\n',
        "",
        TEST_NETWORK,
        "rate_of_its_own",
    ),
    Mutant(
        "an evaluation has the mems of training",
        "research/run/setup.py",
        "evaluated = objective.for_evaluation()",
        "evaluated = objective",
        "tests/run/test_setup.py",
        "more_mems_than_training",
    ),
    Mutant(
        "a step has no dropout unless model.dropout is above 0",
        "research/run/setup.py",
        "dropout=network.options.has_dropout,",
        "dropout=config.model.dropout > 0,",
        "tests/run/test_setup.py",
        "one_place_alone",
    ),
    Mutant(
        "heads of pretraining have dropout",
        HEADS,
        "        if spec.dropout:\n",
        "        if True:\n",
        TEST_HEADS,
        "only_a_head_of_fine_tuning",
    ),
    Mutant(
        "a classifier's hidden layer has the network's activation, not tanh",
        "research/objectives/inputs/task_input.py",
        '    "tanh": "tanh",\n',
        '    "tanh": "",\n',
        "tests/objectives/test_sequence_classification.py",
        "the_head",
    ),
    Mutant(
        "XLM's softmax has BERT's transform",
        HEADS,
        'if layers == "auto":',
        'if layers != "table":',
        TEST_HEADS,
        "output_head_is_the_objectives",
    ),
    Mutant(
        "T5's softmax leaves out the rows that pad its table",
        HEADS,
        'if options.output_rows == "table":',
        "if False:",
        TEST_HEADS,
        "counts_all_rows",
    ),
    Mutant(
        "a decoder has the encoder's depth",
        "research/networks/modules/encoder_decoder.py",
        "num_layers = options.decoder_layers or options.layers",
        "num_layers = options.layers",
        TEST_ENCODER_DECODER,
        "its_own_depth",
    ),
    Mutant(
        "a decoder with a token table of its own is read out by the encoder's",
        "research/networks/modules/encoder_decoder.py",
        "return self.output(states, self.target_token.table_VE)",
        "return self.output(states, self.token.table_VE)",
        TEST_ENCODER_DECODER,
        "reads_and_writes_its_own",
    ),
    Mutant(
        "attention to an encoder has one output layer for all languages",
        "research/networks/modules/blocks.py",
        'query["token_type"] = group["token_type"]',
        'query["token_type"] = 0 * group["token_type"]',
        TEST_ENCODER_DECODER,
        "output_layer_for_each_token_type",
    ),
    Mutant(
        "label smoothing reaches no loss",
        "research/objectives/inputs/seq2seq.py",
        "smoothing=label_smoothing, z_loss=z_loss",
        "z_loss=z_loss",
        "tests/objectives/inputs/test_seq2seq.py",
        "smoothed_targets",
    ),
    Mutant(
        "Transformer-XL's token embeddings are not scaled",
        "research/networks/layers/embeddings.py",
        "return x_BLE * options.width**0.5 if options.scale_embeddings else x_BLE",
        "return x_BLE",
        TEST_NETWORK,
        "scaled_by_the_root",
    ),
]

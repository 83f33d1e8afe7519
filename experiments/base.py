"""Every key of a run, with its unit or legal values; experiments are diffs of it."""

from ml_collections import ConfigDict

SIZES = {
    "tiny": {
        "data.length": 64,
        "data.vocabulary_size": 1024,
        "model.layers": 2,
        "model.width": 64,
        "model.heads": 2,
        "model.feedforward": 256,
        "optimizer.warmup_steps": 4,
        "train.steps": 20,
        "train.batch": 8,
        "train.log_every": 5,
    },
    "small": {},
    "base": {
        "data.length": 512,
        "data.vocabulary_size": 32_000,
        "model.layers": 12,
        "model.width": 768,
        "model.heads": 12,
        "model.feedforward": 3072,
        "model.dtype": "bfloat16",
        "model.scan_unroll": 1,
        "train.batch": 256,
    },
    "large": {
        "data.length": 512,
        "data.vocabulary_size": 32_000,
        "model.layers": 24,
        "model.width": 1024,
        "model.heads": 16,
        "model.feedforward": 4096,
        "model.dtype": "bfloat16",
        "model.remat": "dots",
        "model.scan_unroll": 1,
        "train.batch": 256,
    },
}
"""What a size changes: seconds on a CPU, minutes on one, and as published."""

PUBLISHED = ("base", "large")
"""Sizes at which an experiment keeps the paper's own budget."""


def get_config(size: str = "small") -> ConfigDict:
    """All keys at one of the sizes."""
    config = every_key()
    config.update_from_flattened_dict(SIZES[size])
    return config


def every_key() -> ConfigDict:
    config = ConfigDict()
    config.seed = 0  # of parameters, order, noise and dropout

    config.data = data = ConfigDict()
    data.corpus = "embedded"  # embedded | docstrings | files, a folder or a glob of
    # .txt, .jsonl, .tsv (parallel text), each also as .gz | tfds:NAME
    data.mixture = ConfigDict()  # corpus -> rate; when not empty, in place of corpus
    data.task = ""  # in place of corpus: a seqio task or mixture, its module before a
    # colon if need be, or a folder of batches that launch.prepare wrote
    data.reader = "native"  # native | seqio (through the registry; the same bytes)
    data.length = 128  # tokens of the network's input
    data.stride = 0  # tokens from one example's start to the next; 0: what one reads
    data.train_split = "train"  # train | valid | test
    data.eval_split = "valid"  # train | valid | test
    data.held_out = 0.02  # share of documents in valid, and again in test, by hash
    data.vocabulary = "unigram"  # unigram | bpe | wordpiece | bytebpe | a model file
    data.vocabulary_size = 8192  # pieces, specials included, when it is trained
    data.sentinels = 100  # special pieces that stand for a hidden span
    data.separator = "eos"  # eos | none: what joins two documents of the stream
    data.alpha = 0.0  # 0: rates of the mixture as given; else each corpus comes at
    # (its tokens) ** alpha, 0 < alpha <= 1, also among the vocabulary's lines
    data.dupe_factor = (
        0  # noises of a text: epoch e hides as e % copies; 0: ever new ones
    )
    data.lexicon = ""  # a file of words, phrases or entities: entry<TAB>kind a line
    data.cache_dir = ""  # of vocabularies, streams, indices; "": ~/.cache/palimpsest

    config.objective = ConfigDict()
    config.objective.name = "mlm"  # a module of research/objectives: its fields, keys

    config.model = model = ConfigDict()
    model.layers = 4  # blocks (of each of encoder and decoder, where there are two)
    model.width = 256  # of the residual stream
    model.heads = 4
    model.feedforward = 1024  # width inside the feed-forward layer
    model.embedding_width = 0  # width of the token table; 0: model.width
    model.max_length = 512  # places in a table of learned positions
    model.token_types = (
        0  # kinds of places (sentence A or B, language, ...); 0: not told
    )
    model.token_type_encoding = (
        "absolute"  # absolute (a kind has an embedding) | relative
    )
    # (attention knows whether two places are of one kind)
    model.norm = "layernorm"  # layernorm | rmsnorm
    model.norm_placement = "pre"  # pre | post
    model.norm_epsilon = 1e-6
    model.embedding_norm = "auto"  # auto (where norm_place is post) | always | never
    model.position = "learned"  # learned | sinusoidal | rotary | t5 | relative
    # (Transformer-XL's; a memory needs it) | none
    model.activation = "gelu"  # gelu | gelu_tanh | relu | geglu | swiglu
    model.bias = True  # biases in dense layers and norms
    model.tie_embeddings = True  # the output table is the token table
    model.shared_layers = False  # one block's parameters serve all layers
    model.init = "normal"  # normal (0.02) | truncated (at twice that) | gpt2
    # (residuals scaled) | t5
    model.dropout = 0.0  # of embeddings, attention and block outputs
    model.dtype = "float32"  # float32 | bfloat16: of activations; parameters: float32
    model.remat = "none"  # none | dots | full: what a block recomputes
    model.scan_unroll = 4  # layers a scan step; model.layers or more: no scan

    config.optimizer = optimizer = ConfigDict()
    optimizer.name = "adamw"  # adamw | adam | adafactor | lamb | sgd
    optimizer.learning_rate = 1e-3  # at its peak
    optimizer.schedule = "linear"  # constant | linear | polynomial | cosine | rsqrt
    optimizer.power = 1.0  # of a polynomial schedule
    optimizer.warmup_steps = 100
    optimizer.warmup = "linear"  # linear (up to the peak) | constant (at the peak: T5)
    optimizer.final_fraction = 0.0  # share of the peak that the decay ends at
    optimizer.beta1 = 0.9
    optimizer.beta2 = 0.98
    optimizer.epsilon = 1e-6
    optimizer.bias_correction = True  # of Adam's and LAMB's moments; False: as in BERT
    # and what came of its code (ALBERT, ELECTRA, XLNet)
    optimizer.weight_decay = 0.01  # decoupled; not for biases and norms
    optimizer.layer_decay = (
        1.0  # of the rate, from a layer to the one below it; 1: none
    )
    optimizer.clip_norm = 1.0  # global norm of the gradient; 0: none

    config.mesh = mesh = ConfigDict()  # axes' sizes; their product is the device count
    mesh.data = -1  # -1: the rest
    mesh.fsdp = 1
    mesh.tensor = 1

    config.train = train = ConfigDict()
    train.steps = 1000
    train.batch = 32  # examples a step, over all devices
    train.accumulate = 1  # micro-batches a step
    train.init_from = ""  # workdir or checkpoint whose parameters to start from
    train.init_scope = ""  # the part of those parameters to start from; "": all
    train.log_every = 10  # steps
    train.eval_every = 200  # steps; 0: only at the end
    train.checkpoint_every = 200  # steps; 0: only at the end
    train.keep_checkpoints = 2  # newest checkpoints that stay
    return config

"""BabyLM: objectives on little text, at most ten epochs of 10 or 100 million words.

    palimpsest sweep --sweep=experiments/sweeps/babylm.py --workdir=runs/babylm \\
        --config.data.corpus='babylm/train_10M/*.txt' --tasks=tasks.toml
    palimpsest score --workdir=runs/babylm --task=blimp --data='blimp/*'
    palimpsest report --table=experiments/tables/babylm.toml --workdir=runs/babylm

Question: which objective learns most from the text of a childhood (Warstadt et al.
2023)? All arms have one Transformer, vocabulary, optimizer and number of tokens. small
is the track of 10 million words, paper that of 100 million, and both save checkpoints
at the words that the track names (`palimpsest babylm --workdir=runs/babylm` evaluates
them); smoke sees 2.4 million words. Runs of other scales keep ten checkpoints, at equal
numbers of tokens. A run is evaluated once, at its end: ten evaluations took longer than
the training of quick.

GPT-BERT (Charpentier and Samuel 2024; ltgoslo/gpt-bert, train_10m.py: 15 of 16 devices
are masked) is masked next-token prediction and a causal language model in one network,
whose losses have weights of 15 and 1.

Departs: words are counted as 1.3 tokens, of which every vocabulary here needs more, so
that no text is seen more than ten times. T5's and UL2's rows read more text than they
have positions, so these take fewer steps. All that mask hide 40 % at quick and cpu, 15
% elsewhere (GPT-BERT, released: 30 to 15 %) and ELECTRA 15 %. Both of GPT-BERT's losses
see each row, its masks are of single tokens (1 to 3, those masked least often first),
and network (no gates after attention, no mix of earlier layers), optimizer (LAMB, an
average of parameters), loss (1e-4 of log(Z)^2) and length (three, one after another)
are those of the other arms. Its texts are scored from both sides. ELECTRA reads pairs
of segments. Rows of masked spans end with a document and BART's with a sentence, so
that a seventh of their positions is empty. Encoders and decoders have half of the
layers each: of cpu's three one, and so two in all.
"""

from experiments.sweeps.objectives import SHARED
from launch.sweeps import budgets, finetuning
from launch.sweeps.scales import SCALES
from research.evaluation.babylm.rules import MILLION, TRACKS, checkpoint_words

WORDS_SEEN = {"smoke": 2.4e6, "quick": 1.575e6, "cpu": 15.75e6}
WORDS_SEEN |= {"small": 10 * 10e6, "paper": 10 * 100e6}
TOKENS_PER_WORD = 1.3
TRACK = {"small": "strict_small", "paper": "strict"}
"""Scale -> the challenge's track, whose checkpoints its runs save by words."""
PAIRS = {"objective.format": "segment_pair", "objective.sentence_task": "nsp"}
SPANS = {"objective.unit": "span", "objective.draw_unit": "span"}
SPANS |= {"objective.format": "doc_sentences", "objective.boundary_targets": 15}
FULL_ROWS = {"objective.text_unit": "stream", "objective.shortest": 1}
"""For MASS, whose own rows are single sentences."""
NEXT_TOKEN = {"objective": "mlm", "predict_at": "previous", "weight": 15 / 16}
GPT_BERT = {
    "bidirectional": NEXT_TOKEN,
    "causal": {"objective": "lm", "weight": 1 / 16},
}
ARMS = {
    "masked LM": ("experiments/mlm.py", {}),
    "masked words": ("experiments/mlm.py", {"objective.unit": "word"}),
    "masked spans, boundaries": ("experiments/mlm.py", SPANS),
    "masked LM, next sentence": ("experiments/mlm.py", PAIRS),
    "masked next token": ("experiments/mlm.py", {"objective.predict_at": "previous"}),
    "GPT-BERT 15 : 1": (
        "experiments/mlm.py",
        {"objective.name": "joint", "objective.parts": GPT_BERT},
    ),
    "LM": ("experiments/lm.py", {}),
    "prefix LM": ("experiments/lm.py", {"objective.prefix": "random"}),
    "fill in the middle": ("experiments/fim.py", {}),
    "permuted LM": ("experiments/plm.py", {}),
    "UniLM": ("experiments/unilm.py", {}),
    "replaced tokens": ("experiments/electra.py", {}),
    "InfoWord": ("experiments/infoword.py", {}),
    "text infilling": ("experiments/bart.py", {"objective.permute_rate": 0.0}),
    "masked sequence": ("experiments/mass.py", FULL_ROWS),
    "span denoising": ("experiments/dae.py", {}),
    "mixture of denoisers": ("experiments/ul2.py", {}),
}
DECODERS = ("text infilling", "masked sequence", "span denoising")
DECODERS += ("mixture of denoisers",)
"""Rows with an encoder and a decoder, of half the layers each."""


def sweep(scale, tasks=None):
    chosen = finetuning.own_tasks("babylm", tasks, scale) if tasks else {}
    shape, budget = SCALES[scale].shape, SCALES[scale].pretraining
    counts = {"train.eval_every": 0, "train.keep_checkpoints": 10}
    if scale in TRACK:
        words = TRACKS[TRACK[scale]] * MILLION
        counts |= {"train.checkpoint_words": checkpoint_words(words)}
        counts |= {"train.max_words": words, "train.keep_checkpoints": 2}
    reference = "experiments/mlm.py", SHARED | shape | budget | counts
    tokens = WORDS_SEEN[scale] * TOKENS_PER_WORD

    def keys(row, base):
        own = finetuning.like(reference, base)
        half = {"model.layers": max(1, shape["model.layers"] // 2)}
        own |= half if row in DECODERS else {}
        experiment, arm = ARMS[row]
        steps = budgets.steps_for_tokens(experiment, arm | shape | budget, tokens)
        return own | {"train.steps": steps, "train.checkpoint_every": steps // 10}

    for row, arm in ARMS.items():
        for seed in range(finetuning.REPEATS[scale].pretraining_seeds):
            start = finetuning.pretraining(
                row, arm, scale, seed=seed, keys=keys, size=""
            )
            yield from finetuning.with_baseline(row, start, chosen, scale, {})

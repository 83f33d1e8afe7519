"""The objectives, fields and texts that the contract and the laws are tested on."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from docs.examples.objectives import distilled, prefix
from research import networks, objectives
from research.contract.batch import (
    ANSWER_END,
    ANSWER_START,
    CONSTANTS,
    INPUT_ARRAYS,
    PARAGRAPH,
    PART,
    PIECE,
    PIECE_SPECIALS,
    SENTENCE,
    WORD,
    Example,
    VocabInfo,
    input_group,
    no_value,
    piece_columns,
)
from research.objectives.combined.packed_rows import PackedRows
from tests.testing import visual
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options
from tests.testing.objective_variants import VARIANTS
from tests.testing.wrong_objectives import WRONG

VOCAB = vocab(size=96, sentinels=40)
"""The vocabulary of these tests; entries of its lexicon are frequent in the texts."""


def vocab_of(objective: Any) -> VocabInfo:
    """VOCAB, with labels that the objective reads: its own, or those of their type."""
    kind = objective.text_spec(32).label_type
    if not kind or not any(map(kind.problem, VOCAB.labels)):
        return VOCAB
    return VOCAB._replace(labels=kind.known(kind.examples))


EXAMPLES = {
    "distilled": distilled.Objective,
    "prefix": prefix.Objective,
    "visual": visual.Objective,
}
"""Objectives of docs/examples, and one that reads images, which are held to the laws as
those of research/objectives."""


def _case_id(name: str, fields: dict[str, Any]) -> str:
    shown = {k: v for k, v in fields.items() if k not in ("only", "without")}
    return " ".join([name, *(f"{k}={v}" for k, v in shown.items())])


CASES = [
    pytest.param(name, fields, id=_case_id(name, fields))
    for name in sorted({*objectives.names(), *EXAMPLES})
    for fields in VARIANTS.get(name, [{}])
]
all_cases = pytest.mark.parametrize(("name", "fields"), CASES)
LOSS_CASES = [c for c in CASES if c.values[1].get("only") != "corrupt"]
"""Every case that has a network of its own."""

SAME_PATTERN = {
    "bart delete_rate=0.2 insert_rate=0.1 rotate_rate=0.5 random_fraction=0.1",
    "sequence_to_sequence target_length=12",
    "sequence_classification",
    "sequence_classification task=multi",
    "sequence_classification pool=max head=linear vectors=random vectors_width=12 "
    "model={'network': 'word_cnn', 'width': 32, 'embedding_width': 12, "
    "'filter_widths': [36]}",
    "token_classification vectors=random vectors_width=8",
    "sequence_classification format=bart pool=mean",
    "token_classification",
    "token_classification head=crf",
    "token_classification format=bart",
    "multiple_choice format=gpt",
    "question_answering",
    "dae rate=0.5",
    "dae noise_mask=prefix replacement=drop",
    "dae noise_mask=iid mode=X",
    "electra task=chosen format=segment_pair positions=repeated",
    "lm direction=backward",
    "multi_token heads=none future_coef=0.5 decay=0.5",
    "mass span_start=edges decoder_start=previous rate=0.3",
    "mass candidates=all random_tokens=all cross_attention=unmasked",
    "mlm predict_at=previous mask_fraction=1.0 random_fraction=0.0",
    "xnlg languages=1",
    "wklm masks=dropped head=softmax text_unit=pieces",
    "mix",
    "distill base_objective=dae soft_at=text teacher_model={'width': 32, 'heads': 2, "
    "'token_types': 8}",
    "mix base_objective=dae parts={'a': {'rate': 0.5}, 'b': {'mixing_rate': 2.0}}",
    "plm num_permutations=1 max_span=0",
    "mlm unit=span boundary_targets=4 packed=True",
    "electra packed=True",
    "electra task=replace_mlm tie=all generator_size=1.0",
    "dae packed=True",
    "sentences",
    "sentences task=reorder",
    "tagging",
    "ernie_thu base={'format': 'segment_pair', 'sentence_task': 'nsp'} entities=random",
    "ernie_thu candidates=batch entities=random",
    "fim spm_rate=0.5 cut=character text_unit=document",
    "kbert base_objective=token_classification branch_text=tail model={'layers': 1}",
    "knowbert base_objective=sequence_classification entities=random "
    "model={'network': 'kar', 'norm_placement': 'post'}",
    "knowbert link_loss=softmax entities=random "
    "model={'network': 'kar', 'norm_placement': 'post'}",
    "mass cross_attention=unmasked packed=True",
    "plm packed=True",
    "sentence_vectors",
    "sentence_vectors texts=2 pool=mean symmetric=True format=roberta",
    "sentilare base_objective=sequence_classification positive=entity negative=phrase",
    "skipgram subsample=0.0 window=2 negatives=2 "
    "model={'network': 'tables', 'tie_embeddings': False}",
    "skipgram subsample=0.0 window=2 equal_negatives=redraw negatives_of=centre "
    "model={'network': 'tables', 'tie_embeddings': False, 'buckets': 30}",
    "tlm languages=3 predict=next",
    "cbow subsample=0.0 window=2 output=hierarchical model={'tie_embeddings': False}",
    "ernie_thu base_objective=sequence_classification entities=random",
    "kbert base_objective=sequence_classification positions=flat model={'layers': 1}",
    "lm direction=both sampled_words=40 model={'network': 'lstm'}",
    "sequence_classification format=bart",
    "sequence_to_sequence target_length=12 vectors=random vectors_width=8 "
    "model={'network': 'lstm', 'layers': 1, 'joined_layers': 1, 'width': 16}",
    "skipgram subsample=0.0 window=2 output=hierarchical "
    "model={'network': 'tables', 'tie_embeddings': False}",
    "bart",
    "clip images=random patch=4 width=64 model={'network': 'two_towers'} "
    "temperature=1.0",
    "ernie_thu entities=random model={'network': 'fusion', 'norm_placement': 'post'}",
    "image_text images=random patch=4 alignment=0.1 unit=word",
    "knowbert entities=random model={'network': 'kar', 'norm_placement': 'post'}",
    "mlm unit=ngram format=segment_pair sentence_task=sop",
}
"""Cases whose attention pattern another case has, with the same network or one that
laws/test_network.py reads."""
assert {case.id for case in LOSS_CASES} >= SAME_PATTERN


def parametrize(cases: list, is_long: Callable[[Any], bool]) -> Any:
    """A test of all cases, of which some have the mark `long`."""
    return pytest.mark.parametrize(
        ("name", "fields"),
        [
            pytest.param(*c.values, id=c.id, marks=[pytest.mark.long] * is_long(c))
            for c in cases
        ],
    )


FIRST = {case.values[0]: case for case in reversed(LOSS_CASES)}
first_cases = parametrize(
    LOSS_CASES,
    lambda case: case is not FIRST[case.values[0]] or case.values[0] in EXAMPLES,
)
"""Every case with a network; all but the first of an objective of research are long."""

STACKS = ("lm", "mlm", "plm", "unilm", "dae", "electra", "multiple_choice")
stack_cases = parametrize(
    [c for c in FIRST.values() if "packing" not in c.values[1].get("without", ())],
    lambda case: case.values[0] not in STACKS,
)
"""The first case of each objective whose rows may be packed (clip's have one picture,
knowbert's have spans that count positions, retromae's ranks of its decoder); long where
others have its networks and groups."""

pattern_cases = parametrize(
    [c for c in LOSS_CASES if "pattern" not in c.values[1].get("without", ())],
    lambda case: case.id in SAME_PATTERN or case.values[0] in EXAMPLES,
)
"""Every case with a network that can be instrumented: theseus makes one of parts of two
in its loss, retromae rows of twice the length (tests/objectives/test_retromae.py has
their law). Those of SAME_PATTERN and of EXAMPLES are long."""

OF_CASES = ("model", "only", "packed", "without")
"""Keys of cases that are no fields: of the network; "corrupt", where another case has
the network; whether rows are packed; laws that do not hold."""


def make_objective(name: str, fields: dict[str, Any]) -> Any:
    """The objective of a case."""
    own = {k: v for k, v in fields.items() if k not in OF_CASES}
    if name in objectives.names():
        objective = objectives.make_objective(name, **own)
    else:
        objective = (EXAMPLES | WRONG)[name](**own)
    return PackedRows(objective) if fields.get("packed") else objective


def make_network(name: str, fields: dict[str, Any], **options: Any) -> tuple[Any, Any]:
    """The objective of a case and a small network for it."""
    small = {"layers": 2, "width": 32, "heads": 2, "feedforward": 64}
    small |= {"max_length": 160, "token_types": 8} | options | fields.get("model", {})
    objective = make_objective(name, fields)
    vocabulary = vocab_of(objective)
    return objective, networks.build(
        model_options(**small), objective.needs(vocabulary), vocabulary
    )


def make_constants(
    objective: Any, vocabulary: VocabInfo | None = None
) -> dict[str, Any]:
    """Random arrays in place of an objective's constants, as its batches have them;
    those that it computes as they are."""
    rng, vocabulary = np.random.default_rng(0), vocabulary or vocab_of(objective)
    drawn = {
        name: jax.tree.map(
            lambda leaf: rng.normal(0, 0.2, leaf.shape).astype(leaf.dtype),
            networks.unbox(spec.arrays),
        )
        if spec.values is None
        else spec.values
        for name, spec in objective.constants(vocabulary).items()
    }
    return {CONSTANTS: drawn} if drawn else {}


def make_example(
    objective: Any, length: int, num_raw, *, seed=0, separators=0.0, vocabulary=None
) -> Example:
    """Texts of `num_raw` tokens for an objective; pairs, where it reads pairs."""
    spec, known = objective.text_spec(length), vocabulary or vocab_of(objective)
    vocabulary, num_raw = vocabulary or VOCAB, np.minimum(num_raw, spec.width)
    example = texts(spec.width, num_raw, vocabulary, seed=seed, separators=separators)
    last = max(0, len(known.labels) - 1)
    example = example._replace(label=np.minimum(example.label, last))
    rng = np.random.default_rng(seed + 1)
    example = _with_arrays(example, objective.array_types)
    cut = rng.integers(1, np.maximum(example.length, 2))
    flags = example.flags.copy()
    flags[(rng.random(flags.shape) < 0.1) & (flags > 0)] |= SENTENCE
    row = np.flatnonzero(example.length > 1)
    flags[row, cut[row]] |= SENTENCE | PARAGRAPH
    if spec.arrays:  # words are parts
        flags[flags & WORD > 0] |= PART
    if spec.has_pieces:
        return _with_pieces(example._replace(flags=flags), spec.length, vocabulary)
    if not spec.has_pairs:
        return example._replace(flags=flags)
    if not spec.pair_labels:
        return _with_parts(example._replace(flags=flags), cut)
    first = np.minimum(cut, example.length).astype(np.int32)
    fields = spec.changed_fields()
    rates = [
        fields.get(f"{name}_rate", 0) for name in ("other_document", "nonadjacent")
    ]
    odds = [1 - sum(rates), *rates]
    label = rng.choice(3, len(first), p=odds).astype(np.int32)
    return example._replace(first_length=first, label=label, flags=flags)


def _with_arrays(example: Example, types: dict[str, Any]) -> Example:
    """The example with random values of the arrays of documents."""
    rng, arrays = np.random.default_rng(2), dict(example.arrays)
    for name, array_type in types.items():
        base, shape = array_type.stored.base, array_type.stored.shape
        assert shape, f"{name}: an array of each document is made here"
        drawn = rng.normal(0, 1, (len(example.length), *shape)).astype(base)
        drawn[example.length == 0] = no_value(base)
        arrays[name] = drawn
    return example._replace(arrays=arrays)


def _with_pieces(example: Example, length: int, vocabulary: Any) -> Example:
    """The example with a second piece in rows whose columns are enough for two.

    The last token of every other piece is a separator.
    """
    token, flags, cut = example.token.copy(), example.flags.copy(), example.length // 2
    for row, size in enumerate(example.length):
        two = piece_columns([cut[row], size - cut[row]], length).sum()
        ends = (
            [cut[row], size] if cut[row] and two <= length + PIECE_SPECIALS else [size]
        )
        for begin, end in zip([0, *ends], ends, strict=False):
            flags[row, begin:end][:1] |= PIECE
            if end - begin > length or (end - begin > 1 and row % 2):
                token[row, end - 1] = vocabulary.eos_id
    return example._replace(token=token, flags=flags)


def _with_parts(example: Example, cut: np.ndarray) -> Example:
    """The example with three parts in rows of three tokens or more, and two in rows of
    two; label 0, 1 or -1.

    The answer, of two tokens, is in the second part of every other row.
    """
    flags, length = example.flags.copy(), example.length
    cut = np.minimum(cut, np.maximum(length - 2, 1))
    row = np.flatnonzero(length > 2)
    flags[row, cut[row]] |= PART
    flags[row, ((cut + length + 1) // 2)[row]] |= PART
    flags[row[::2], cut[row[::2]]] |= ANSWER_START
    flags[row[::2], cut[row[::2]] + 1] |= ANSWER_END
    flags[:, 1:2][length == 2] |= PART
    first = np.where(length >= 2, np.minimum(cut, length - 1), length).astype(np.int32)
    label = np.minimum(example.label, 1)
    return example._replace(flags=flags, first_length=first, label=label)


def various_lengths(objective: Any, length: int) -> list[int]:
    """Lengths of eight texts: full, empty, short."""
    raw = objective.text_spec(length).width
    return [raw, 0, raw, 1, raw // 2, 2, raw - 1, raw]


def make_batch(objective: Any, length: int, num_raw=None, *, seed=0, separators=0.05):
    """An example and its batch.

    num_raw: tokens of each row, by default `various_lengths`.
    """
    if num_raw is None:
        num_raw = various_lengths(objective, length)
    example = make_example(objective, length, num_raw, seed=seed, separators=separators)
    vocabulary = vocab_of(objective)
    return example, objective.corrupt(example, keys(len(num_raw)), vocabulary, length)


def input_prefixes(batch: dict) -> list[str]:
    """Prefixes of the network inputs of a batch: "", "encoder_", ..."""
    names = [name.removesuffix("token") for name in batch if name.endswith("token")]
    return [p for p in names if all(p + name in batch for name in INPUT_ARRAYS)]


def input_groups(objective: Any, batch: dict) -> dict[str, tuple[dict, str]]:
    """Prefix -> the arrays of a network input, and the pattern promised for them."""

    def pattern(prefix: str) -> str:
        patterns = {"encoder_": "full", "decoder_": "causal", "image_": "full"}
        return next(
            (p for side, p in patterns.items() if prefix.endswith(side)),
            objective.pattern,
        )

    return {p: (input_group(batch, p), pattern(p)) for p in input_prefixes(batch)}


def weight_names(batch: dict) -> list[str]:
    """Names of the arrays of weights."""
    return [name for name in batch if name.endswith("weight")]

"""A user's seqio task: arrays are passed on, texts are corrupted by the objective."""

import numpy as np
import pytest
import sentencepiece
import seqio
import tensorflow as tf

from research.config import base
from research.contract.batch import EVALUATION_STEP, ArraySpec
from research.contract.errors import UserError
from research.data.seqio import open_tasks
from tests.testing import small_data, toy_objectives
from tests.testing.toy_objectives import assert_same_batch, concatenate


@pytest.fixture
def make(tmp_path):
    """make(objective, **fields of the objective) -> config."""
    corpus = small_data.write_corpus(tmp_path, "text", seed=1)

    def make(objective="mlm", **fields):
        return small_data.config(corpus, tmp_path / "cache", objective, **fields)

    return make


@pytest.fixture(autouse=True)
def registry():
    """Removes what a test registered."""
    with small_data.restored_seqio_registry():
        yield


BYTES = seqio.ByteVocabulary(extra_ids=6)


def register_texts(name, texts, *, vocabulary=BYTES, steps=(), **options):
    """Registers a user's task of texts, which `steps` change before they are cut."""

    def dataset(split, shuffle_files, seed=None):
        own = texts if split == "train" else texts[:7]
        return tf.data.Dataset.from_tensor_slices({"targets": own})

    return seqio.TaskRegistry.add(
        name,
        source=seqio.FunctionDataSource(dataset, splits=["train", "validation"]),
        preprocessors=[*steps, seqio.preprocessors.tokenize],
        output_features={"targets": seqio.Feature(vocabulary, add_eos=False)},
        **options,
    )


TEXTS = ["x" * 3, "", *(f"text number {n} " + "abc" * (n % 13) for n in range(40))]


@pytest.fixture
def texts_config(make):
    """A config that trains on a user's task of texts."""
    register_texts("their_texts", TEXTS)
    config = make(objective="lm")
    config.data.task = "their_texts"
    return config


def test_texts_are_corrupted_by_the_objective(texts_config, capsys):
    data, _ = small_data.open_small(texts_config)
    rows = concatenate(data.train.batch(step) for step in range(40))
    kept = [
        bytes((target[weight > 0] - 3).tolist()).decode()
        for target, weight in zip(rows["target"], rows["weight"], strict=True)
    ]
    assert set(kept) == {text[:32] for text in TEXTS}
    assert kept[: len(TEXTS)] != [text[:32] for text in TEXTS]
    assert capsys.readouterr().err.count("over 32 tokens are cut") == 1


def test_a_task_is_seekable_and_the_same_each_time(texts_config):
    data, again = (small_data.open_small(texts_config)[0] for _ in range(2))
    assert data.fingerprint == again.fingerprint
    batches = [data.train.batch(step) for step in range(12)]
    for step in (11, 4, 5, 0):
        assert_same_batch(batches[step], again.train.batch(step))
    parts = [again.train.batch(7, slice(i, i + 2)) for i in (0, 2, 4, 6)]
    assert_same_batch(batches[7], concatenate(parts))


def test_an_evaluation_reads_the_validation_split_once(texts_config):
    data, _ = small_data.open_small(texts_config)
    (batch,) = data.eval.evaluation()
    lengths = (batch["weight"] > 0).sum(1)
    assert lengths.tolist() == [min(32, len(text)) for text in TEXTS[:7]] + [0]
    assert_same_batch(batch, next(data.eval.evaluation()))


OTHER = "a text that was changed"


@pytest.mark.parametrize(
    ("number", "is_read"), [(0, True), (6, True), (255, True), (256, False)]
)
def test_the_fingerprint_depends_on_the_first_256_texts(make, number, is_read):
    texts, found = [f"text {n}" for n in range(300)], []
    config = make(objective="lm")
    config.data.task = "their_texts"
    for text in (texts[number], OTHER):
        texts[number] = text
        seqio.TaskRegistry.remove("their_texts")
        register_texts("their_texts", texts)
        data, _ = small_data.open_small(config)
        pipelines = data.train, data.eval
        found.append([data.fingerprint, *(each.fingerprint for each in pipelines)])
    differs = [one != two for one, two in zip(*found, strict=True)]
    assert differs == [is_read, is_read, number < 7]  # valid has seven of them


def test_the_fingerprint_depends_on_special_ids_and_on_rates(make):
    config, found = make(objective="lm"), set()
    config.data.task = "theirs"
    for vocabulary in (BYTES, seqio.ByteVocabulary(extra_ids=7)):
        for task in ("theirs_1", "theirs_2"):
            seqio.TaskRegistry.remove(task)
            register_texts(task, TEXTS, vocabulary=vocabulary)
        for rate in (1, 3):
            seqio.MixtureRegistry.remove("theirs")
            rates = [("theirs_1", 1), ("theirs_2", rate)]
            seqio.MixtureRegistry.add("theirs", rates)
            found.add(small_data.open_small(config)[0].fingerprint)
    assert len(found) == 4


@seqio.map_over_dataset(num_seeds=1)
def add_number(row, seed):
    """Begins a text with a random number."""
    number = tf.random.stateless_uniform([], seed, 0, 1000, tf.int32)
    return {"targets": tf.strings.join([tf.as_string(number), row["targets"]])}


def test_an_evaluation_is_the_same_whatever_the_runs_seed(make):
    register_texts("noisy", TEXTS, steps=[add_number])
    config = make(objective="lm")
    config.data.task = "noisy"
    batches = []
    for config.seed in (0, 1):
        data, _ = small_data.open_small(config)
        batches.append((next(data.eval.evaluation()), data.train.batch(0)))
    (one, trained), (two, trained_two) = batches
    assert_same_batch(one, two)
    assert (trained["target"] != trained_two["target"]).any()


def test_a_task_that_cannot_be_shuffled_is_told(make, capsys):
    register_texts("fixed", TEXTS, shuffle_buffer_size=None)
    register_texts("fixed_2", TEXTS, shuffle_buffer_size=None)
    register_texts("free", TEXTS)
    seqio.MixtureRegistry.add("all_fixed", ["fixed", "fixed_2"], default_rate=1)
    seqio.MixtureRegistry.add("some_fixed", ["fixed", "free"], default_rate=1)
    config, told = make(objective="lm"), {}
    for config.data.task in ("fixed", "all_fixed", "free"):
        small_data.open_small(config)
        lines = capsys.readouterr().err.splitlines()
        told[config.data.task] = [line for line in lines if "same order" in line]
    assert [len(lines) for lines in told.values()] == [1, 1, 0]
    assert (
        "same order, since seqio cannot shuffle fixed, fixed_2" in told["all_fixed"][0]
    )
    config.data.task = "some_fixed"
    with pytest.raises(UserError, match="or none, but fixed cannot be shuffled"):
        small_data.open_small(config)


def test_a_mixture_is_sampled_and_evaluated_task_by_task(make):
    register_texts("theirs_1", TEXTS)
    register_texts("theirs_2", ["yes"] * 5)
    seqio.MixtureRegistry.add("theirs", [("theirs_1", 1), ("theirs_2", 3)])
    config = make(objective="lm")
    config.data.task = "theirs"
    data, _ = small_data.open_small(config)
    rows = concatenate(data.train.batch(step) for step in range(50))
    fraction = ((rows["weight"] > 0).sum(1) == 3).mean()
    assert abs(fraction - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 400) + 2 / len(TEXTS)
    rows = concatenate(data.eval.evaluation())
    lengths = [min(32, len(text)) for text in TEXTS[:7]] + [3] * 5 + [0] * 4
    assert (rows["weight"] > 0).sum(1).tolist() == lengths


def test_special_ids_that_a_vocabulary_lacks_come_after_its_end(texts_config):
    vocab = small_data.open_small(texts_config)[0].vocab
    known = [vocab.pad_id, vocab.eos_id, vocab.unk_id]
    assert known == [0, BYTES.eos_id, BYTES.unk_id]
    assert min(vocab.bos_id, vocab.mask_id) >= BYTES.vocab_size
    assert vocab.sentinel_ids[:6] == tuple(range(264, 258, -1))
    ids = [*known, vocab.bos_id, vocab.mask_id, *vocab.sentinel_ids]
    assert len(set(ids)) == len(ids) and max(ids) < vocab.size
    assert len(vocab.sentinel_ids) == 20
    assert not set(vocab.ordinary_ids) & set(ids)
    assert set(range(3, 259)) <= set(vocab.ordinary_ids)


def test_words_of_a_sentencepiece_task_are_masked_whole(make, tmp_path):
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice([*"abcde"], 5)) for _ in range(3000)]
    lines = [" ".join(words[i : i + 10]) for i in range(0, 3000, 10)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_prefix=str(tmp_path / "model"),
        vocab_size=60,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        minloglevel=2,
    )
    vocabulary = seqio.SentencePieceVocabulary(str(tmp_path / "model.model"), 4)
    register_texts("pieces", lines, vocabulary=vocabulary)
    config = make(unit="word")
    config.data.task = "pieces"
    data, _ = small_data.open_small(config)
    rows = concatenate(data.train.batch(step) for step in range(10))
    starts = np.array(
        [
            vocabulary.tokenizer.id_to_piece(i).startswith("\u2581")
            if 2 < i < 60
            else True
            for i in range(data.vocab.size)
        ]
    )
    scored = np.zeros(rows["token"].shape, bool)
    original = rows["token"].copy()
    for row, weight in enumerate(rows["weight"]):
        position = rows["scored"][row][weight > 0]
        scored[row, position] = True
        original[row, position] = rows["target"][row][weight > 0]
    inside = ~starts[original]  # continues a word: masked if the piece before it is
    assert inside[:, 1:].mean() > 0.2
    np.testing.assert_array_equal(
        scored[:, 1:][inside[:, 1:]], scored[:, :-1][inside[:, 1:]]
    )


def register_arrays(name, config, *, width=None, drop=None, change=None):
    """Registers a task whose examples already are the objective's arrays.

    change: (array, id): its first entry in row 5 gets that id, and where nothing is
      scored its targets are out of range.
    """
    data, objective = small_data.open_small(config)
    rows = data.train.source.rows(np.arange(40))
    del rows["example"]
    specs = objective.batch_spec(config.data.length)
    if width:
        rows = {k: v[:, :width] if v.ndim == 2 else v for k, v in rows.items()}
    rows.pop(drop, None)
    if change:
        array, token = change
        rows["target"][rows["weight"] == 0] = 9999
        rows[array][5, 0] = token

    def dataset(split, shuffle_files, seed=None):
        return tf.data.Dataset.from_tensor_slices(rows)

    features = {
        key: seqio.Feature(
            seqio.PassThroughVocabulary(400),
            dtype=tf.as_dtype(array.dtype),
            rank=array.ndim - 1,
            add_eos=False,
        )
        for key, array in rows.items()
    }
    seqio.TaskRegistry.add(
        name,
        source=seqio.FunctionDataSource(dataset, splits=["train", "valid"]),
        preprocessors=[],
        output_features=features,
        shuffle_buffer_size=None,
    )
    return rows, specs


@pytest.mark.parametrize("width", [None, 20])
def test_arrays_are_passed_on_and_padded(make, width):
    config = make()
    rows, specs = register_arrays("their_arrays", config, width=width)
    config.data.task = "their_arrays"
    data, _ = small_data.open_small(config)
    batch = data.train.batch(1)
    assert set(batch) == {*specs, "example"}
    for name, spec in (specs | {"example": ArraySpec(())}).items():
        assert batch[name].shape == (8, *spec.shape)
        assert batch[name].dtype == spec.dtype
    for name, array in rows.items():
        cut = (slice(None), *(slice(size) for size in array.shape[1:]))
        np.testing.assert_array_equal(batch[name][cut], array[8:16])
        rest = np.array(batch[name])
        rest[cut] = 0
        assert not rest.any()


@pytest.mark.parametrize("array", ["token", "target"])
@pytest.mark.parametrize("extra", [-1, 0])
def test_ids_beyond_the_vocabulary_are_refused_in_arrays(make, array, extra):
    config = make()
    config.data.task = "their_arrays"
    size = 424  # 400, and bos, eos, mask, unk and 20 sentinels
    register_arrays("their_arrays", make(), change=(array, size + extra))
    data, _ = small_data.open_small(config)
    assert data.vocab.size == size
    if extra < 0:
        assert data.train.batch(0)[array][5].max() == size - 1
        return
    with pytest.raises(UserError, match=rf"{array} has the token id 424, .* 424 ids"):
        data.train.batch(0)


def test_ids_beyond_the_vocabulary_are_refused_in_texts(make):
    texts = [[5, 99]] * 3 + [[5, 100]]
    vocabulary = seqio.PassThroughVocabulary(100)
    register_texts("their_ids", texts, vocabulary=vocabulary, shuffle_buffer_size=None)
    config = make(objective="lm")
    config.data.task = "their_ids"
    with pytest.raises(UserError, match="targets has the token id 100, but its voc"):
        small_data.open_small(config)[0].train.batch(0)


def test_arrays_longer_than_data_length_are_refused(make):
    config = make()
    register_arrays("their_arrays", config)
    config.data.task = "their_arrays"
    config.data.length = 16
    with pytest.raises(UserError, match=r"data\.length"):
        small_data.open_small(config)


def test_a_task_with_neither_arrays_nor_text_is_refused(make):
    config = make()
    register_arrays("their_arrays", config, drop="reach")
    config.data.task = "their_arrays"
    with pytest.raises(UserError, match="reach"):
        small_data.open_small(config)


def test_a_module_before_the_name_is_imported(make, tmp_path, monkeypatch):
    source = """
import seqio
import tensorflow as tf

seqio.TaskRegistry.add(
    "from_module",
    source=seqio.FunctionDataSource(
        lambda split, shuffle_files, seed=None: tf.data.Dataset.from_tensors(
            {"targets": tf.constant([7, 8, 9])}
        ),
        splits=["train", "valid"],
    ),
    preprocessors=[],
    output_features={"targets": seqio.Feature(seqio.PassThroughVocabulary(50))},
)
"""
    (tmp_path / "named_module.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    config = make(objective="lm")
    config.data.task = "named_module:from_module"
    data, _ = small_data.open_small(config)
    assert data.train.batch(0)["target"][:, :3].tolist() == [[7, 8, 9]] * 8
    config.data.task = "named_module:from_modul"
    with pytest.raises(UserError, match="from_module"):
        small_data.open_small(config)


def test_pairs_streams_dupe_factor_and_lexicon_are_refused(texts_config):
    for unsupported, words in (
        (toy_objectives.Objective("pair"), "reads pairs of texts"),
        (toy_objectives.Objective("parts"), "does not mark the parts of its texts"),
        (toy_objectives.Objective(contiguous=True), "contiguous streams"),
    ):
        with pytest.raises(UserError, match=words):
            small_data.open_with(texts_config, unsupported)
    for key, value in (
        ("dupe_factor", 3),
        ("lexicon", "words.tsv"),
        ("packing", "best_fit"),
        ("pairs", "each_copy"),
        ("mixing", "batches"),
        ("mixture", {"docstrings": 1.0}),
    ):
        config = texts_config.copy_and_resolve_references()
        config.data[key] = value
        with pytest.raises(UserError, match=rf"data\.{key}"):
            small_data.open_small(config)


def test_keys_of_our_own_text_are_told_unless_they_are_the_defaults(
    texts_config, capsys
):
    defaults = base.get_config().data.to_dict()
    for keys in (open_tasks.REFUSED, open_tasks.NOT_READ):
        assert keys == {key: defaults[key] for key in keys}
    texts_config.data.update(open_tasks.NOT_READ)
    small_data.open_small(texts_config)
    assert "does not read" not in capsys.readouterr().err
    texts_config.data.update(separator="none", vocabulary="bpe")
    small_data.open_small(texts_config)
    (told,) = [x for x in capsys.readouterr().err.splitlines() if "does not read" in x]
    assert told.endswith("does not read data.separator, data.vocabulary")


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_a_split_in_files_beside_a_task_is_refused(texts_config, split):
    texts_config.data[split] = "texts.tsv"
    with pytest.raises(UserError, match=rf"data\.task and data\.{split} name two"):
        small_data.open_small(texts_config)


def test_rows_have_their_step_and_document(texts_config):
    data = small_data.open_with(texts_config, toy_objectives.Objective(timed=True))
    rows = concatenate(data.train.batch(step) for step in range(50))
    np.testing.assert_array_equal(rows["step"], np.repeat(np.arange(50), 8))
    with_text = rows["weight"].any(1)
    assert (rows["document"][~with_text] == -1).all()
    assert len({*rows["document"][with_text]}) == with_text.sum() > 300
    assert (concatenate(data.eval.evaluation())["step"] == EVALUATION_STEP).all()


def test_errors_about_unknown_tasks_and_splits_suggest_known_ones(texts_config):
    texts_config.data.task = "their_text"
    with pytest.raises(UserError, match="did you mean their_texts"):
        small_data.open_small(texts_config)
    texts_config.data.task = "no.such.module:their_texts"
    with pytest.raises(UserError, match="their_texts"):
        small_data.open_small(texts_config)
    texts_config.data.task = "their_texts"
    texts_config.data.eval_split = "test"
    with pytest.raises(UserError, match="validation"):
        small_data.open_small(texts_config)

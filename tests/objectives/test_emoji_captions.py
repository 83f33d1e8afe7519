"""The study of emoji: folds without leaks, paired differences, choice of strengths."""

import json
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from experiments.studies import emoji_captions
from research.data.store.pictures import open_store
from research.objectives.images.readers import features
from research.use.inference import open_run, picture_guesses

FOLDS, NAMES = range(emoji_captions.FOLDS), ("red", "green", "blue")


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Two pictures of each emoji, and R@1, 2 and 3."""
    monkeypatch.setattr(emoji_captions, "VARIANTS", 2)
    monkeypatch.setattr(emoji_captions, "AT", (1, 2, 3))


def write(folder, last="drop", num=30):
    """Folds of squares of some colours, of which two or three have one group."""
    rng = np.random.default_rng(0)
    (folder / "pictures").mkdir(parents=True)
    lines = []
    for number in range(num):
        colour = rng.integers(256, size=3, dtype=np.uint8)
        pixels = np.broadcast_to(colour, (72, 72, 3)).copy()
        pixels[: rng.integers(72)] = 255
        Image.fromarray(pixels).save(folder / f"pictures/{number}.png")
        names = [f"{n}{c // 64}" for n, c in zip(NAMES, colour, strict=True)]
        caption = [", ".join(names) if number < num - 1 else last]
        row = {"file": f"{number}.png", "caption": caption}
        lines.append(json.dumps(row | {"group": f"g{number * 2 // 5}"}) + "\n")
    (folder / "captions.jsonl").write_text("".join(lines))
    paths = [folder / "pictures", folder / "captions.jsonl", folder / "folds"]
    emoji_captions.write_folds(*map(str, paths), "letters:3")
    return str(paths[-1])


def parts(folder):
    """Fold, "" or "inner", and the captions of both splits."""
    for number in FOLDS:
        for part in ("", "inner"):
            rows = (
                emoji_captions.rows_of(f"{folder}/{number}/{part}", split)
                for split in emoji_captions.SPLITS
            )
            yield number, part, *rows


def groups(rows):
    return {row["image"] // emoji_captions.VARIANTS * 2 // 5 for row in rows}


def test_a_group_is_in_one_split_and_every_picture_is_held_out_once(tmp_path):
    count, held_out = Counter(), {}
    for number, part, train, valid in parts(write(tmp_path)):
        assert not groups(train) & groups(valid)
        assert all(emoji_captions.is_plain(row) for row in valid)
        if part:
            assert not groups(train + valid) & held_out[number]
        else:
            held_out[number] = groups(valid)
            count.update(row["image"] for row in valid)
        assert groups(train + valid) | held_out[number] == set(range(12))
    assert sorted(count) == list(range(0, 60, 2)) and set(count.values()) == {1}


def test_vectors_of_training_captions_depend_on_no_held_out_caption(tmp_path):
    """Another caption changes the vectors exactly where it is trained on."""
    folders = [write(tmp_path / name, name) for name in ("drop", "pink cow")]
    changed = set()
    for (*_, train, _), (*_, other, _) in zip(*map(parts, folders), strict=True):
        vectors = [
            np.load(f"{folder}/store/caption_vectors.npy")[
                [row["vector"] for row in rows if row["image"] < 58]
            ]
            for folder, rows in zip(folders, (train, other), strict=True)
        ]
        known = any(row["image"] >= 58 for row in train)
        changed.add(known)
        assert np.allclose(*vectors, atol=1e-5) is not known
    assert changed == {False, True}


def test_differences_are_paired_by_query(tmp_path):
    """A run that finds what a regression finds has nothing more, in every draw."""
    folder, run = write(tmp_path), tmp_path / "run"
    pictures, wanted = emoji_captions._pictures(folder), "ridge of colours, to letters"
    for number in FOLDS:
        fold = emoji_captions._Fold(folder, number)
        hits = dict(emoji_captions._regressions(pictures, fold))[wanted]
        (run / f"{number}/predictions").mkdir(parents=True)
        lines = [json.dumps({"prediction": r}) for r in (4 - hits.sum(-1)).tolist()]
        file = run / f"{number}/predictions/valid.jsonl"
        file.write_text("\n".join(lines))
    found = emoji_captions.compare(folder, str(run))
    for side in emoji_captions.SIDES:
        assert found["mean of runs"][side] == found[wanted][side] != [1, 1, 1]
        assert found[wanted]["more"][side] == [[0, 0, 0]] * 3


def test_a_store_of_a_fold_has_the_vectors_of_its_run(tmp_path, monkeypatch):
    """Two streams read fixed features, centred by training pictures, and vectors."""
    folder, vectors = write(tmp_path), np.random.default_rng(0).normal(size=(60, 4))
    run = SimpleNamespace(encode_stored=lambda numbers: vectors[[*numbers]])
    monkeypatch.setattr(open_run, "open_run", lambda workdir: run)
    emoji_captions.write_features(folder, "1", "run")
    store = open_store(f"{folder}/1/store")
    regions = features.Reader().read(store, np.arange(60), np.zeros((60, 1), bool))
    assert regions.here.all() and (regions.values[:, 0] == regions.values[:, 1]).all()
    fixed, own = np.split(regions.values[:, 1], [-4], axis=1)
    train = [row["image"] for row in emoji_captions.rows_of(f"{folder}/1", "train")]
    assert np.allclose(fixed[train].mean(axis=0), 0, atol=1e-6)
    assert np.allclose(own, 2 * emoji_captions.unit(vectors), atol=1e-6)


def test_pairs_are_ranked_by_the_sum_of_both_scores(tmp_path, monkeypatch):
    """Both scores together find what either finds, on any scale."""
    folder, count = write(tmp_path), 6
    half = np.arange(count) < count // 2
    streams, image, text = np.zeros((3, count, count))
    np.fill_diagonal(streams, 1000.0 * half)
    np.fill_diagonal(text, 1)
    np.fill_diagonal(image, 1.0 * ~half)
    rows = emoji_captions.rows_of(f"{folder}/0", "valid")[:count]
    fold = SimpleNamespace(parts=[{"valid": rows}], count=1)
    run = SimpleNamespace(run=None)
    monkeypatch.setattr(open_run, "open_run", lambda workdir: run)
    monkeypatch.setattr(picture_guesses, "match_values", lambda *each: streams)
    monkeypatch.setattr(emoji_captions, "_Fold", lambda *each: fold)
    monkeypatch.setattr(emoji_captions, "_of_run", lambda *each: (image, text[:, None]))
    emoji_captions.write_ranks(folder, "0", "streams", "clip", str(tmp_path / "to"))
    first = {
        name: emoji_captions._hits_of_run(f"{tmp_path}/to/{name}/0")[..., 0] == 1
        for name in ("streams", "clip", "both")
    }
    assert (first["streams"] == half[:, None]).all()
    assert (first["clip"] == ~half[:, None]).all()
    assert first["both"].all()


def test_a_draw_is_one_of_whole_groups():
    """Of two groups, a draw has one alone in half of the cases."""
    more = np.repeat([1.0, -1], 500)[None, :, None, None] * np.ones((1, 1, 2, 3))
    interval = emoji_captions._interval(more, np.repeat([0, 1], 500))
    assert interval["image_to_text"] == [[0, -1, 1]] * 3


def test_strengths_are_chosen_without_the_held_out_captions(tmp_path, monkeypatch):
    folder, used = write(tmp_path), []
    predictions = emoji_captions._Ridge.predictions

    def recorded(self, target, strengths):
        used.append(strengths)
        return predictions(self, target, strengths)

    def chosen(order):
        """The strengths, when held-out captions have this order."""
        fold, used[:] = emoji_captions._Fold(folder, 0), []
        rows = fold.parts[0]["valid"]
        texts = [row["text"] for row in rows][::order]
        fold.parts[0]["valid"] = [
            row | {"text": text} for row, text in zip(rows, texts, strict=True)
        ]
        hits = [own for _, own in emoji_captions._regressions(pictures, fold)]
        return [each for each in used if len(each) == 1], hits

    monkeypatch.setattr(emoji_captions._Ridge, "predictions", recorded)
    pictures = emoji_captions._pictures(folder)
    (best, hits), (same, others) = chosen(1), chosen(-1)
    assert best == same and len(set(best)) > 1
    assert any((a != b).any() for a, b in zip(hits, others, strict=True))


def test_a_caption_finds_its_translation_by_the_nearest_picture():
    """It is the caption of that picture: equal pictures tell nothing of it."""
    vectors, count = np.eye(12), len(emoji_captions.LANGUAGES)
    text = np.repeat(vectors[:, None], count, axis=1)

    def recall(pair, image):
        first, second = map(emoji_captions.LANGUAGES.index, pair.split("-"))
        number = emoji_captions.PAIRS.index((first, second))
        return emoji_captions.pivots(image, text)[number].mean(axis=0).tolist()

    right = [[1, 1, 1], [1, 1, 1]]
    assert recall("de-ja", vectors) == right
    assert recall("de-ja", np.ones((12, 12))) == [[1, 1, 1], [0, 0, 0]]
    text[:, 1] += 2 * np.roll(vectors, 1, axis=0)  # nearest to another picture
    assert recall("de-ja", vectors)[1][0] == 0 and recall("ja-en", vectors) == right

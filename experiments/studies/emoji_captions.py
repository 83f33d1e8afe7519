r"""Captions of emoji in five folds by groups of variants, and what retrieves them.

    python -m experiments.studies.emoji_captions captions D/captions.jsonl E/emoji.jsonl
    python -m experiments.studies.emoji_captions folds D/images.zip E/emoji.jsonl \
        E/folds hf:DIR
    python -m experiments.studies.emoji_captions compare E/folds runs/0 runs/1
    python -m experiments.studies.emoji_captions features E/folds 0 runs/0/0
    python -m experiments.studies.emoji_captions ranks E/folds 0 runs/streams/0 \
        runs/0/0 runs/ranked
    python -m experiments.studies.emoji_captions difference E/folds runs/ranked/both \
        runs/ranked/clip
    python -m experiments.studies.emoji_captions captions D/captions.jsonl E/de.jsonl de
    python -m experiments.studies.emoji_captions folds D/images.zip E/de.jsonl \
        E/de letters:256
    python -m experiments.studies.emoji_captions captions D/captions.jsonl E/all.jsonl \
        en,de,zh,ja
    python -m experiments.studies.emoji_captions folds D/images.zip E/all.jsonl \
        E/all letters:384
    python -m experiments.studies.emoji_captions pivot E/all runs/all

The first command reads lines with `image`, `name_LANGUAGE` and `keywords_en`. Variants
of one emoji (man, woman and person, hair, skin, the hours of a clock) have one group,
so that none of them is in both splits. `folds` holds out every pair once; each picture
for training has seven others beside it that are moved, scaled and mirrored by chance,
with some of the keywords in any order. It stores vectors of the captions: of a model,
or tf-idf of one to three letters in as many dimensions as named. `compare` predicts
tf-idf of words and of letters of the captions, which are in one language, the stored
vectors, and these with words: by ridge regression of means of colours, by that of what
the pictures' tower of CLIP reads (model.feature_layers=gradients), and by a Gaussian
kernel of the latter. It prints R@k of each, and of runs (a folder for each seed, with
one run for each fold) in the mean; `more` is how much more the runs have, with an
interval over groups and seeds. `features` writes a store for one fold,
E/folds/0/store, with features of the pictures and their vectors by a run of clip, for
two streams; `ranks` ranks by both runs. `difference` compares two folders of runs.
`pivot` ranks the captions of one language for those of another: by the vectors of both,
and by that of the picture which is nearest to the caption.
"""

import functools
import hashlib
import itertools
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from PIL import Image, ImageOps
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

from research.data.read.picture_sources import open_source
from research.data.read.pictures import (
    Columns,
    caption_line,
    decode_picture,
    read_rows,
)
from research.data.store.pictures import (
    BOXES,
    CAPTION_VECTORS,
    CLASSES,
    FEATURES,
    META,
    PIXELS,
    open_store,
    write_rows,
)
from research.evaluation.retrieval_scores import matrix_ranks
from research.networks.transformer.feature_layers.gradients import histograms
from research.predictions.retrieval import pair_ranks

PEOPLE = re.compile(
    r"\b(wo)?(man|men)\b|\b(person|people|boy|girl|girls|child|adult|mrs|claus|santa)\b"
    r"|\b(prince|princess|princes|mermaid|merman|merperson|mx|mother|father)\b"
)
FAMILIES = {
    "clock": r"o.clock|-thirty",
    "hair": r"\bhair\b|bald|beard",
    "skin": "skin tone",
    "family": r"family|couple|kiss: |holding hands",
    "moon": "moon",
    "keycap": "keycap",
    "button": "button",
}
SIZE = 12
SPLITS = ("train", "valid")
LANGUAGES = ("en", "de", "zh", "ja")
LETTERS = {"analyzer": "char_wb", "ngram_range": (1, 3)}
"""tf-idf of one to three letters."""
AT = (1, 5, 10)
"""R@k."""
SIDES, WAYS = ("image_to_text", "text_to_image"), ("direct", "pivot")
PAIRS = tuple(itertools.permutations(range(len(LANGUAGES)), 2))
VARIANTS, SHIFT = 8, 6
"""Pictures of one for training, and the pixels that one is moved by at most."""
FOLDS, CHOICE = 5, 1
"""Folds, and that by which the settings of CLIP were chosen."""
TAILS = (0.025, 0.975)
"""Ends of intervals, as fractions of draws."""
STRENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
REGRESSIONS = (("colours", ""), ("all", ""), ("all", "kernel"))
"""Features of pictures, and the kernel of kernel ridge regression."""
LENGTH = 32
"""Tokens of a caption that are read, as by the experiment."""


def group_of(name: str) -> str:
    """The name of what an emoji varies."""
    name = name.lower()
    for family, pattern in FAMILIES.items():
        if re.search(pattern, name):
            return family
    words = PEOPLE.sub("", name.partition(":")[0])
    kept = [word for word in re.findall(r"\w+", words) if word not in ("in", "with")]
    return " ".join(kept) or "person"


def write_captions(source: Path, to: Path, languages: str = "en") -> None:
    """Lines of a picture, its group, and its names, in English with its keywords."""
    with to.open("w", encoding="utf-8") as file:
        for row in _json_rows(source):
            words = {"en": row["keywords_en"]}
            captions = [
                ", ".join([row[f"name_{language}"], *words.get(language, ())])
                for language in languages.split(",")
            ]
            made = {"file": row["image"], "caption": captions}
            made["group"] = group_of(row["name_en"])
            file.write(json.dumps(made, ensure_ascii=False) + "\n")


def write_variants(source: str, captions: str, to: str) -> None:
    """All pictures and captions `VARIANTS` times, the first of them as they are."""
    rng, folder, pictures = random.Random(0), Path(to), open_source(Path(source))
    folder.mkdir(parents=True)
    rows = read_rows(Path(captions), Columns(group="group"))
    with (folder / "captions.jsonl").open("w", encoding="utf-8") as file:
        for row, number in itertools.product(rows, range(VARIANTS)):
            content = pictures.read(row.file, row.where)
            pixels, _ = decode_picture(content, row, 72, 72)
            image, texts = Image.fromarray(pixels), [*row.captions]
            if number:
                image = _varied(image, rng)
                texts = [_some_words(text, rng) for text in texts]
            name = f"{Path(row.file).stem}-{number}.png"
            image.save(folder / name)
            made = {"file": name, "caption": texts, "group": row.group}
            file.write(json.dumps(made, ensure_ascii=False) + "\n")


def write_folds(source: str, captions: str, to: str, vectors: str = "") -> None:
    """A store of all pictures in all variants, and its captions by folds of groups.

    Fold n trains on n/train.captioned, and n/valid.captioned, whose pictures are as
    they are, is held out. To choose settings, n/inner has the same without these: the
    next fold is its validation, the other three are for training.

    Args:
      vectors: of all captions, which the store has: a model, hf:DIR, or letters:WIDTH.
    """
    folder = Path(to)
    write_variants(source, captions, f"{to}/pictures")
    rows = read_rows(folder / "pictures/captions.jsonl", Columns(group="group"))
    (folder / "store").mkdir()
    pictures = open_source(folder / "pictures")
    stored = write_rows(folder / "store", pictures, rows, size=(72, 72))
    fold = fold_of(Counter(row.group for row in rows))
    letters = vectors.partition("letters:")[2]
    if vectors and not letters:
        _store_vectors(stored, vectors)
    lines = iter(stored.read_bytes().splitlines(keepends=True))
    parts: list[tuple[list, list]] = [([], []) for _ in range(FOLDS)]
    for row in rows:
        own = [next(lines) for _ in row.captions]
        every, plain = parts[fold[row.group]]
        every += own
        plain += own * row.file.endswith("-0.png")
    for held_out in range(FOLDS):
        chosen = (held_out + 1) % FOLDS
        for name, valid, left in (
            (f"{held_out}", held_out, {held_out}),
            (f"{held_out}/inner", chosen, {held_out, chosen}),
        ):
            (folder / name).mkdir()
            trained = [
                line
                for n, (every, _) in enumerate(parts)
                if n not in left
                for line in every
            ]
            for split, part in (("train", trained), ("valid", parts[valid][1])):
                (folder / name / f"{split}.captioned").write_bytes(b"".join(part))
    if letters:
        _store_letters(folder, int(letters))


def _store_vectors(captioned: Path, model: str) -> None:
    """Gives each line of a file of captions the number of its vector by the model."""
    from research.use.inference.open_run import open_run

    texts = sorted({row["text"] for row in _json_rows(captioned)})
    vectors = open_run(model).encode(texts, max_length=LENGTH)
    np.save(captioned.parent / CAPTION_VECTORS, vectors)
    _write_numbers(captioned, {text: n for n, text in enumerate(texts)})


def _store_letters(folder: Path, width: int) -> None:
    """Gives the captions of each fold vectors: an SVD of tf-idf of its training's."""
    vectors, count = [], 0
    for number, part in itertools.product(range(FOLDS), ("", "inner")):
        files = [folder / f"{number}" / part / f"{split}.captioned" for split in SPLITS]
        known, given = ({row["text"] for row in _json_rows(file)} for file in files)
        texts = sorted(known | given)
        tfidf = TfidfVectorizer(sublinear_tf=True, **LETTERS)
        svd = TruncatedSVD(width, random_state=0)
        svd.fit(tfidf.fit_transform(sorted(known)))
        vectors.append(svd.transform(tfidf.transform(texts)).astype(np.float32))
        for file in files:
            _write_numbers(file, {text: count + n for n, text in enumerate(texts)})
        count += len(texts)
    np.save(folder / "store" / CAPTION_VECTORS, np.concatenate(vectors))


def _write_numbers(captioned: Path, number: Mapping[str, int]) -> None:
    """Writes to each line of a file of captions the number of its vector."""
    lines = (
        caption_line(row["text"], row["image"], None, number[row["text"]])
        for row in _json_rows(captioned)
    )
    captioned.write_bytes(b"".join(lines))


def fold_of(sizes: Mapping[str, int]) -> dict[str, int]:
    """Group -> its fold: each, the largest first, is put into the smallest fold."""
    found, filled = {}, [0] * FOLDS
    order = lambda name: (-sizes[name], hashlib.sha256(name.encode()).digest())  # noqa: E731
    for name in sorted(sizes, key=order):
        found[name] = filled.index(min(filled))
        filled[found[name]] += sizes[name]
    return found


def _varied(image: Image.Image, rng: random.Random) -> Image.Image:
    """The picture scaled by up to a twelfth, moved by up to `SHIFT`, maybe mirrored."""
    side = round(image.width * rng.uniform(1 - SHIFT / 72, 1 + SHIFT / 72))
    middle = (image.width - side) // 2
    corner = [middle + rng.randint(-SHIFT, SHIFT) for _ in range(2)]
    found = Image.new("RGB", image.size, "white")
    found.paste(image.resize((side, side)), tuple(corner))
    return ImageOps.mirror(found) if rng.random() < 0.5 else found


def _some_words(caption: str, rng: random.Random) -> str:
    """At least half of the words of a caption, in any order."""
    words = caption.split(", ")
    return ", ".join(
        rng.sample(words, rng.randint(max(1, len(words) // 2), len(words)))
    )


def write_features(folder: str, number: str, workdir: str) -> None:
    """A store for a fold: one box for each picture, with features of it.

    These are means of colours and histograms of gradients, less their means over the
    fold's training pictures, and the run's vector of the picture, of length sqrt(D).

    Args:
      folder: the folder that `folds` wrote.
      number: the fold.
      workdir: a run of clip on this fold, with the store of `folder`.
    """
    from research.use.inference.open_run import open_run

    source, to = Path(folder, "store"), Path(folder, number, "store")
    pixels = open_store(str(source)).pixels
    vectors = unit(open_run(workdir).encode_stored(range(len(pixels))))
    train = [row["image"] for row in rows_of(f"{folder}/{number}", "train")]
    fixed = np.hstack([means(pixels), gradients(pixels)])
    fixed -= fixed[train].mean(axis=0)
    features = np.hstack([fixed, vectors * np.sqrt(vectors.shape[1])])
    to.mkdir()
    for name in (PIXELS, META):
        (to / name).symlink_to((source / name).resolve())
    np.save(to / FEATURES, features[:, None].astype(np.float32))
    np.save(to / BOXES, np.tile(np.float32([0, 0, 1, 1]), (len(pixels), 1, 1)))
    np.save(to / CLASSES, np.full((len(pixels), 1), -1, np.int32))


def write_ranks(folder: str, number: str, streams: str, clip: str, to: str) -> None:
    """Ranks of a fold's pairs by two runs, and by both: `compare` reads to/streams...

    By both, a pair has the sum of two streams' score and CLIP's cosine, each divided by
    its standard deviation over the pairs (BLIP, Li et al. 2022, ranks by the sum of
    the score of matching and the cosine, without the deviations).

    Args:
      folder: the folder that `folds` wrote, with captions in one language.
      number: the fold.
      streams, clip: runs of this fold, of picture_retrieval and of clip.
    """
    from research.use.inference.open_run import open_run
    from research.use.inference.picture_guesses import match_values

    fold = _Fold(folder, int(number))
    valid = fold.parts[0]["valid"]
    pictures, texts = [row["image"] for row in valid], [row["text"] for row in valid]
    image, text = _of_run(clip, fold)
    values = {
        "streams": match_values(open_run(streams).run, texts, pictures),
        "clip": unit(image) @ unit(text[:, 0]).T,
    }
    values["both"] = sum(own / own.std() for own in values.values())
    for name, own in values.items():
        ranks = matrix_ranks(own, range(len(own))).tolist()
        lines = [json.dumps({"prediction": row}) for row in ranks]
        file = Path(to, name, number, "predictions/valid.jsonl")
        file.parent.mkdir(parents=True)
        file.write_text("\n".join(lines), "utf-8")


def compare(folder: str, *seeds: str) -> dict[str, Any]:
    """R@k of runs, of their mean and of regressions, and how much more runs have.

    Args:
      folder: of `folds`, of captions in one language.
      seeds: folders of runs 0 to 4, one of each fold.
    """
    pictures, folds = _pictures(folder), [_Fold(folder, n) for n in range(FOLDS)]
    hits: dict[str, list] = {}
    for fold in folds:
        for name, own in _regressions(pictures, fold):
            hits.setdefault(name, []).append(own)
    runs = np.array([_hits_of_runs(seed) for seed in seeds])
    found = {seed: _by_side(own) for seed, own in zip(seeds, runs, strict=True)}
    if seeds:
        found["mean of runs"] = _by_side(runs.mean(axis=0))
    for name, every in hits.items():
        own = np.concatenate(every)
        found[name] = _by_side(own)
        if seeds:
            found[name] |= _more(runs - own, folds)
    return found


class _Fold:
    """The captions of one fold, and of its inner split."""

    def __init__(self, folder: str, number: int):
        self.number = number
        self.parts = [
            {split: rows_of(f"{folder}/{part}", split) for split in SPLITS}
            for part in (f"{number}", f"{number}/inner")
        ]
        valid = self.parts[0]["valid"]
        self.count = len(valid) // len({row["image"] for row in valid})  # of languages
        pictures = _json_rows(Path(folder) / "pictures/captions.jsonl")
        group = [row["group"] for row in pictures]
        self.groups = [group[row["image"]] for row in valid[:: self.count]]

    def plain(self, part: int) -> dict[str, list[dict]]:
        """Split -> the captions of pictures as they are."""
        return {
            split: [row for row in rows if is_plain(row)]
            for split, rows in self.parts[part].items()
        }


def is_plain(row: dict) -> bool:
    """True for a row of `folds` whose picture is not a variant."""
    return row["image"] % VARIANTS == 0


def _more(
    more: np.ndarray, folds: Sequence[_Fold], sides: Sequence[str] = SIDES
) -> dict[str, dict]:
    """Differences [seeds, B, 2, 3], of all folds and without that of the choice."""
    names = [name for fold in folds for name in fold.groups]
    groups = np.unique(names, return_inverse=True)[1]
    fold = np.repeat(range(FOLDS), [len(each.groups) for each in folds])
    rest = fold != CHOICE
    kept = np.unique(groups[rest], return_inverse=True)[1]
    return {
        "more": _interval(more, groups, sides),
        f"more without fold {CHOICE}": _interval(more[:, rest], kept, sides),
    }


def _hits_of_run(workdir: str) -> np.ndarray:
    """`_hits` of the last evaluation of a run, or of `score --task=retrieval`."""
    predicted = Path(workdir) / "predictions/valid.jsonl"
    if predicted.exists():
        return _in_top([row["prediction"] for row in _json_rows(predicted)])
    (scored,) = Path(workdir).glob("evaluations/retrieval-*/scores.jsonl")
    return _in_top([row["ranks"] for row in _json_rows(scored)])


def _hits_of_runs(seed: str) -> np.ndarray:
    """`_hits` of runs 0 to 4, one of each fold, in the order of folds."""
    return np.concatenate([_hits_of_run(f"{seed}/{n}") for n in range(FOLDS)])


def difference(folder: str, one: str, other: str) -> dict[str, dict]:
    """How much more R@k one folder of runs 0 to 4 has than another."""
    more = _hits_of_runs(one) - _hits_of_runs(other)
    return _more(more[None], [_Fold(folder, n) for n in range(FOLDS)])


def _pictures(folder: str) -> dict[str, Any]:
    """Features of plain pictures and of captions, by their numbers."""
    store = open_store(f"{folder}/store")
    pixels = np.asarray(store.pixels[::VARIANTS])
    return {
        "colours": means(pixels),
        "angles": gradients(pixels),
        "vectors": store.caption_vectors,
    }


def _regressions(
    pictures: dict[str, Any], fold: _Fold
) -> Iterator[tuple[str, np.ndarray]]:
    """Names, and `_hits` of a fold; strengths are chosen by its inner split.

    Blocks of pictures and of targets have variance 1 each.
    """
    inner, outer = (_blocks(pictures, fold.plain(part)) for part in (1, 0))
    for features, kernel in REGRESSIONS:
        chosen, final = (_Ridge(*part[0][features], kernel) for part in (inner, outer))
        for target in inner[1]:
            known, given = inner[1][target]
            every = chosen.predictions(known, STRENGTHS)
            recall = {n: _hits(own, given)[..., -1].mean() for n, own in every.items()}
            best = max(STRENGTHS, key=recall.__getitem__)
            known, given = outer[1][target]
            (found,) = final.predictions(known, (best,)).values()
            name = f"{kernel} ridge of {features}, to {target}".strip()
            yield name, _hits(found, given)


def _blocks(
    pictures: dict[str, Any], rows: dict[str, list[dict]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Names -> features and targets of both splits, with the mean and scale of one."""
    numbers = [[row["image"] // VARIANTS for row in rows[split]] for split in SPLITS]
    colours, angles = (
        _scaled([pictures[name][each] for each in numbers])
        for name in ("colours", "angles")
    )
    texts = {split: [row["text"] for row in rows[split]] for split in SPLITS}
    targets = {"words": _scaled(_tfidf(texts))}
    targets["letters"] = _scaled(_tfidf(texts, **LETTERS))
    if pictures["vectors"] is not None:
        vectors = [[row["vector"] for row in rows[split]] for split in SPLITS]
        targets["vectors"] = _scaled([pictures["vectors"][each] for each in vectors])
        targets["words and vectors"] = _joined(targets["words"], targets["vectors"])
    return {"colours": colours, "all": _joined(colours, angles)}, targets


def _joined(one: Sequence, other: Sequence) -> list[np.ndarray]:
    return [np.hstack(each) for each in zip(one, other, strict=True)]


class _Ridge:
    """Ridge regression of any target: one eigendecomposition serves all strengths."""

    def __init__(self, known: np.ndarray, given: np.ndarray, kernel: str = ""):
        """Decomposes the kernel of known [N, F], for predictions of given [B, F]."""
        of = functools.partial(rbf_kernel, gamma=1.0) if kernel else linear_kernel
        self.values, self.basis = np.linalg.eigh(of(known))
        self.read = of(given, known) @ self.basis

    def predictions(
        self, target: np.ndarray, strengths: Sequence[float]
    ) -> dict[float, np.ndarray]:
        """Strength -> [B, T], fitted to a target [N, T]."""
        wanted = self.basis.T @ target
        return {n: (self.read / (self.values + n)) @ wanted for n in strengths}


def means(pixels: np.ndarray) -> np.ndarray:
    """[B, 432]: of the colours of 12 x 12 cells of pictures [B, H, W, 3]."""
    count, height, width, colours = pixels.shape
    shape = count, SIZE, height // SIZE, SIZE, width // SIZE, colours
    cells = (pixels.astype(np.float32) / 255).reshape(shape)
    return cells.mean(axis=(2, 4)).reshape(count, -1)


def gradients(pixels: np.ndarray) -> np.ndarray:
    """[B, 576]: histograms of the gradients of 8 x 8 cells of pictures [B, H, W, 3]."""
    chunks = (pixels[n : n + 64] / np.float32(255) for n in range(0, len(pixels), 64))
    found = [np.asarray(histograms(jnp.array(each), 8)) for each in chunks]
    return np.concatenate(found).reshape(len(pixels), -1)


def rows_of(folder: str, split: str) -> list[dict]:
    """The captions of a split, each with the number of its picture."""
    return _json_rows(Path(folder) / f"{split}.captioned")


def _json_rows(file: Path) -> list[dict]:
    """The rows of a file of JSON lines."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def _tfidf(texts: dict[str, list[str]], **options) -> tuple[np.ndarray, np.ndarray]:
    tfidf = TfidfVectorizer(sublinear_tf=True, **options).fit(texts["train"])
    known, given = (tfidf.transform(texts[split]).toarray() for split in SPLITS)
    return known, given


def _scaled(target: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, ...]:
    """Both splits less the mean of the first, whose variance is then 1 in all."""
    mean = target[0].mean(axis=0)
    deviation = np.sqrt(((target[0] - mean) ** 2).sum(axis=1).mean())
    return tuple((each - mean) / deviation for each in target)


def _hits(image: np.ndarray, text: np.ndarray) -> np.ndarray:
    """[B, 2, 3]: whether the caption of a picture, and its picture, are in R@k."""
    count = len(image)
    return _in_top(pair_ranks(image, text, np.arange(count), np.ones(count)))


def _in_top(ranks: Any) -> np.ndarray:
    """[..., 3]: whether ranks are in R@k."""
    return (np.asarray(ranks)[..., None] <= AT).astype(float)


def _by_side(hits: np.ndarray, sides: Sequence[str] = SIDES) -> dict[str, Any]:
    return {side: hits[:, n].mean(axis=0).tolist() for n, side in enumerate(sides)}


def _interval(
    more: np.ndarray, groups: np.ndarray, sides: Sequence[str] = SIDES
) -> dict[str, list]:
    """Side -> of each k the mean of [seeds, B], and the bootstrap interval of `TAILS`.

    A draw is one of groups and of seeds.
    """
    rng, count = np.random.default_rng(0), groups.max() + 1
    seeds, even = len(more), np.full(len(more), 1 / len(more))
    drawn = rng.multinomial(count, np.full(count, 1 / count), size=10_000)[:, groups]
    chosen = rng.multinomial(seeds, even, size=10_000) / seeds
    means = sum(
        weight[:, None, None] * np.tensordot(drawn, own, 1)
        for weight, own in zip(chosen.T, more, strict=True)
    )
    means = means / drawn.sum(axis=1)[:, None, None]
    every = [more.mean(axis=(0, 1)), *np.quantile(means, TAILS, axis=0)]
    return {
        side: np.stack(every, axis=-1)[n].round(3).tolist()
        for n, side in enumerate(sides)
    }


def pivot(folder: str, *seeds: str) -> dict[str, dict[str, Any]]:
    """Languages, such as en-de -> what ranks -> R@1, 5 and 10: direct, by a picture.

    Regressions are to letters of all languages; their strengths are chosen by R@10 of
    pictures and captions in the mean of languages.

    Args:
      folder: of `folds`, with captions in all `LANGUAGES`.
      seeds: folders of runs 0 to 4, one of each fold.
    """
    pictures, folds = _pictures(folder), [_Fold(folder, n) for n in range(FOLDS)]
    hits: dict[str, list] = {}
    for fold in folds:
        for name, own in _of_letters(pictures, fold):
            hits.setdefault(name, []).append(pivots(*own))
    every = {name: np.concatenate(own, axis=1) for name, own in hits.items()}
    runs = [
        np.concatenate(
            [pivots(*_of_run(f"{seed}/{f.number}", f)) for f in folds], axis=1
        )
        for seed in seeds
    ]
    found: dict[str, dict[str, Any]] = {}
    for n, pair in enumerate(PAIRS):
        own = found["-".join(LANGUAGES[each] for each in pair)] = {}
        if runs:
            clip = np.array([each[n] for each in runs])
            own["CLIP"] = _by_side(clip.mean(axis=0), WAYS)
        for name, each in every.items():
            own[name] = _by_side(each[n], WAYS)
            if runs:
                own[name] |= _more(clip - each[n], folds, WAYS)
    return found


def _of_run(workdir: str, fold: _Fold) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of held-out pictures [B, J], and of their captions [B, languages, J].

    The run has read stored vectors of captions.
    """
    from research.use.inference.open_run import open_run

    opened, rows = open_run(workdir), fold.parts[0]["valid"]
    image = opened.encode_stored([row["image"] for row in rows[:: fold.count]])
    vectors = opened.run.objective.store.caption_vectors
    text = vectors[[row["vector"] for row in rows]] @ np.asarray(
        opened.run.params["text"]["head_vector"]["out"]["kernel"]
    )
    return image, text.reshape(len(image), fold.count, -1)


def _of_letters(
    pictures: dict[str, Any], fold: _Fold
) -> Iterator[tuple[str, tuple[np.ndarray, np.ndarray]]]:
    """Names, predictions [B, T] of pictures, and their captions [B, languages, T].

    A picture's target is the mean of its captions.
    """
    inner, outer = (_blocks(pictures, fold.plain(part)) for part in (1, 0))
    (target, given), (known, text) = (
        [each.reshape(-1, fold.count, each.shape[-1]) for each in part[1]["letters"]]
        for part in (inner, outer)
    )
    for features, kernel in REGRESSIONS:
        chosen, final = (
            _Ridge(*(each[:: fold.count] for each in part[0][features]), kernel)
            for part in (inner, outer)
        )
        recall = {
            n: np.mean(
                [_hits(own, given[:, m])[..., -1] for m in range(given.shape[1])]
            )
            for n, own in chosen.predictions(target.mean(axis=1), STRENGTHS).items()
        }
        best = max(STRENGTHS, key=recall.__getitem__)
        (found,) = final.predictions(known.mean(axis=1), (best,)).values()
        yield f"{kernel} ridge of {features}".strip(), (found, text)


def pivots(image: np.ndarray, text: np.ndarray) -> np.ndarray:
    """[pairs, B, 2, 3]: whether a caption's translation is in R@k, in both `WAYS`.

    Args:
      image: vectors of pictures [B, J].
      text: those of their captions [B, languages, J].
    """
    number, ones = np.arange(len(image)), np.ones(len(image))
    found = []
    for first, second in PAIRS:
        query, candidate = text[:, first], text[:, second]
        cosine = unit(query) @ unit(image).T
        queries = query, image[cosine.argmax(axis=1)]
        ranks = [pair_ranks(each, candidate, number, ones)[:, 0] for each in queries]
        found.append(_in_top(np.stack(ranks, axis=1)))
    return np.array(found)


def unit(vectors: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(length, 1e-12)


if __name__ == "__main__":
    command, *paths = sys.argv[1:]
    if command == "folds":
        write_folds(*paths)
    elif command == "features":
        write_features(*paths)
    elif command == "ranks":
        write_ranks(*paths)
    elif command == "captions":
        write_captions(*map(Path, paths[:2]), *paths[2:])
    else:
        printed = {"compare": compare, "difference": difference, "pivot": pivot}
        made = printed[command](*paths)
        print(json.dumps(made, indent=1))

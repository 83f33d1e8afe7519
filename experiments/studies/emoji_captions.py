r"""Captions of emoji with groups of variants, and what ridge regression retrieves.

    python -m experiments.studies.emoji_captions captions D/captions.jsonl E/emoji.jsonl
    palimpsest images --pictures=D/images.zip --captions=E/emoji.jsonl \
        --group-column=group --held-out=0.2 --to=E/store
    python -m experiments.studies.emoji_captions vary D/images.zip E/emoji.jsonl E/v
    palimpsest images --pictures=E/v --captions=E/v/captions.jsonl \
        --group-column=group --held-out=0.2 --to=E/varied
    python -m experiments.studies.emoji_captions compare E/store hf:DIR runs/clip
    python -m experiments.studies.emoji_captions folds D/images.zip E/emoji.jsonl \
        E/folds
    python -m experiments.studies.emoji_captions captions D/captions.jsonl E/all.jsonl \
        en,de,zh,ja
    palimpsest images --pictures=D/images.zip --captions=E/all.jsonl \
        --group-column=group --held-out=0.2 --size=24 --to=E/all
    python -m experiments.studies.emoji_captions pivot E/all runs/clip

The first command reads lines with `image`, `name_LANGUAGE` and `keywords_en`. Variants
of one emoji (man, woman and person, hair, skin, the hours of a clock) have one group,
so that none of them is in both splits. `vary` adds to each picture for training seven
that are moved, scaled and mirrored by chance, with some of the keywords in any order;
those that are held out stay as they are. `folds` holds out every pair once. `compare`
predicts tf-idf of the captions, the vectors of the model, and both, in each language by
itself: by ridge regression of means of colours, by that of what the pictures' tower of
CLIP reads (model.feature_layers=gradients), and by a Gaussian kernel of the latter. It
prints R@k of each, and of runs of CLIP in the mean; `more` is how much more the runs
have, with an interval over groups. `pivot` ranks the captions of one language for those
of another: by the vectors of both, and by that of the picture which is nearest to the
caption; without a run those of ridge regression.
"""

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
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge

from research.data.read.picture_sources import open_source
from research.data.read.pictures import Columns, decode_picture, read_rows
from research.data.store.pictures import open_store, split_rows, write_rows
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
SIDES = ("image_to_text", "text_to_image")
VARIANTS, SHIFT = 8, 6
"""Pictures of one for training, and the pixels that one is moved by at most."""
FOLDS = 5


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
        for line in source.read_text("utf-8").splitlines():
            row = json.loads(line)
            words = {"en": row["keywords_en"]}
            captions = [
                ", ".join([row[f"name_{language}"], *words.get(language, ())])
                for language in languages.split(",")
            ]
            made = {"file": row["image"], "caption": captions}
            made["group"] = group_of(row["name_en"])
            file.write(json.dumps(made, ensure_ascii=False) + "\n")


def write_variants(source: str, captions: str, to: str, held_out: float = 0.2) -> None:
    """The pictures and captions of both splits, those for training `VARIANTS` times.

    With `held_out` 0 all are for training.
    """
    rng, folder, pictures = random.Random(0), Path(to), open_source(Path(source))
    folder.mkdir(parents=True, exist_ok=True)
    rows = read_rows(Path(captions), Columns(group="group"))
    splits = split_rows(rows, held_out) if held_out else (rows, [])
    with (folder / "captions.jsonl").open("w", encoding="utf-8") as file:
        for count, split in zip((VARIANTS, 1), splits, strict=True):
            for row, number in itertools.product(split, range(count)):
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


def write_folds(source: str, captions: str, to: str) -> None:
    """A store of all pictures in all variants, and its captions by folds of groups.

    Fold n trains on n/train.captioned, and n/valid.captioned, whose pictures are as
    they are, is held out. To choose settings, n/inner has the same without these: the
    next fold is its validation, the other three are for training.
    """
    folder = Path(to)
    write_variants(source, captions, f"{to}/pictures", 0)
    rows = read_rows(folder / "pictures/captions.jsonl", Columns(group="group"))
    (folder / "store").mkdir()
    pictures = open_source(folder / "pictures")
    stored = write_rows(folder / "store", pictures, rows, size=(72, 72))
    fold = fold_of(Counter(row.group for row in rows))
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


def compare(folder: str, model: str, *workdirs: str) -> dict[str, dict[str, Any]]:
    """Language -> what is ranked by -> R@k; of regressions also what CLIP has more."""
    every = {split: rows_of(folder, split) for split in SPLITS}
    count = len(every["valid"]) // len({row["image"] for row in every["valid"]})
    names = [group_of(row["text"].partition(", ")[0]) for row in every["valid"]]
    groups = np.unique(names[::count], return_inverse=True)[1]
    return {
        language: _compare(
            folder,
            {split: rows[n::count] for split, rows in every.items()},
            groups,
            model,
            workdirs,
        )
        for n, language in enumerate(LANGUAGES[:count])
    }


def _compare(
    folder: str,
    rows: dict[str, list[dict]],
    groups: np.ndarray,
    model: str,
    workdirs: Sequence[str],
) -> dict[str, Any]:
    """`compare` of one caption of each picture; groups [B] are of those held out."""
    runs = [_hits(*_of_run(workdir, folder, rows["valid"])) for workdir in workdirs]
    found = {each: _by_side(hits) for each, hits in zip(workdirs, runs, strict=True)}
    if runs:
        found["CLIP"] = _by_side(np.mean(runs, axis=0))
    for name, vectors in _regressions(folder, rows, model):
        hits = _hits(*vectors)
        found[name] = _by_side(hits)
        if runs:
            found[name]["more"] = _interval(np.mean(runs, axis=0) - hits, groups)
    return found


def _of_run(
    workdir: str, folder: str, rows: list[dict]
) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of the pictures and of the captions of rows, by a run."""
    from research.use.inference.open_run import open_run

    opened = open_run(workdir, images=folder)
    image = opened.encode_stored([row["image"] for row in rows])
    return image, opened.encode([row["text"] for row in rows])


def _regressions(
    folder: str, rows: dict[str, list[dict]], model: str
) -> Iterator[tuple[str, tuple]]:
    """Names, and predictions of the held-out pictures with the truth.

    Blocks of pictures and of targets have variance 1 each; strengths are 1.
    """
    from research.use.inference.open_run import open_run

    store = open_store(folder)
    pixels = [store.pixels[[row["image"] for row in rows[split]]] for split in SPLITS]
    colours = _scaled(tuple(map(means, pixels)))
    angles = _scaled(tuple(map(gradients, pixels)))
    pictures = tuple(np.hstack(each) for each in zip(colours, angles, strict=True))
    texts = {split: [row["text"] for row in rows[split]] for split in SPLITS}
    opened = open_run(model)
    targets = {
        "words": _scaled(_tfidf(texts)),
        "letters": _scaled(_tfidf(texts, **LETTERS)),
        "vectors": _scaled(tuple(opened.encode(texts[split]) for split in SPLITS)),
    }
    both = zip(targets["words"], targets["vectors"], strict=True)
    targets["words and vectors"] = tuple(np.hstack(each) for each in both)
    kernel = KernelRidge(alpha=1.0, kernel="rbf", gamma=1.0)
    for target, (known, given) in targets.items():
        for name, (fitted, held_out), predictor in (
            ("ridge of colours", colours, Ridge(fit_intercept=False)),
            ("ridge", pictures, Ridge(fit_intercept=False)),
            ("kernel ridge", pictures, kernel),
        ):
            image = predictor.fit(fitted, known).predict(held_out)
            yield f"{name}, to {target}", (image, given)


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
    lines = (Path(folder) / f"{split}.captioned").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def _tfidf(texts: dict[str, list[str]], **options) -> tuple[np.ndarray, np.ndarray]:
    tfidf = TfidfVectorizer(sublinear_tf=True, **options).fit(texts["train"])
    known, given = (tfidf.transform(texts[split]).toarray() for split in SPLITS)
    return known, given


def _scaled(target: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, ...]:
    """Both splits less the mean of the first, whose variance is then 1 in all."""
    mean = target[0].mean(axis=0)
    deviation = np.sqrt(((target[0] - mean) ** 2).sum(axis=1).mean())
    return tuple((each - mean) / deviation for each in target)


def _regress(
    folder: str, known: np.ndarray, given: np.ndarray, alpha: float
) -> tuple[np.ndarray, np.ndarray]:
    """Predictions for held-out pictures by means of 12 x 12 cells, and the truth."""
    store = open_store(folder)
    pictures, held_out = (
        means(store.pixels[[row["image"] for row in rows_of(folder, split)]])
        for split in SPLITS
    )
    mean, target_mean = pictures.mean(axis=0), known.mean(axis=0)
    model = Ridge(alpha=alpha, fit_intercept=False)
    model.fit(pictures - mean, known - target_mean)
    image = model.predict(held_out - mean)
    return image, given - target_mean


def _hits(image: np.ndarray, text: np.ndarray) -> np.ndarray:
    """[B, 2, 3]: whether the caption of a picture, and its picture, are in R@k."""
    count = len(image)
    ranks = pair_ranks(image, text, np.arange(count), np.ones(count))
    return (ranks[..., None] <= AT).astype(float)


def _by_side(hits: np.ndarray) -> dict[str, Any]:
    return {side: hits[:, n].mean(axis=0).tolist() for n, side in enumerate(SIDES)}


def _interval(more: np.ndarray, groups: np.ndarray) -> dict[str, list]:
    """Side -> of each k the mean of [B], and a 95 % bootstrap interval over groups."""
    rng, count = np.random.default_rng(0), groups.max() + 1
    drawn = rng.multinomial(count, np.full(count, 1 / count), size=10_000)[:, groups]
    means = np.tensordot(drawn, more, 1) / drawn.sum(axis=1)[:, None, None]
    every = [more.mean(axis=0), *np.quantile(means, (0.025, 0.975), axis=0)]
    return {
        side: np.stack(every, axis=-1)[n].round(3).tolist()
        for n, side in enumerate(SIDES)
    }


def pivot(folder: str, workdir: str = "") -> dict[str, dict[str, list[float]]]:
    """Languages, such as en-de -> R@1, 5 and 10: direct, and by a picture.

    Captions of a picture are as many, in one order, that of `LANGUAGES`.
    """
    texts = {split: [row["text"] for row in rows_of(folder, split)] for split in SPLITS}
    numbers = [row["image"] for row in rows_of(folder, "valid")][:: len(LANGUAGES)]
    if workdir:
        from research.use.inference.open_run import open_run

        opened = open_run(workdir)
        image, text = opened.encode_stored(numbers), opened.encode(texts["valid"])
    else:
        both = _tfidf(texts, **LETTERS)
        image, text = _regress(folder, *both, 100.0)
        image = image[:: len(LANGUAGES)]
    return pivots(image, text.reshape(len(numbers), len(LANGUAGES), -1))


def pivots(image: np.ndarray, text: np.ndarray) -> dict[str, dict[str, list[float]]]:
    """`pivot` of vectors of pictures [N, J] and of captions [N, languages, J]."""
    number, ones = np.arange(len(image)), np.ones(len(image))
    found = {}
    for first, second in itertools.permutations(range(len(LANGUAGES)), 2):
        query, candidate = text[:, first], text[:, second]
        cosine = unit(query) @ unit(image).T
        queries = {"direct": query, "pivot": image[cosine.argmax(axis=1)]}
        found[f"{LANGUAGES[first]}-{LANGUAGES[second]}"] = {
            name: [
                float((pair_ranks(each, candidate, number, ones)[:, 0] <= k).mean())
                for k in AT
            ]
            for name, each in queries.items()
        }
    return found


def unit(vectors: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(length, 1e-12)


if __name__ == "__main__":
    command, *paths = sys.argv[1:]
    if command == "folds":
        write_folds(*paths)
    elif command == "captions":
        write_captions(*map(Path, paths[:2]), *paths[2:])
    elif command == "vary":
        write_variants(*paths)
    else:
        made = {"compare": compare, "pivot": pivot}[command](*paths)
        print(json.dumps(made, indent=1))

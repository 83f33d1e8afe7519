"""Metrics of libraries, on cases whose values are known."""

import math

import pytest

from research.contract.notices import report
from research.metrics import Item, chrf, measure, notes


def items(predictions, golds):
    """Items of which no metric reads the score."""
    pairs = enumerate(zip(predictions, golds, strict=True))
    return [Item(str(number), *pair, None) for number, pair in pairs]


def of_classes(predictions, golds, labels):
    pairs = zip(predictions, golds, strict=True)
    found = [Item("", *pair, float(pair[0] == pair[1])) for pair in pairs]
    return measure("class", found, labels)


def test_two_classes_have_the_f1_of_the_second():
    scores = of_classes("1100", "1010", ("0", "1"))
    assert scores.items() >= {"accuracy": 0.5, "f1": 0.5, "matthews": 0.0}.items()
    scores = of_classes("1111", "1110", ("0", "1"))
    assert scores["f1"] == pytest.approx(6 / 7) and scores["matthews"] == 0
    scores = of_classes("abc", "abb", ("a", "b", "c"))
    assert scores["f1"] == pytest.approx((1 + 2 / 3 + 0) / 3)


def test_a_class_that_training_lacks_is_never_right():
    scores = of_classes("1100", "101c", ("0", "1"))
    assert scores["accuracy"] == 0.25 and scores["f1"] == 0.5
    scores = of_classes("abc", "abd", ("a", "b", "c"))
    assert scores["f1"] == pytest.approx((1 + 1 + 0 + 0) / 4)
    found = items([["a"], ["b"]], [["a", "new"], ["b"]])
    scores = measure("set", found, ["a", "b"])
    assert scores["exact"] == 0.5 and scores["f1_macro"] == pytest.approx(2 / 3)


def test_correlations_of_constants_are_left_out():
    scores = measure("number", items([1, 1, 1], [1, 2, 3]), ())
    assert scores["mean_squared_error"] == pytest.approx(5 / 3)
    assert scores["mean_absolute_error"] == 1
    assert not {"pearson", "spearman"} & scores.keys()
    scores = measure("number", items([1, 2, 9], [1, 2, 3]), ())
    assert scores["spearman"] == pytest.approx(1) and scores["pearson"] < 1


def test_chunks_are_counted_as_conlleval_does():
    # An I- after O begins a chunk; a chunk is right if type and both ends are.
    golds = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "I-LOC"]]
    found = [["I-PER", "I-PER", "O", "B-PER"], ["O", "B-LOC"]]
    scores = measure("tags", items(found, golds), ())
    assert scores["precision"] == scores["recall"] == pytest.approx(2 / 3)
    assert scores["word_accuracy"] == pytest.approx(3 / 6)
    scores = measure("tags", items([["NOUN"]], [["VERB"]]), ())
    assert scores["word_accuracy"] == 0 and "f1" not in scores


@pytest.mark.filterwarnings("error")
def test_the_correlation_of_one_tag_alone_is_0_of_the_words_that_are_read():
    """Of a text that is cut, the words beyond have no tag that the network gave."""
    golds = [["N", "V", "N"], ["O", "N", "N"]]
    one_tag = items([["N", "N", "N"], ["N", "N", "O"]], golds)
    assert measure("tags", one_tag, ())["matthews"] < 0
    read = {"probabilities": [1, 1, None]}
    one_tag[1] = one_tag[1]._replace(details=read)
    assert measure("tags", one_tag, ())["matthews"] == 0
    right = [item._replace(prediction=item.gold) for item in one_tag]
    assert measure("tags", right, ())["matthews"] == 1
    unread = [one_tag[0]._replace(details={"probabilities": [None] * 3})]
    assert measure("tags", unread, ())["matthews"] == 0


ONE_OF_TWO = {"precision": 1 / 2, "recall": 1 / 2, "f1": 1 / 2}
NONE = {"precision": 0, "recall": 0, "f1": 0}
ALL = {"precision": 1, "recall": 1, "f1": 1}


@pytest.mark.parametrize(
    ("predicted", "right", "expected"),
    [
        # BILOU (spaCy, AllenNLP, flair): two single words are not one of two words.
        ("U-PER U-PER O", "B-PER L-PER O", NONE),
        ("B-PER L-PER U-LOC", "B-PER L-PER U-PER", ONE_OF_TWO),
        ("U-PER O U-PER", "U-PER O U-PER", ALL),
        (
            "U-PER U-PER U-LOC",
            "U-PER O U-LOC",
            {**ALL, "precision": 2 / 3, "f1": 4 / 5},
        ),
        # IOBES: a chunk that does not end is none (flairNLP/flair #206).
        (
            "B-PER I-PER S-PER",
            "B-PER E-PER S-PER",
            {"precision": 1, "recall": 1 / 2, "f1": 2 / 3},
        ),
        (
            "B-PER E-LOC S-PER",
            "B-PER E-PER S-PER",
            {"precision": 1, "recall": 1 / 2, "f1": 2 / 3},
        ),
        # BMES, of names and of the words of Chinese.
        ("B-PER M-PER E-PER", "B-PER M-PER E-PER", ALL),
        (
            "B E S B M E",
            "B E B E B E",
            {"precision": 1 / 3, "recall": 1 / 3, "f1": 1 / 3},
        ),
        # Suffixes, other separators, no types.
        ("PER-B PER-I O PER-B", "PER-B PER-I O LOC-B", ONE_OF_TWO),
        ("B_PER I_PER O B_PER", "B_PER I_PER O B_LOC", ONE_OF_TWO),
        ("B I O B", "B I O O", {"precision": 1 / 2, "recall": 1, "f1": 2 / 3}),
        # A type with a dash, IOE, and types that differ within a chunk.
        ("B-a-b I-a-b O B-a-b", "B-a-b I-a-b O B-a-c", ONE_OF_TWO),
        ("I-PER E-PER O E-LOC", "I-PER E-PER O E-PER", ONE_OF_TWO),
        (
            "B-PER I-LOC O B-PER",
            "B-PER I-PER O B-PER",
            {"precision": 1 / 3, "recall": 1 / 2, "f1": 2 / 5},
        ),
        # No chunk is right; no tags of chunks.
        ("B-PER O O", "O O O", {}),
        ("N V B-x", "N V N", {}),
    ],
)
@pytest.mark.filterwarnings("error")
def test_chunks_of_each_scheme(predicted, right, expected):
    found = measure("tags", items([predicted.split()], [right.split()]), ())
    del found["word_accuracy"], found["matthews"]
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("tags", "is_told"),
    [
        ("B-PER X-PER", True),
        ("B-PER I-PER PER-B", True),
        ("I-PER M-PER", True),
        ("NOUN VERB", False),
    ],
)
def test_tags_of_no_scheme_are_told(tags, is_told, capsys):
    report.cache_clear()
    pair = items([tags.split()], [tags.split()])
    for _ in range(2):
        assert measure("tags", pair, ()) == {"word_accuracy": 1, "matthews": 1}
    assert capsys.readouterr().err.count("no F1 of chunks: tags such as") == is_told


@pytest.mark.parametrize(
    ("text", "tokenizer"),
    [
        ("the old mill on the river burned", "English"),
        ("2024 10 11 12 13", "English"),
        ("старая мельница на реке сгорела", ""),
        ("नदी पर पुरानी चक्की जल गई", ""),
        ("طاحونة قديمة على النهر احترقت", ""),
        ("die Mühle am Fluß ist gestern abgebrannt", ""),
        ("강 위의 오래된 방앗간이 불탔다", ""),
        ("河边的旧磨坊昨天被烧毁了。", "zh"),
        ("川のほとりの古い水車小屋が焼けた", "char"),
        ("โรงสีเก่าริมแม่น้ำถูกไฟไหม้", "char"),
    ],
)
def test_a_right_text_of_any_script_has_the_best_scores(text, tokenizer):
    found = items([text], [text])
    best = dict.fromkeys(("bleu", "chrf"), 100)
    best |= dict.fromkeys(("rouge1", "rouge2", "rougeL", "exact_match"), 1)
    scores = measure("text", found, ())
    assert {name: scores[name] for name in best} == pytest.approx(best)
    told = notes("text", found)
    assert ("rouge1" in told) == (tokenizer != "English")
    assert told.get("bleu", "").endswith(tokenizer.replace("English", ""))
    assert ("bleu" in told) == (tokenizer in ("zh", "char"))


def test_a_text_without_words_has_no_rouge():
    scores = measure("text", items(["!"], ["! ?"]), ())
    assert "bleu" in scores and not any("rouge" in name for name in scores)


@pytest.mark.parametrize(
    ("found", "right", "rouge1"),
    [
        ("die Mähle am Fluß", "die Mühle am Fluß", 3 / 4),
        ("e\u0301cole", "école", 1),  # the letter in two code points
        ("हिन्दी में", "हिन्दी है", 1 / 2),
        ("在河", "在山", 1 / 2),
        ("Река", "река", 1),
    ],
)
def test_words_of_any_script(found, right, rouge1):
    scores = measure("text", items([found], [right]), ())
    assert scores["rouge1"] == pytest.approx(rouge1)


def test_a_name_in_other_letters_leaves_english_text_to_rouge_score():
    right = ["the mills of Zoë " + "burned down yesterday " * 30]
    assert not notes("text", items([""], right))


def test_ranks_of_one_right_text():
    """Half ranks are those of ties; beyond rank 10 the gain is 0."""
    found = measure(
        "text_retrieval", items([[1], [2], [2], [5.5], [11]], [[1.0]] * 5), ()
    )
    expected = {"recall_1": 0.2, "recall_5": 0.6, "recall_10": 0.8}
    expected["mrr"] = (1 + 1 / 2 + 1 / 2 + 2 / 11 + 1 / 11) / 5
    expected["ndcg_10"] = (1 + 2 / math.log2(3) + 1 / math.log2(6.5)) / 5
    assert found == pytest.approx(expected)


def test_sets_of_one_class_are_scored_by_that_class():
    """And not by the rows that lack it, which are none of a class of their own."""
    found = items([[], [], [], ["a"]], [["a"], [], [], []])
    scores = measure("set", found, ["a"])
    assert {"f1_micro": 0, "f1_macro": 0, "exact": 0.5}.items() <= scores.items()


def test_sets_of_labels():
    found = items([["a"], ["a", "b"]], [["a"], ["b"]])
    scores = measure("set", found, ["a", "b"])
    assert scores["exact"] == 0.5
    assert scores["f1_micro"] == pytest.approx(2 * 2 / (3 + 2))


def test_texts_have_the_scores_of_the_libraries():
    found = ["the cat sat on the mat", "a dog", ""]
    right = ["the cat sat on the mat", "the dogs ran", "x"]
    scores = measure("text", items(found, right), ())
    assert scores["exact_match"] == pytest.approx(1 / 3)
    # "dog" and "dogs" have one stem; of the second text 1 of 2 and of 3 words, so 2/5.
    assert scores["rouge1"] == pytest.approx((1 + 2 / 5) / 3)
    assert scores["rouge2"] == pytest.approx(1 / 3)
    # Of 8 words 7 are right, of 6 pairs 5, 4 of 4 triples, 3 of 3; 8 words for 10.
    precision = (6 / 8 * 5 / 6 * 4 / 4 * 3 / 3) ** 0.25
    assert scores["bleu"] == pytest.approx(100 * precision * math.exp(1 - 10 / 8))
    assert chrf.of_one_text("abc", "abc") == 1 and chrf.of_one_text("abc", "xyz") == 0

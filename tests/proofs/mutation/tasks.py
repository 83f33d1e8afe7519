"""Tasks: their files, the parts of their examples, their predictions and metrics."""

from tests.proofs.mutation import Mutant

ROWS = "research/data/corpora/row_formats.py"
FORMATS = "research/data/corpora/task_formats.py"
TASK_INPUT = "research/objectives/inputs/task_input.py"
PREDICTIONS = "research/evaluation/predictions.py"
TEST_FILES = "tests/data/corpora/test_task_files.py"
TEST_PARTS = "tests/data/store/test_parts.py"
TEST_SPLITS = "tests/data/loading/test_splits.py"
TEST_INPUT = "tests/objectives/inputs/test_task_input.py"
TEST_PREDICTIONS = "tests/evaluation/test_predictions.py"

MUTANTS = [
    Mutant(
        "a byte order mark is part of the first column's name",
        ROWS,
        '"utf-8-sig" if number == 1 else "utf-8"',
        '"utf-8"',
        TEST_FILES,
        "pairs_are_read",
    ),
    Mutant(
        "a row with a blank field is dropped silently",
        ROWS,
        "            blank.append(number)\n",
        "",
        TEST_FILES,
        "blank_field_are_counted",
    ),
    Mutant(
        "a row that is too short or long is read",
        ROWS,
        "if len(row) != len(header):",
        "if False:",
        TEST_FILES,
        "wrong_file_gives_one_line",
    ),
    Mutant(
        "multiword tokens of CoNLL-U are words",
        FORMATS,
        "if columns[0].isdigit():",
        'if columns[0] != "_":',
        TEST_FILES,
        "words_have_tags",
    ),
    Mutant(
        "an answer that is not at its offset is trained on",
        FORMATS,
        'if not first["text"] or context[begin:end] != first["text"]:',
        'if not first["text"]:',
        TEST_FILES,
        "answers_are_characters",
    ),
    Mutant(
        "files of one split are divided by hash",
        "research/data/corpora/files.py",
        "return held_out is None or (",
        "return (held_out := held_out or 0.1) and (",
        TEST_FILES,
        "all_of_their_split",
    ),
    Mutant(
        "a label that the training text does not have is a class",
        "research/data/loading/labels.py",
        "elif split:",
        "elif False:",
        TEST_SPLITS,
        "wrong_splits_and_labels",
    ),
    Mutant(
        "training files without evaluation files are evaluated on data.corpus",
        "research/data/loading/build.py",
        "if trained and not named:",
        "if False:",
        TEST_SPLITS,
        "wrong_splits_and_labels",
    ),
    Mutant(
        "a pair loses tokens of its second part alone",
        "research/data/store/text_units.py",
        "start, one - lost_one, label, second, two - lost_two, total, truncated=lost",
        "start, one, label, second, two - lost_one - lost_two, total, truncated=lost",
        TEST_PARTS,
        "first_part_and_the_others",
    ),
    Mutant(
        "the last window over a context lacks its end",
        "research/data/store/text_units.py",
        "windows = 1 + -(-np.maximum(two - room, 0) // step)",
        "windows = 1 + np.maximum(two - room, 0) // step",
        TEST_PARTS,
        "windows_cover",
    ),
    Mutant(
        "every token of a text is one character",
        "research/data/tokenizers/token_offsets.py",
        "    size = vocabulary.piece_characters[encoded.token]\n",
        "    size = vocabulary.piece_characters[encoded.token] * 0 + 1\n",
        TEST_PARTS,
        "windows_cover or offsets_are_those",
    ),
    Mutant(
        "a tag is at the last part's token in place of its own",
        "research/data/store/annotations.py",
        "tags[starts] = [",
        "tags[starts[::-1]] = [",
        TEST_PARTS,
        "a_tag_is_at",
    ),
    Mutant(
        "GPT's delimiter is its extract token",
        TASK_INPUT,
        "text.token[row[both], start[both] - 1] = vocab.mask_id",
        "text.token[row[both], start[both] - 1] = vocab.eos_id",
        TEST_INPUT,
        "laid_out_as_in",
    ),
    Mutant(
        "BART's decoder reads the token whose state it classifies",
        TASK_INPUT,
        "source = np.where(position == 0, text.length[:, None], position) - 1",
        "source = position[None] + 0 * text.length[:, None]",
        TEST_INPUT,
        "one_token_later",
    ),
    Mutant(
        "a choice attends to the others",
        "research/objectives/multiple_choice.py",
        'arrays["segment"] *= n + 1',
        'arrays["segment"] *= 1',
        "tests/objectives/test_multiple_choice.py",
        "each_choice_is_a_segment",
    ),
    Mutant(
        "a window with half of the answer has that as its target",
        "research/objectives/question_answering.py",
        "whole = (found[0] & found[1])[:, None]",
        "whole = (found[0] | found[1])[:, None]",
        "tests/objectives/test_question_answering.py",
        "answers_tokens",
    ),
    Mutant(
        "labels of a regression are not scaled",
        "research/objectives/sequence_classification.py",
        'batch["label"] / self.label_scale',
        'batch["label"]',
        "tests/objectives/test_sequence_classification.py",
        "squared_error_of_scaled",
    ),
    Mutant(
        "predictions are those of the next document",
        PREDICTIONS,
        "each = range(number + begin, number + end)",
        "each = range(number + begin + 1, number + end + 1)",
        TEST_PREDICTIONS,
        "oracle_has_every_item_right",
    ),
    Mutant(
        "words past the row are left out of the score",
        PREDICTIONS,
        'prediction += ["O"] * (len(gold) - len(prediction))',
        "gold = gold[: len(prediction)]",
        TEST_PREDICTIONS,
        "words_past_the_row",
    ),
    Mutant(
        "a start counts in every window that has it",
        "research/evaluation/answer_spans.py",
        "if _window_of(windows, window.first + start) != number:",
        "if False:",
        "tests/evaluation/test_answer_spans.py",
        "exhaustive_search",
    ),
    Mutant(
        "articles are removed before punctuation",
        "research/evaluation/squad.py",
        '_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION))',
        '_ARTICLES.sub(" ", answer.lower()).translate(_PUNCTUATION)',
        "tests/evaluation/test_squad.py",
        "normalisation_and_f1",
    ),
    Mutant(
        "an answer without words is right in version 1.1",
        "research/evaluation/squad.py",
        "if no_answers and not (found and right):",
        "if not (found and right):",
        "tests/evaluation/test_squad.py",
        "versions_differ",
    ),
]

"""Mutants of packed rows: which documents share a row, and how examples are joined."""

from tests.proofs.mutation import Mutant

DOCUMENTS = "research/data/rows/packing/documents.py"
ROWS = "research/objectives/combined/packed_rows.py"
JOINED = "research/objectives/combined/joined_pieces.py"
LAYOUT = "research/objectives/combined/packed_layout.py"
TEST_DOCUMENTS = "tests/data/rows/test_packed_documents.py"
TEST_LAYOUT = "tests/objectives/combined/test_packed_layout.py"
TEST_ROWS = "tests/objectives/combined/test_packed_rows.py"

MUTANTS = [
    Mutant(
        "the end of a packed document is not learned by fill in the middle",
        "research/objectives/lm/fim.py",
        "reads_separators = True",
        "reads_separators = False",
        "tests/objectives/test_fim.py",
        "packed",
    ),
    Mutant(
        "a separator is moved with the end of the suffix",
        "research/objectives/lm/fim.py",
        "size = length_B1 - ((last == vocab.eos_id) & (length_B1 > 0))",
        "size = length_B1",
        "tests/objectives/test_fim.py",
        "prefix_middle_and_suffix",
    ),
    Mutant(
        "a packed piece goes into the emptiest row that has room",
        DOCUMENTS,
        "for room in range(each, capacity + 1):",
        "for room in range(capacity, each - 1, -1):",
        TEST_DOCUMENTS,
        "best_fit",
    ),
    Mutant(
        "packing begins with the shortest piece",
        DOCUMENTS,
        "zip(sizes[::-1].tolist(), counts[::-1].tolist(), strict=True)",
        "zip(sizes.tolist(), counts.tolist(), strict=True)",
        TEST_DOCUMENTS,
        "best_fit",
    ),
    Mutant(
        "a document that fills a row is cut",
        DOCUMENTS,
        "count = -(-text // length)",
        "count = text // length + 1",
        TEST_DOCUMENTS,
        "each_token",
    ),
    Mutant(
        "the separator after a packed document is lost",
        DOCUMENTS,
        "length = size + stream.separator_length * (start + size == text_end)",
        "length = size",
        TEST_DOCUMENTS,
        "each_token",
    ),
    Mutant(
        "short pieces take as many columns as they have tokens and specials",
        "research/contract/batch.py",
        "np.maximum(np.add(num_raw, PIECE_SPECIALS), MIN_PIECE_COLUMNS)",
        "np.add(num_raw, PIECE_SPECIALS)",
        TEST_LAYOUT,
        "little_more_room",
    ),
    Mutant(
        "pieces of a row have one segment",
        JOINED,
        "np.where(array[:-1] > 0, offset, 0)",
        "0 * offset",
        TEST_ROWS,
        "arrays",
    ),
    Mutant(
        "pieces of a row have one key",
        ROWS,
        "keys[row, number])",
        "keys[row, 0 * number])",
        TEST_ROWS,
        "arrays",
    ),
    Mutant(
        "a separator stays before the eos of a packed piece",
        ROWS,
        "    if not separators:\n",
        "    if separators:\n",
        TEST_ROWS,
        "arrays",
    ),
    Mutant(
        "indices of scored positions stay as they are in the piece",
        JOINED,
        "column[begin[piece] + array[source]]",
        "array[source]",
        TEST_ROWS,
        "arrays",
    ),
    Mutant(
        "a piece that has more positions than its length is lost",
        ROWS,
        "todo = np.concatenate(too_long)",
        "todo = todo[:0]",
        TEST_LAYOUT,
        "fits",
    ),
    Mutant(
        "packed arrays have room for one long piece alone",
        LAYOUT,
        "return int(most[-1])",
        "return int(size[-1])",
        TEST_LAYOUT,
        "fits",
    ),
    Mutant(
        "packing moves the queries of permuted LM among the keys",
        JOINED,
        "self._moves((segment > 0) & ~key, begin, first_query)",
        "self._moves((segment > 0) & ~key, begin, 0)",
        TEST_ROWS,
        "arrays or sums",
    ),
    Mutant(
        "packed rows are read with mems",
        LAYOUT,
        "    if spec.contiguous:\n",
        "    if False:\n",
        TEST_LAYOUT,
        "refused",
    ),
    Mutant(
        "saved batches of one corpus are divided into batches of two",
        "research/data/source/saved_batches.py",
        'elif config.data.mixing == "batches":',
        "elif False:",
        "tests/data/source/test_saved_batches.py",
        "keeps_its_rows",
    ),
    Mutant(
        "saved steps are divided into more, so that schedules run at another speed",
        "research/data/source/saved_batches.py",
        "elif objective.reads_step:",
        "elif False:",
        "tests/data/source/test_saved_batches.py",
        "keeps_its_rows",
    ),
    Mutant(
        "a mixture with a schedule does not say that its rows depend on the step",
        "research/objectives/combined/composite.py",
        "return any(map(varies, self.schedules.values())) or super().reads_step",
        "return super().reads_step",
        "tests/objectives/test_mix.py",
        "reads_the_step",
    ),
    Mutant(
        "saved batches that are not packed are read as packed ones",
        "research/data/source/saved_batches.py",
        '    "packing",\n',
        "",
        "tests/data/source/test_saved_batches.py",
        "error_names",
    ),
    Mutant(
        "data.packing has no effect on a seqio task of the user's",
        "research/data/seqio/open_tasks.py",
        '    "packing": "none",\n',
        "",
        "tests/data/seqio/test_task_source.py",
        "are_refused",
    ),
]

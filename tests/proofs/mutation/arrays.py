"""Arrays beside text: those of documents are their own, and stay whole."""

from tests.proofs.mutation import Mutant

STREAM = "research/data/store/stream.py"
TEST_ARRAYS = "tests/data/store/test_arrays.py"

MUTANTS = [
    Mutant(
        "a document's array is looked up in the shard of the token of that number",
        STREAM,
        "self._take(files, document_B, self._first_documents)",
        "self._take(files, document_B, self.shard_offsets)",
        TEST_ARRAYS,
        "array_of_its_first_document",
    ),
    Mutant(
        "a row has the array of the document that its text ends in",
        STREAM,
        "document_B = _last_at(self.document_offsets[:-1], position_BR[:, 0])",
        "document_B = _last_at(self.document_offsets[:-1], position_BR[:, -1])",
        TEST_ARRAYS,
        "array_of_its_first_document",
    ),
    Mutant(
        "packed rows read the array of their first document alone",
        "research/data/loading/build.py",
        "if text_spec.has_pieces and types.pop().stored.shape:",
        "if not text_spec.has_pieces and types.pop().stored.shape:",
        TEST_ARRAYS,
        "array_of_its_first_document",
    ),
    Mutant(
        "a part of a joint objective cuts the arrays of documents to its text",
        "research/objectives/inputs/shared_input.py",
        "if array.ndim == 2 else array",
        "if array.ndim else array",
        "tests/objectives/inputs/test_shared_input.py",
        "texts_of_one_unit",
    ),
]

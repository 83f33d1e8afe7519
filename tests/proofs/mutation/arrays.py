"""Arrays beside text: those of documents are their own, and stay whole; vectors that a
network reads beside tokens."""

from tests.proofs.mutation import Mutant

STREAM = "research/data/store/stream.py"
TEST_ARRAYS = "tests/data/store/test_arrays.py"
EMBEDDINGS = "research/networks/transformer/input_embeddings.py"
TEST_NETWORK = "tests/laws/test_network.py"

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
        "research/data/source/build.py",
        "if text_spec.has_pieces and found.stored.shape:",
        "if not text_spec.has_pieces and found.stored.shape:",
        TEST_ARRAYS,
        "array_of_its_first_document",
    ),
    Mutant(
        "an array of another type than the objective reads is accepted",
        "research/data/source/build.py",
        "if found.stored != expected.get(name, found).stored:",
        "if False:",
        "tests/launch/test_image_array.py",
        "another_type",
    ),
    Mutant(
        "the vectors beside tokens are not read",
        EMBEDDINGS,
        "if FEATURE in group:",
        "if False:",
        TEST_NETWORK,
        "reads_the_vectors",
    ),
    Mutant(
        "a position without a vector is changed by those that have one",
        EMBEDDINGS,
        "bias=False, name=FEATURE",
        "bias=True, name=FEATURE",
        TEST_NETWORK,
        "reads_the_vectors",
    ),
    Mutant(
        "a network that reads no vectors trains objectives that need them",
        "research/networks/shared/needs.py",
        "Ability.INPUT_FEATURES: self.input_features > 0",
        "Ability.INPUT_FEATURES: False",
        TEST_NETWORK,
        "each_ability_is_served",
    ),
    Mutant(
        "batches of random tokens have numbers of tokens for an image's regions",
        "launch/measure/random_batch.py",
        "for name in arrays.keys() & types.keys()",
        "for name in ()",
        "tests/launch/commands/test_speed.py",
        "images",
    ),
    Mutant(
        "a part of a joint objective cuts the arrays of documents to its text",
        "research/objectives/combined/shared_input.py",
        "if array.ndim == 2 else array",
        "if array.ndim else array",
        "tests/objectives/combined/test_shared_input.py",
        "texts_of_one_unit",
    ),
]

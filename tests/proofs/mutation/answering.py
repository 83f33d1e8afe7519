"""Mutants of retrieval, of answers from passages, and of the server."""

from tests.proofs.mutation import Mutant

PASSAGES = "research/retrieval/passages.py"
TEST_PASSAGES = "tests/retrieval/test_passages.py"
TEST_SEARCH = "tests/retrieval/test_search.py"
TEST_BOT = "tests/inference/test_bot.py"
TEST_SERVE = "tests/launch/test_serve.py"
HTTP, WORKER = "launch/serving/http.py", "launch/serving/worker.py"

MUTANTS = [
    Mutant(
        "characters of a passage count from its text before it is stripped",
        PASSAGES,
        "start += len(whole) - len(whole.lstrip())",
        "start += 0",
        TEST_PASSAGES,
        "slices_that_cover",
    ),
    Mutant(
        "Chinese is found by whole runs of characters alone",
        PASSAGES,
        "found += [*word, *(word[n : n + 2] for n in range(len(word) - 1))]",
        "found.append(word)",
        TEST_PASSAGES,
        "neighbouring_characters",
    ),
    Mutant(
        "longer texts are not held down",
        "research/retrieval/bm25.py",
        "norm_N = K1 * (1 - B + B * length_N / mean)",
        "norm_N = K1 * (1 - B + B * length_N / length_N)",
        TEST_SEARCH,
        "of_the_definition",
    ),
    Mutant(
        "ranks that are fused begin at 0",
        "research/retrieval/search.py",
        "enumerate(ranking, 1)",
        "enumerate(ranking)",
        TEST_SEARCH,
        "reciprocal_ranks",
    ),
    Mutant(
        "passages that share no word are found by words",
        "research/retrieval/search.py",
        "depth, above=0.0))",
        "depth))",
        TEST_SEARCH,
        "own_scores",
    ),
    Mutant(
        "an answer is a span's score without that of no answer",
        "research/inference/span_reader.py",
        "margin = best.score - answer_spans.null_score(of_passage)",
        "margin = best.score",
        TEST_BOT,
        "best_span",
    ),
    Mutant(
        "rows have other widths than those that are compiled at the start",
        "research/inference/span_reader.py",
        "            arrays = self._predict([rows[n] for n in group], width)",
        "            arrays = self._predict([rows[n] for n in group], width - 1)",
        TEST_BOT,
        "compile_nothing",
    ),
    Mutant(
        "answers of a document count from the passage",
        "research/inference/bot.py",
        "at, text = passage.start, passage.text[start:end]",
        "at, text = 0, passage.text[start:end]",
        TEST_BOT,
        "compile_nothing",
    ),
    Mutant(
        "an exported reader has one separator between question and passage",
        "research/inference/open_run.py",
        "is_roberta = second - first > 2",
        "is_roberta = False",
        TEST_BOT,
        "export_read_alike",
    ),
    Mutant(
        "answers below the threshold are given",
        "research/inference/bot.py",
        "if each.score < self.threshold or len(kept) == top_k:",
        "if len(kept) == top_k:",
        TEST_BOT,
        "threshold",
    ),
    Mutant(
        "texts of other widths than the first are compiled when they are asked",
        "research/inference/language_model.py",
        "            if width not in widths:",
        "            if not widths:",
        TEST_BOT,
        "nothing_to_compile",
    ),
    Mutant(
        "a bug in one request ends the thread that answers all",
        WORKER,
        "except Exception as error:",
        "except KeyError as error:",
        TEST_SERVE,
        "slow_answer_and_a_bug",
    ),
    Mutant(
        "a server that is asked to end does not wait for its responses",
        HTTP,
        "daemon_threads = False",
        "daemon_threads = True",
        TEST_SERVE,
        "answers_first",
    ),
    Mutant(
        "a page of another site may ask without the browser's leave",
        HTTP,
        'if kind != "application/json":',
        'if kind == "":',
        TEST_SERVE,
        "another_site",
    ),
]

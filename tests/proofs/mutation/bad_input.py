"""What a user writes wrongly, accepted unseen or told by a traceback."""

from tests.proofs.mutation import Mutant

FIELDS = "research/fields.py"
JSON_FILES = "research/files/json_files.py"
USER_CODE = "launch/user_code.py"
CLAIM = "research/run/claim_file.py"
TEST_CONFIG = "tests/launch/test_config.py"
TEST_JSON = "tests/files/test_json_files.py"
TEST_USER_CODE = "tests/launch/test_user_code.py"
TEST_CLAIM = "tests/run/test_claim_file.py"

MUTANTS = [
    Mutant(
        "a number that 32 bits round out of its range is accepted",
        FIELDS,
        "    for each in (value, stored):\n",
        "    for each in (value,):\n",
        TEST_CONFIG,
        "not_legal",
    ),
    Mutant(
        "a whole number that no array can have as an index is accepted",
        FIELDS,
        "MAX_INT = 2**31 - 1",
        "MAX_INT = 2**63",
        TEST_CONFIG,
        "not_legal",
    ),
    Mutant(
        "a rate of a mixture may be any text",
        FIELDS,
        'for key, rate in value.items() if "rates" in field.metadata else ():',
        "for key, rate in ():",
        TEST_CONFIG,
        "not_legal",
    ),
    Mutant(
        "JSON nested too deeply ends in a traceback",
        JSON_FILES,
        "    except RecursionError as error:",
        "    except ZeroDivisionError as error:",
        TEST_JSON,
        "holds_no_object",
    ),
    Mutant(
        "true counts as a number in a JSON file",
        JSON_FILES,
        "    if type(value) not in types:  # true is no number\n",
        "    if not isinstance(value, types):\n",
        TEST_JSON,
        "another_type",
    ),
    Mutant(
        "a line of metrics without numbers is read",
        JSON_FILES,
        "            check_object(content, fields, values=values)\n        except",
        "            pass\n        except",
        TEST_JSON,
        "step_and_numbers",
    ),
    Mutant(
        "damaged handles of jobs end in a traceback",
        "launch/backends/scheduler.py",
        "    return read_json(path, remedy, values=str) if path.exists() else {}",
        "    return eval(path.read_text()) if path.exists() else {}",
        "tests/launch/test_sweep_actions.py",
        "way_out",
    ),
    Mutant(
        "an error in a user's file has no line",
        USER_CODE,
        "        if not lines:\n            raise\n",
        "        if True:\n            raise\n",
        TEST_USER_CODE,
        "with_its_line",
    ),
    Mutant(
        "an error of ours is blamed on the user's file",
        USER_CODE,
        "        if not lines:\n            raise\n",
        "        lines = lines or [1]\n",
        TEST_USER_CODE,
        "keeps_its_traceback",
    ),
    Mutant(
        "a sweep that lacks its argument ends in a traceback",
        USER_CODE,
        "    except TypeError as error:\n        code",
        "    except ZeroDivisionError as error:\n        code",
        TEST_USER_CODE,
        "wrong_sweep",
    ),
    Mutant(
        "a dollar sign in the name of a row is read as a formula",
        "launch/reports/figures.py",
        '    "text.parse_math": False,\n',
        "",
        TEST_USER_CODE,
        "formula",
    ),
    Mutant(
        "HTML in the name of a row gets into report.md",
        "launch/reports/formats.py",
        r"|<(?=[\w/!?])",
        "",
        "tests/launch/reports/test_formats.py",
        "as_it_is",
    ),
    Mutant(
        "a bucket's folder has two writers",
        CLAIM,
        "        if found != first:\n            raise",
        "        if found == 3:\n            raise",
        TEST_CLAIM,
        "second_run",
    ),
    Mutant(
        "of two runs that start at once both go on",
        CLAIM,
        "    if found != own:\n",
        "    if not found:\n",
        TEST_CLAIM,
        "at_once",
    ),
    Mutant(
        "too little memory is a traceback",
        "launch/cli.py",
        "        case MemoryError():",
        "        case ZeroDivisionError():",
        "tests/launch/test_cli.py",
        "person_can_mend",
    ),
    Mutant(
        "a workdir without a name is the folder one stands in",
        "launch/cli.py",
        'if action.required and getattr(namespace, action.dest) == "":',
        "if False:",
        "tests/launch/test_cli.py",
        "has_a_value",
    ),
    Mutant(
        "a link to a folder of text is left out unsaid",
        "research/data/corpora/files.py",
        "    if links:\n",
        "    if False:\n",
        "tests/data/corpora/test_files.py",
        "leaves_out",
    ),
    Mutant(
        "a link that leads nowhere stops with a traceback",
        "research/data/corpora/files.py",
        "        if not file.is_file():\n",
        "        if False:\n",
        "tests/data/corpora/test_files.py",
        "leaves_out",
    ),
    Mutant(
        "checksums that are none are a traceback",
        "research/files/checksums.py",
        "except (OSError, ValueError, TypeError, AttributeError, RecursionError):",
        "except OSError:",
        "tests/checkpoints/test_checkpoint.py",
        "that_are_none",
    ),
    Mutant(
        "a file of a checkpoint without checksum stops with a traceback",
        "research/files/checksums.py",
        "    except Exception as error:",
        "    except ZeroDivisionError as error:",
        "tests/checkpoints/test_checkpoint.py",
        "without_checksum",
    ),
]

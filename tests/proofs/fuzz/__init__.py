"""Fuzzing: whatever a user writes, a command works or says in one line what is wrong.

Three kinds of cases: values of a config, command lines, and damaged files of a finished
run or sweep. Hypothesis draws them, and shrinks one that fails to a small one.
"""

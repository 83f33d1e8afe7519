"""Fuzzing: whatever a user writes, a command works or says in one line what is wrong.

Three kinds of cases: values of a config, command lines, and whole commands on damaged
runs, hf: folders, sweeps, task files and seqio tasks, and on outputs that are no plain
files. Hypothesis draws them, and shrinks one that fails to a small one.
"""

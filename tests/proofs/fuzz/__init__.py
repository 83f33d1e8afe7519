"""Fuzzing: whatever a user writes, a command works or says in one line what is wrong.

Four kinds of cases: values of a config, command lines, damaged files of a finished run
or sweep on which training and sweeps go on, and whole commands on damaged runs, hf:
folders, task files and plans. Hypothesis draws them, and shrinks one that fails to a
small one.
"""

"""The BabyLM Challenge's evaluation: tasks, rules, scores and files."""

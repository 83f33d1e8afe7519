"""The only folder that touches text: corpora, vocabularies, streams, noise, tasks."""

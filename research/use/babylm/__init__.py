"""From a run to a submission to the BabyLM Challenge."""

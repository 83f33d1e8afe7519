"""The use of trained models: opened, exported, made smaller, served."""

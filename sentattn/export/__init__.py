"""A trained model as files that run without torch."""

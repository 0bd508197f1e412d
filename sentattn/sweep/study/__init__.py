"""What is known of a study: its storage, its trials, its budget and the schedulers that work on it."""

"""From texts to batches: read, tokenize, store, split, batch."""

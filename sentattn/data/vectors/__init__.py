"""Word vectors: files of vectors, pretrained ones by name, and vectors trained on the training rows."""

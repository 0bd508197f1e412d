"""A trained model reads texts: labels, probabilities and attention."""

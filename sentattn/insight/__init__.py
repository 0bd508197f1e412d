"""Analysis of attention: its shape, whether a prediction needs it, and whether people would point at the same words."""

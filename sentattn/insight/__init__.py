"""Analysis of attention: shape, faithfulness, gradients and plausibility."""

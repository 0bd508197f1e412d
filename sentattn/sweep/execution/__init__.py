"""What runs: the scheduler, its slots, the engines and the trials."""

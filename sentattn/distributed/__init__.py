"""Training on several devices: how many, which rank this process is, what ranks exchange, and the launcher."""

"""Several processes that train one model: their places, their launcher, and what they tell one another."""

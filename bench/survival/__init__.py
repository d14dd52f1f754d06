"""Training while servers and the scheduler are killed and restarted: the same weights, and what each fault cost."""

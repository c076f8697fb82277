"""How a candidate is made smaller. A step takes the smallest candidate and gives a smaller one, or
the same; it asks `Trials.fails` and changes nothing else."""

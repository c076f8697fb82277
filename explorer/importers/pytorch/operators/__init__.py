"""What the calls of ATen become: one converter each, by family."""

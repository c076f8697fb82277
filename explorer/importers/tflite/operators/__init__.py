"""What the operators of TFLite become: one converter each, by family."""

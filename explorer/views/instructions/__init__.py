"""What single instructions of generated code mean and cost."""

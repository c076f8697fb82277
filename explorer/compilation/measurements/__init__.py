"""What is predicted and timed of kernels."""

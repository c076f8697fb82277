"""What the layers of Caffe become: one converter each, by family."""

"""Random Caffe nets of one layer, judged by OpenCV."""

"""Caffe nets: a prototxt with the layers, a caffemodel with their weights.

file/        both as records, within bounds
layers/      what each kind of layer becomes
"""

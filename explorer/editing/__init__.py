"""Editing an ONNX model: each edit is a line of text, and the result is a model again.

edits      the lines: what each kind says
graphs     nodes that outputs need, uses of tensors
apply      one edit on a graph
model      all edits on a loaded model; what becomes invalid is refused with the reason
"""

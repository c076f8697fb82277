"""Operators of ONNX: strings, regular expressions, classical models, training.

strings.py, string_*.py, text_features.py    strings as rows of code points
patterns.py, automata.py                     regular expressions as tables of states
features.py, trees.py                        `ai.onnx.ml`: what scikit-learn's pipelines export
training.py, gradient.py                     optimizers, and the gradient of a graph within a graph
"""

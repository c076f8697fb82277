"""Operators of ONNX that few models have: strings, regular expressions, classical models, training.

strings.py, string_*.py, text_features.py    strings as rows of code points
patterns.py, automata.py                     regular expressions as tables of states
features.py, trees.py                        `ai.onnx.ml`: what scikit-learn's pipelines export
training.py, gradient.py                     optimizers, and the gradient of a graph within a graph

Families here are converters like those beside this folder (`converters.py` lists both), loaded with
the first model that has an operator of them.
"""

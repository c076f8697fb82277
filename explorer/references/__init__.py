"""Other programs that run models, each in a child process: who is right, and who is faster.

    with onnx_runtime.open_model(model, is_optimized=False) as opened:
        opened.run({"image": image}, ["logits"])             {"logits": array}
        opened.time({"image": image}, least=3, budget_seconds=0.02)      [0.0011, 0.0010, ...]

What a model file can do to such a program (a division that traps, an endless loop, all the memory)
ends the child. Here that is an error that names the model and what happened. No other part of the
project opens a model in them.

Reading order: `interface`, `onnx_runtime`, `process`; of the child's side `serving`, `exchange`,
`onnx_runtime_process`. The child's files are run by their path and import nothing of ours but one
another, so that a child is ready as soon as the other program is.
"""

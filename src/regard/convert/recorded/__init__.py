"""Any model as ONNX: its call is recorded as operations of PyTorch, each of which has a form there.

`decode.program.plain_recorder` records what a call does at three sizes, as a `Program`. `graph`
writes the program as nodes of ONNX, in which sizes are computed; `operations`, `products`, `views`
and `recurrences` have the form of each operation. `generators` and `readers` know which calls of
which models, `write` the files.
"""

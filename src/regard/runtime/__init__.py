"""Answers without PyTorch: programs of models, run by NumPy.

`regard export --to program` records what a model computes as a graph of operators
(`program.json`); the weights stay where they are. What is here opens such a folder and runs it:

    graph       a graph of operators, run node by node
    operators   what each operator computes, with those of recurrences and of windows
    weights     `model.safetensors` as arrays
    search      greedy decoding and beam search of one source
    answer      what a model gives for one input
"""

"""How many parameters a public function or constructor takes: above ten only with a reason."""

import ast

from tests.repo.tree import SOURCE, modules

MOST = 10
OPTION = "typer reads an option of the command from each parameter"
PAPER = "the constructor is the configuration: a keyword is a key of `model:`, as the paper has it"
TASK = "the constructor is the configuration: a keyword is a key of `task:`"
KERNEL = "tensors and sizes of one call of C, Triton or PyTorch's operators, which take no structs"
REASONS = {
    PAPER: """
        models/abcnn.py:ABCNN models/abs.py:ABS models/arsg.py:ARSG
        models/attention_via_attention.py:AttentionViaAttention models/bilstm_crf.py:BiLSTMCRF
        models/bran.py:BRAN models/disan.py:DiSANPair models/dme.py:DME models/dme.py:DMEPair
        models/dme.py:DMESentence models/gat.py:GAT models/lstm_a.py:LSTMA models/luong.py:Luong
        models/marian.py:Marian models/memn2n.py:MemN2N models/moe.py:MoE models/mpcnn.py:MPCNN
        models/ram.py:RAM models/self_attentive.py:SelfAttentive
        models/self_attentive.py:SelfAttentivePair models/show_attend_tell.py:ShowAttendTell
        models/srl_attention.py:DeepAttTagger models/temporal_captioner.py:TemporalCaptioner
        models/transformer.py:Transformer
    """,
    TASK: """
        tasks/generation/summarization.py:Summarization tasks/labels/base.py:Labeling
        tasks/labels/images.py:Images tasks/tags/tagging.py:Tagging
    """,
    OPTION: """
        cli/compare.py:compare cli/evaluate.py:evaluate cli/look.py:look cli/predict.py:predict
        cli/serve.py:serve cli/train.py:train
    """,
    KERNEL: """
        attention/_ops/cpu/additive_calls.py:attend
        attention/_ops/cpu/additive_calls.py:attend_backward
        attention/_ops/cpu/additive_ops.py:attend_backward attention/_ops/cpu/located.py:step
        attention/_ops/eager.py:dots attention/_ops/eager.py:edges attention/_ops/eager.py:tiles
        attention/_ops/feature_blocks.py:features_blocks_backward
        attention/_ops/triton/__init__.py:edge_attention
        attention/_ops/triton/_features.py:contexts attention/_ops/triton/_features.py:gradients
        attention/_ops/triton/edges.py:edge_attention
        attention/_ops/triton/_edges.py:over_keys attention/_ops/triton/_edges.py:over_queries
        attention/_ops/triton/_transposed.py:transposed
        decode/program/lowering_operations.py:lstm
    """,
    "query, key and value, and the six parts of the operation": "attention/op.py:attend",
    "options of a picture, which `regard look` has too": """
        watching/viewing.py:view viewer/drawing.py:figure
    """,
}
"""Reason -> file and name; a class stands for its constructor."""


def signatures(tree):
    """Public functions, methods and constructors with their number of parameters."""
    waiting = [("", node) for node in tree.body]
    while waiting:
        prefix, node = waiting.pop()
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            waiting += [(f"{prefix}{node.name}.", inner) for inner in node.body]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.startswith("_") and node.name != "__init__":
                continue
            a = node.args
            own = [p for p in (*a.posonlyargs, *a.args, *a.kwonlyargs) if p.arg not in OWNERS]
            count = len(own) + sum(x is not None for x in (a.vararg, a.kwarg))
            yield (prefix + node.name).removesuffix(".__init__"), count


OWNERS = ("self", "cls")


def test_long_signatures_have_a_reason():
    long = {
        f"{path.relative_to(SOURCE)}:{name}"
        for path in modules()
        for name, count in signatures(ast.parse(path.read_text("utf-8")))
        if count > MOST
    }
    listed = [one for names in REASONS.values() for one in names.split()]
    assert len(listed) == len(set(listed))
    assert long - set(listed) == set(), "settings that belong together are a dataclass"
    assert set(listed) - long == set(), "they are short now: take them out of the list"


def test_parameters_are_counted():
    source = "class A:\n def __init__(self, a, *, b, **c): ...\n def _d(self): ...\n"
    assert dict(signatures(ast.parse(source + "async def f(x, /, *y): ...\n"))) == {"A": 3, "f": 2}

r"""Calls from Python to C: functions with declared signatures, checked at every call.

C receives addresses and numbers; this module checks that they are consistent. A signature lists the
arguments of a C function in their order:

    MATMUL = Function(
        "regard_matmul",
        "a: f32 [m k] any", "stride a 0", "stride a 1",
        "b: f32 [k n]",
        "bias: f32? [n]",
        "out: f32 [m n] out",
        "m", "n", "k", "scale: float", "threads: threads",
    )
    MATMUL(a, b, bias, out, scale, threads)

Callers pass the named arguments in this order; sizes and strides are read from the tensors, never
passed by hand. A tensor is declared as

    name: TYPE[?] [axis …] LAYOUT [out]      its shape; equal letters are equal sizes
    name: TYPE[?] (number) LAYOUT [out]      its number of elements, with any shape

TYPE is `f32`, `f64`, `i64`, `i32`, `u8`, `bool`, or `real`: float32 or bfloat16, the same for every
`real` of a call ("half a" then tells C which). `?` allows None, which is NULL. An axis is a letter,
or an expression in braces of letters that are already known. LAYOUT is contiguous by default;
`rows`: all axes after the first are contiguous; `last`: the last axis is; `any`: C gets every
stride. Other kinds: `float`, `double`, `int`, `long` are passed unchanged, `threads` is the number
of threads for C (outputs may have this size), and `NAME: struct X` is a `Struct`. A `Struct` is
declared in the same way and compared with C's `sizeof` and `offsetof` when the library is loaded.

C itself checks the contents of tensors (ids, lengths, offsets) before it uses them as addresses;
`failed` raises the error. Unaligned inputs and negated views are copied.

Checks are compiled into one expression per function: about 1 µs per tensor, including its address.
"""

import ctypes
import re
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

import regard.native.loading as loading

__all__ = [
    "BrokenContract",
    "Function",
    "Struct",
    "declare",
    "differing",
    "expect",
    "failed",
    "reset",
]

_TYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "i64": torch.int64,
    "i32": torch.int32,
    "u8": torch.uint8,
    "i8": torch.int8,
    "bool": torch.bool,
}
_MASKS = {"f32": "3", "i32": "3", "f64": "7", "i64": "7"}
_MASKS |= dict.fromkeys(("u8", "i8", "bool", "real"), "")
"""The bits of an address that are 0 where it is aligned; those of `real` depend on the call."""
_NUMBERS = {
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "int": ctypes.c_int32,
    "long": ctypes.c_int64,
    "threads": ctypes.c_int32,
    "address": ctypes.c_void_p,
}
_TENSOR = re.compile(
    r"(?P<name>\w+): (?P<type>f32|f64|i64|i32|i8|u8|bool|real)(?P<none>\??) "
    r"(?P<shape>\[.*\]|\(.*\))(?: (?P<layout>rows|last|any))?(?P<out> out)?"
)
_NUMBER = re.compile(r"(?P<name>\w+): (?P<kind>float|double|int|long|threads|address|struct \w+)")
_SIZE = re.compile(r"[a-z]\w*")
_AXIS = re.compile(r"\{([^}]*)\}|(\w+)")

_FAILURES = {
    1: "found no memory",
    2: "was packed for other instructions than those in force",
    3: "met an id that is out of range",
    4: "met lengths, offsets or spans that are out of range",
    5: "was given a plan whose sizes do not fit each other",
}


class BrokenContract(RuntimeError):
    """A C call does not have the types, shapes or strides that its signature declares."""


def failed(name: str, status: int) -> None:
    """Raise the error of a nonzero status of a C function.

    Raises:
        MemoryError: out of memory (1). IndexError: ids (3) or lengths, offsets and spans (4).
        RuntimeError: anything else.
    """
    said = f"{name} {_FAILURES.get(status, f'failed with {status}')}"
    raise {1: MemoryError, 3: IndexError, 4: IndexError}.get(status, RuntimeError)(said)


def expect(name: str, x: Tensor, dtype: torch.dtype, shape: tuple[int, ...]) -> int:
    """The address of a tensor of this type and shape, contiguous and on the CPU.

    For tables of addresses; arguments of functions have signatures instead.

    Raises:
        BrokenContract: for another type, shape, layout or device.
    """
    fits = x.dtype is dtype and x.is_cpu and tuple(x.shape) == shape and x.is_contiguous()
    if not fits or x.is_neg() or x.data_ptr() % x.element_size():
        raise BrokenContract(
            f"{name}: expected contiguous {dtype} {shape} on the CPU, got {x.dtype} "
            f"{tuple(x.shape)} with strides {x.stride()} on {x.device.type}"
        )
    return x.data_ptr()


class _Argument:
    """One argument: what Python calls it (None for a derived one), its C type, its checks."""

    def __init__(self, text: str) -> None:
        self.text, self.name, self.tensor, self.derived = text, "", False, ""
        self.ctype: Any = ctypes.c_int64
        if found := _TENSOR.fullmatch(text):
            self.name, self.tensor, self.ctype = found["name"], True, ctypes.c_void_p
            self.type, self.optional = found["type"], bool(found["none"])
            self.layout, self.out = found["layout"] or "", bool(found["out"])
            self.flat, inside = found["shape"][0] == "(", found["shape"][1:-1]
            axes = [a or b for a, b in _AXIS.findall(inside)]
            self.axes = [inside.strip("{}")] if self.flat else axes
        elif found := _NUMBER.fullmatch(text):
            self.name, kind = found["name"], found["kind"]
            self.kind = kind.split()[0]
            self.ctype = _NUMBERS.get(kind, ctypes.c_void_p)
        elif found := re.fullmatch(r"stride (\w+) (\d)", text):
            self.derived = f"(0 if {found[1]} is None else {found[1]}.stride({found[2]}))"
        elif found := re.fullmatch(r"half (\w+)", text):
            self.derived, self.ctype = f"{found[1]}.dtype is bf16", ctypes.c_int32
        elif found := re.fullmatch(r"([a-z]\w*)|\{(.*)\}", text):
            self.derived = found[1] or f"({found[2]})"
        else:
            raise ValueError(f"the gate cannot read {text!r}")

    def checks(self, first_real: str) -> str:
        """The expression that checks the argument; sizes are known by then."""
        n = self.name
        kind = f"{n}.dtype is {self.type}"
        if self.type == "real":
            kind = f"{n}.dtype in reals" if n == first_real else f"{n}.dtype is {first_real}.dtype"
        parts = [kind, f"{n}.is_cpu"]
        if not self.out and self.type in ("f32", "f64", "real"):
            parts.append(f"not {n}.is_neg()")
        sizes = [f"({axis})" for axis in self.axes]
        shape = f"{n}.shape == ({', '.join(sizes)},)"
        parts.append(f"{n}.numel() == {sizes[0]}" if self.flat else shape)
        dense = f"{n}.is_contiguous()"
        if self.layout == "rows":
            inner = [
                f"{n}.stride({i}) == {n}.stride({i + 1}) * {n}.shape[{i + 1}]"
                for i in range(1, len(self.axes) - 1)
            ]
            dense = f"({dense} or ({' and '.join([f'{n}.stride(-1) == 1', *inner])}))"
        elif self.layout == "last":
            dense = f"({n}.stride(-1) == 1 or {n}.shape[-1] < 2 or {dense})"
        parts += [dense] if self.layout != "any" else []
        check = " and ".join(parts)
        return f"({n} is None or ({check}))" if self.optional else check

    def passed(self) -> str:
        """The expression that is passed to C."""
        if self.tensor:
            return f"at_{self.name}"
        if self.name and self.kind == "struct":
            return f"addressof({self.name})"
        return self.name or self.derived


def _compile(name: str, arguments: list[_Argument]) -> list[str]:
    """The Python code that checks the arguments and then takes their addresses."""
    given = [a for a in arguments if a.name]
    tensors = [a for a in given if a.tensor]
    names = ", ".join(a.name for a in given)
    refuse = f"return wrong({names})"
    known = {a.name for a in given if not a.tensor and a.kind in ("long", "int", "threads")}
    real = next((a.name for a in tensors if a.type == "real"), "")
    lines: list[str] = []
    checks: list[str] = []
    for a in tensors:
        fresh = []
        for i, axis in enumerate(a.axes):
            if not _SIZE.fullmatch(axis) or axis in known:
                continue
            if a.optional:
                raise ValueError(f"{name}: {a.name} may be None and cannot define {axis}")
            known.add(axis)
            fresh.append(f"{axis} = {a.name}.{'numel()' if a.flat else f'shape[{i}]'}")
        if fresh:  # a size is read after the checks before it
            checks += [] if a.flat else [f"{a.name}.dim() == {len(a.axes)}"]
            lines += [f"if not ({' and '.join(checks)}): {refuse}"] if checks else []
            lines += fresh
            checks = []
        checks.append(a.checks(real))
    for a in arguments:
        if _SIZE.fullmatch(a.derived) and a.derived not in known:
            raise ValueError(f"{name}: {a.derived!r} cannot be derived from the arguments")
    lines += [f"if not ({' and '.join(checks)}): {refuse}"] if checks else []
    for a in tensors:  # after all checks: a tensor without memory has no address
        empty = f"0 if {a.name} is None else " if a.optional else ""
        lines.append(f"at_{a.name} = {empty}{a.name}.data_ptr()")
    odd = []
    for size in ("3", "7"):
        kinds = [f"at_{a.name}" for a in tensors if _MASKS[a.type] == size]
        odd += [f"({' | '.join(kinds)}) & {size}"] if kinds else []
    if real:
        kinds = [f"at_{a.name}" for a in tensors if a.type == "real"]
        odd.append(f"({' | '.join(kinds)}) & ({real}.element_size() - 1)")
    return [*lines, f"if {' or '.join(odd)}: {refuse}"] if odd else lines


class _Declared:
    """The base of functions and structs: the declaration and its error messages."""

    def __init__(self, name: str, *texts: str) -> None:
        self.name = name
        self.arguments = [_Argument(text) for text in texts]
        self.names = ", ".join(a.name for a in self.arguments if a.name)
        self._lines = _compile(name, self.arguments)
        self._passed = ", ".join(a.passed() for a in self.arguments)

    def _build(self, last: list[str], space: dict[str, Any]) -> Callable[..., Any]:
        body = "\n    ".join([*self._lines, *last])
        space |= {
            **_TYPES,
            "bf16": torch.bfloat16,
            "reals": (torch.float32, torch.bfloat16),
            "wrong": self._wrong,
            "addressof": ctypes.addressof,
        }
        exec(f"def call({self.names}):\n    {body}\n", space)
        built: Callable[..., Any] = space["call"]
        return built

    def _wrong(self, *given: Any) -> Any:
        """Copy negated or unaligned inputs and call again, or raise an error."""
        mended, changed = [], False
        for a, x in zip((a for a in self.arguments if a.name), given, strict=True):
            if a.tensor and isinstance(x, Tensor) and not a.out and x.layout == torch.strided:
                size = x.element_size()
                if x.is_neg() or (x.is_cpu and x.data_ptr() % size):
                    x = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(x)
                    changed = True
            mended.append(x)
        if changed:
            return self(*mended)  # type: ignore[operator]
        raise BrokenContract(self._said(given))

    def _said(self, given: tuple[Any, ...]) -> str:
        """Every argument as declared and as given."""
        named = [a for a in self.arguments if a.name]
        parts = []
        for a, x in zip(named, given, strict=True):
            if a.tensor and x is None:
                parts.append(f"{a.text}, got None")
            elif a.tensor:
                dtype, shape = str(x.dtype).removeprefix("torch."), tuple(x.shape)
                layout = f"{dtype} {shape} strides {x.stride()} on {x.device.type}"
                parts.append(f"{a.text}, got {layout}")
            elif a.kind != "struct":
                parts.append(f"{a.name} = {x}")
        return f"{self.name}: the arguments do not match the signature: {'; '.join(parts)}"


class Function(_Declared):
    """A C function of the library; calls check the arguments and the status.

    Args:
        name: its name in C.
        texts: its arguments; see the module docstring.

    Raises (when called):
        BrokenContract: types, shapes, strides or devices differ from the signature.
        MemoryError, IndexError, RuntimeError: see `failed`.
    """

    every: ClassVar[list["Function"]] = []

    def __init__(self, name: str, *texts: str) -> None:
        super().__init__(name, *texts)
        self._call: Callable[..., Any] | None = None
        Function.every.append(self)

    def __call__(self, *given: Any) -> None:
        """Check and call."""
        if self._call is None:
            self._load()
        assert self._call is not None
        self._call(*given)

    def _load(self) -> None:
        raw = loading.raw(self.name)
        if raw is None:
            raise RuntimeError(
                f"{self.name} was traced with C, which is not available here: "
                f"{loading.missing() or 'it is not in the library'}"
            )
        wrong = differing(loading.library())
        if wrong is not None:
            raise BrokenContract(f"the library of C kernels is not this version's: {wrong}")
        raw.argtypes = [a.ctype for a in self.arguments]
        raw.restype = ctypes.c_int32
        last = [f"status = raw({self._passed})", f"if status: failed({self.name!r}, status)"]
        self._call = self._build(last, {"raw": raw, "failed": failed})

    def reset(self) -> None:
        """Look the function up again at the next call, for tests."""
        self._call = None


class Struct(_Declared):
    """A struct for C, filled from tensors by a declaration; it keeps them alive.

    Calling it gives a `ctypes.Structure` whose fields have the same names and order as in C.

    Args:
        name: its name; C exports its layout as `regard_layout_NAME`.
        texts: the fields, as the arguments of a `Function`, each with a name: a derived one is
            written "field = stride a 0", "field = n", "field = half a".
    """

    def __init__(self, name: str, *texts: str) -> None:
        split = [text.split(" = ", 1) for text in texts]
        self.fields = [part[0] if len(part) == 2 else part[0].split(":")[0] for part in split]
        super().__init__(name, *(part[-1] for part in split))
        # Numbers have 64 bits in a struct, so there is no padding.
        wide = {ctypes.c_int32: ctypes.c_int64, ctypes.c_float: ctypes.c_double}
        kinds = [
            (field, wide.get(a.ctype, a.ctype))
            for field, a in zip(self.fields, self.arguments, strict=True)
        ]
        self.kind: type[ctypes.Structure] = type(name, (ctypes.Structure,), {"_fields_": kinds})
        make = [f"made = kind({self._passed})", f"made.held = ({self.names},)", "return made"]
        self._make = self._build(make, {"kind": self.kind})
        _STRUCTS.append((name, self.kind))

    def __call__(self, *given: Any) -> ctypes.Structure:
        """Check and fill."""
        made: ctypes.Structure = self._make(*given)
        return made


_STRUCTS: list[tuple[str, type[ctypes.Structure]]] = []


def declare(name: str, kind: type[ctypes.Structure]) -> type[ctypes.Structure]:
    """Also compare a structure that is filled by hand with C's."""
    _STRUCTS.append((name, kind))
    return kind


def differing(library: Any) -> str | None:
    """The first struct whose size or offsets differ from C's, in a clause, or None."""
    for name, kind in _STRUCTS:
        fields = [getattr(kind, field[0]) for field in kind._fields_]
        own = [ctypes.sizeof(kind), *(n for f in fields for n in (f.offset, f.size))]
        try:
            told = (ctypes.c_int64 * (len(own) + 1)).in_dll(library, f"regard_layout_{name}")
        except ValueError:
            return f"the layout of {name} is not in it"
        if list(told) != [*own, -1]:
            return f"{name} is laid out as {list(told)} in C and as {own} in Python"
    return None


def reset() -> None:
    """Look for the library again, for tests that change the environment."""
    loading.forget()
    _renew()


def _renew() -> None:
    for function in Function.every:
        function.reset()


loading.REPLACED.append(_renew)

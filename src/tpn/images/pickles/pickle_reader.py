"""An interpreter of pickle opcodes on a stack of plain values; `plain_data` says why there is one."""

import codecs
import pickle
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from tpn.images.pickles.pickled_array import ElementType, PickledArray, Raw, Refused, text_of

MOST_LARGE_KEYS = 1000
"""More keys of more than 60 bits are no accident: those of the same hash make a dict take forever."""
SHORT = 256
"""Byte strings up to this length are read at once; longer ones are left in the file."""
ARRAY_NAMES = {
    f"{module} {name}"
    for module in ("numpy.core.multiarray", "numpy._core.multiarray", "numpy.core.numeric", "numpy._core.numeric")
    for name in ("_reconstruct", "scalar", "_frombuffer")
} | {"numpy ndarray", "numpy dtype", "_codecs encode", "collections OrderedDict", "__builtin__ bytes", "builtins bytes"}


@dataclass
class _Name:
    """A name in a module, as a pickle gives it. Nothing is imported."""

    text: str


class _Mark:
    """Marks the start of a list on the stack."""


class PickleReader:
    """Interprets the opcodes of a pickle, of all protocols, on a stack of plain values."""

    def __init__(self, view: memoryview) -> None:
        self.view, self.at = view, 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.encoded = 0
        self.large_keys = 0

    def read(self) -> Any:
        instructions, view = self.instructions, self.view
        while True:
            code = view[self.at]
            self.at += 1
            if code == pickle.STOP[0]:
                return self.stack.pop()
            instruction = instructions.get(code)
            if instruction is None:
                raise Refused(f"it has the instruction {bytes([code])!r}, which plain data does not need")
            instruction(self)

    # reading from the file

    def number(self, layout: str) -> Any:
        size = struct.calcsize(layout)
        (value,) = struct.unpack_from(layout, self.view, self.at)
        self.at += size
        return value

    def raw(self, length: int) -> Raw:
        if not 0 <= length <= len(self.view) - self.at:
            raise IndexError("too short")
        part = self.view[self.at : self.at + length]
        self.at += length
        return bytes(part) if length <= SHORT else part

    def line(self) -> bytes:
        start, end = self.at, self.at
        while True:  # a line of an old pickle can be long: look for its end a piece at a time
            piece = bytes(self.view[end : end + 65536])
            found = piece.find(b"\n")
            if found >= 0:
                end += found
                break
            if not piece:
                raise IndexError("no end of line")
            end += len(piece)
        self.at = end + 1
        return bytes(self.view[start:end])

    def text(self, length: int) -> str:
        return str(self.raw(length), "utf-8", "surrogatepass")

    # working on the stack

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def since_mark(self) -> list[Any]:
        for place in range(len(self.stack) - 1, -1, -1):
            if self.stack[place] is _Mark:
                values = self.stack[place + 1 :]
                del self.stack[place:]
                return values
        raise IndexError("no mark")

    def extend(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, list):
            raise Refused("it adds items to something that is not a list")
        target.extend(values)

    def update(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict) or len(values) % 2:
            raise Refused("it adds entries to something that is not a dict")
        for key, value in zip(values[::2], values[1::2], strict=True):
            if not isinstance(key, (str, bytes, int, float, bool, type(None))):
                raise Refused("it has a dict with keys that are neither strings nor numbers")
            if isinstance(key, int) and abs(key) >= sys.hash_info.modulus:  # only these can be made to collide at will
                self.large_keys += 1
                if self.large_keys > MOST_LARGE_KEYS:
                    raise Refused("it has a dict with keys that were chosen to collide")
            target[key] = value

    def name(self, module: str | bytes, name: str | bytes) -> None:
        text = f"{text_of(module)} {text_of(name)}"
        if text not in ARRAY_NAMES:
            module_name = text.replace(" ", ".")[:80]
            raise Refused(f"it would call {module_name!r} when loaded, as programs do, and was therefore not loaded")
        self.push(_Name(text))

    def call(self) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        if not isinstance(function, _Name) or not isinstance(arguments, tuple):
            raise Refused("it would call something that is not a constructor of plain data")
        name = function.text.split()[-1]
        if name == "_reconstruct":
            self.push(PickledArray())
        elif name == "dtype":
            self.push(ElementType(text_of(arguments[0])))
        elif name == "_frombuffer":
            data, type_, shape, order = arguments
            array = PickledArray()
            array.set(shape, type_, order == "F", data)
            self.push(array)
        elif name == "scalar":
            type_, data = arguments
            array = PickledArray()
            array.set((), type_, False, data)
            self.push(array.array().item())
        elif name == "encode":
            text, encoding = arguments
            if not isinstance(text, str) or text_of(encoding) not in ("latin1", "latin-1"):
                raise Refused("it has bytes in an unexpected encoding")
            self.encoded += len(text)
            if self.encoded > len(self.view):  # one string, encoded over and over
                raise Refused("it would fill the memory")
            self.push(text.encode("latin1"))
        elif name == "OrderedDict" and not arguments:
            self.push({})
        elif name == "bytes" and not arguments:
            self.push(b"")
        else:
            raise Refused(f"it would call {function.text.replace(' ', '.')!r}")

    def build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, PickledArray) and isinstance(state, tuple) and len(state) in (4, 5):
            target.set(*state[-4:])
        elif isinstance(target, ElementType) and isinstance(state, tuple) and len(state) >= 8:
            if state[2] is not None or state[3] is not None:
                raise Refused("it has an array of records, which are not plain values")
            target.order = text_of(state[1])
            target.size = _text_size(target.code, state[5])
        else:
            raise Refused("it would set the state of an object that is not an array")

    def put(self, place: int) -> None:
        self.memo[place] = self.stack[-1]

    def tuple_of(self, length: int) -> None:
        if len(self.stack) < length:
            raise IndexError("too few values")
        values = tuple(self.stack[-length:])
        del self.stack[-length:]
        self.push(values)

    def quoted(self) -> None:
        line = self.line().strip()
        if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in (b"'", b'"'):
            raise Refused("it has a string without quotes")
        self.push(codecs.escape_decode(line[1:-1])[0])

    def decimal(self) -> None:
        line = self.line()
        self.push(line == b"01" if line in (b"00", b"01") else int(line.rstrip(b"L")))

    def add_item(self) -> None:
        value = self.stack.pop()
        self.extend([value])

    def add_entry(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.update([key, value])

    def make_dict(self) -> None:
        values = self.since_mark()
        self.push({})
        self.update(values)

    def stack_name(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        self.name(module, name)

    instructions: ClassVar[dict[int, Callable[["PickleReader"], Any]]] = {
        code[0]: instruction
        for code, instruction in {
            pickle.PROTO: lambda self: self.number("<B"),
            pickle.FRAME: lambda self: self.number("<Q"),
            pickle.MARK: lambda self: self.push(_Mark),
            pickle.POP: lambda self: self.stack.pop(),
            pickle.POP_MARK: lambda self: self.since_mark(),
            pickle.DUP: lambda self: self.push(self.stack[-1]),
            pickle.NONE: lambda self: self.push(None),
            pickle.NEWTRUE: lambda self: self.push(True),
            pickle.NEWFALSE: lambda self: self.push(False),
            pickle.INT: decimal,
            pickle.LONG: decimal,
            pickle.BININT: lambda self: self.push(self.number("<i")),
            pickle.BININT1: lambda self: self.push(self.number("<B")),
            pickle.BININT2: lambda self: self.push(self.number("<H")),
            pickle.LONG1: lambda self: self.push(int.from_bytes(self.raw(self.number("<B")), "little", signed=True)),
            pickle.FLOAT: lambda self: self.push(float(self.line())),
            pickle.BINFLOAT: lambda self: self.push(self.number(">d")),
            pickle.STRING: quoted,
            pickle.BINSTRING: lambda self: self.push(self.raw(self.number("<i"))),
            pickle.SHORT_BINSTRING: lambda self: self.push(self.raw(self.number("<B"))),
            pickle.BINBYTES: lambda self: self.push(self.raw(self.number("<I"))),
            pickle.SHORT_BINBYTES: lambda self: self.push(self.raw(self.number("<B"))),
            pickle.BINBYTES8: lambda self: self.push(self.raw(self.number("<Q"))),
            pickle.BYTEARRAY8: lambda self: self.push(self.raw(self.number("<Q"))),
            pickle.READONLY_BUFFER: lambda self: None,
            pickle.UNICODE: lambda self: self.push(str(self.line(), "raw-unicode-escape")),
            pickle.BINUNICODE: lambda self: self.push(self.text(self.number("<I"))),
            pickle.SHORT_BINUNICODE: lambda self: self.push(self.text(self.number("<B"))),
            pickle.BINUNICODE8: lambda self: self.push(self.text(self.number("<Q"))),
            pickle.EMPTY_LIST: lambda self: self.push([]),
            pickle.LIST: lambda self: self.push(self.since_mark()),
            pickle.APPEND: add_item,
            pickle.APPENDS: lambda self: self.extend(self.since_mark()),
            pickle.EMPTY_TUPLE: lambda self: self.push(()),
            pickle.TUPLE: lambda self: self.push(tuple(self.since_mark())),
            pickle.TUPLE1: lambda self: self.tuple_of(1),
            pickle.TUPLE2: lambda self: self.tuple_of(2),
            pickle.TUPLE3: lambda self: self.tuple_of(3),
            pickle.EMPTY_DICT: lambda self: self.push({}),
            pickle.DICT: make_dict,
            pickle.SETITEM: add_entry,
            pickle.SETITEMS: lambda self: self.update(self.since_mark()),
            pickle.GET: lambda self: self.push(self.memo[int(self.line())]),
            pickle.BINGET: lambda self: self.push(self.memo[self.number("<B")]),
            pickle.LONG_BINGET: lambda self: self.push(self.memo[self.number("<I")]),
            pickle.PUT: lambda self: self.put(int(self.line())),
            pickle.BINPUT: lambda self: self.put(self.number("<B")),
            pickle.LONG_BINPUT: lambda self: self.put(self.number("<I")),
            pickle.MEMOIZE: lambda self: self.put(len(self.memo)),
            pickle.GLOBAL: lambda self: self.name(self.line(), self.line()),
            pickle.STACK_GLOBAL: stack_name,
            pickle.REDUCE: call,
            pickle.BUILD: build,
        }.items()
    }


def _text_size(code: str, size: Any) -> int | None:
    """Return the length of the elements of an array of text or bytes, which its type code leaves out."""
    if code[:1] in ("S", "U") and type(size) is int and 0 <= size < 2**20:
        return size // 4 if code[0] == "U" else size
    return None

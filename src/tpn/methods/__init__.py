"""One file per few-shot system, one registry."""

from tpn.methods.method import Config, Dimensions, Info, Learned, Method
from tpn.methods.registry import all_methods, build_method, find_method, register

__all__ = [
    "Config",
    "Dimensions",
    "Info",
    "Learned",
    "Method",
    "all_methods",
    "build_method",
    "find_method",
    "register",
]

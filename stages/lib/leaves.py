"""The types of single values in params.yaml: what each accepts, and in words what is allowed."""
import math
import re
from typing import Annotated, Any

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

LARGEST_SEED = 2**32 - 1


def leaf(accepts, allowed, convert=lambda value: value):
    """A type whose values satisfy `accepts`; anything else is refused with the words `allowed`."""
    def check(value):
        try:
            good = accepts(value)
        except (TypeError, ValueError):
            good = False
        if not good:
            raise PydanticCustomError("refused", "{allowed}", {"allowed": allowed})
        return convert(value)
    return Annotated[Any, BeforeValidator(check)]


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def number(low, high):
    return leaf(lambda v: is_number(v) and low <= v <= high, f"a number from {low:g} to {high:g}", float)


def whole(low, high):
    return leaf(lambda v: isinstance(v, int) and not isinstance(v, bool) and low <= v <= high, f"a whole number from {low} to {high}")


def span(low, high):
    return leaf(lambda v: isinstance(v, list) and len(v) == 2 and all(map(is_number, v)) and low <= v[0] <= v[1] <= high,
                f"[low, high], two numbers from {low:g} to {high:g} in rising order")


def one_of(*names):
    return leaf(lambda v: isinstance(v, (str, bool)) and v in names, "one of " + ", ".join(map(str, names)))


def names(allowed):
    return leaf(lambda v: isinstance(v, list) and v and all(name in allowed for name in v) and len(set(v)) == len(v),
                "a list of different names out of " + ", ".join(allowed))


def numbers(low, high):
    return leaf(lambda v: isinstance(v, list) and v and all(is_number(x) and low <= x <= high for x in v) and sorted(set(v)) == v,
                f"a list of different numbers from {low:g} to {high:g} in rising order")


Name = leaf(lambda v: isinstance(v, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,80}", v) and v != "pixels",
            "a name of letters, digits, _ and - (not `pixels`)")
Word = leaf(lambda v: isinstance(v, str) and v.strip() == v and v, "a text that is not empty")
Raw = leaf(lambda v: isinstance(v, str) and re.fullmatch(r"data/raw(/[^/\\'\x00-\x1f]+)+", v) and not {".", ".."} & set(v.split("/")),
           "a path under data/raw/, without an apostrophe")
Color = leaf(lambda v: isinstance(v, list) and len(v) == 3 and all(is_number(x) and 0 <= x <= 1 for x in v), "[red, green, blue], each from 0 to 1")
Share = leaf(lambda v: is_number(v) and (0 < v < 1 or (isinstance(v, int) and v >= 1)), "a count (1 or more) or a fraction between 0 and 1")
Flag = leaf(lambda v: isinstance(v, bool), "true or false")
Whole = leaf(lambda v: isinstance(v, list) and v and all(isinstance(x, int) and not isinstance(x, bool) and x >= 1 for x in v) and sorted(set(v)) == v,
             "a list of different whole numbers from 1 in rising order")
Value = leaf(lambda v: is_number(v) or (isinstance(v, str) and v), "a number or a name")
Probability = number(0, 1)
Seed = whole(0, LARGEST_SEED)

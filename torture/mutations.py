"""Damage to bytes: what disks, downloads and attackers do to files."""

import random

EXTREMES = (b"\0", b"\xff", b"\x7f", b"\x80", b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\x7f", b"\0\0\0\x80")


def flip_bit(content: bytes, chance: random.Random) -> bytes:
    """Flip one bit."""
    changed = bytearray(content)
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def set_byte(content: bytes, chance: random.Random) -> bytes:
    """Set one byte to any value."""
    place = chance.randrange(len(content))
    return content[:place] + bytes([chance.randrange(256)]) + content[place + 1 :]


def cut(content: bytes, chance: random.Random) -> bytes:
    """Cut it off anywhere."""
    return content[: chance.randrange(len(content))]


def zero_block(content: bytes, chance: random.Random) -> bytes:
    """Zero a block, as a disk does with a sector."""
    size = chance.choice((1, 4, 16, 512, 4096))
    place = chance.randrange(len(content))
    return content[:place] + bytes(min(size, len(content) - place)) + content[place + size :]


def leave_out(content: bytes, chance: random.Random) -> bytes:
    """Leave out a piece."""
    place = chance.randrange(len(content))
    return content[:place] + content[place + chance.randint(1, 64) :]


def repeat(content: bytes, chance: random.Random) -> bytes:
    """Repeat a piece."""
    place = chance.randrange(len(content))
    piece = content[place : place + chance.randint(1, 256)]
    return content[:place] + piece * chance.randint(2, 8) + content[place:]


def extreme(content: bytes, chance: random.Random) -> bytes:
    """Overwrite a number with the largest or the smallest."""
    value = chance.choice(EXTREMES)
    place = chance.randrange(len(content))
    return content[:place] + value + content[place + len(value) :]


def append(content: bytes, chance: random.Random) -> bytes:
    """Append something."""
    return content + chance.randbytes(chance.randint(1, 600))


MUTATIONS = (flip_bit, set_byte, cut, zero_block, leave_out, repeat, extreme, append)


def mutate(content: bytes, chance: random.Random) -> tuple[bytes, str]:
    """Damage bytes in one to four ways; also return what was done."""
    names = []
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        if content:
            mutation = chance.choice(MUTATIONS)
            content = mutation(content, chance)
            names.append(mutation.__name__)
    return content, "+".join(names)

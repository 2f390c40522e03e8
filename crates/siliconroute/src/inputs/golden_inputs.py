"""Prints the golden values of `inputs/tests.rs`, computed without the crate (Python 3, no packages)."""

import math
import struct

MASK = (1 << 64) - 1


def fnv1a_64(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return value


def splitmix64(state):
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


def rotate_left(x, k):
    return ((x << k) | (x >> (64 - k))) & MASK


def xoshiro256_plus_plus(seed, name):
    mixed = splitmix64(fnv1a_64(struct.pack("<Q", seed) + name.encode()))
    s = [next(mixed) for _ in range(4)]
    while True:
        yield (rotate_left((s[0] + s[3]) & MASK, 23) + s[0]) & MASK
        t = (s[1] << 17) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotate_left(s[3], 45)


def logarithm(x):
    mantissa, exponent = math.frexp(x)
    mantissa, exponent = mantissa * 2, exponent - 1
    if mantissa > math.sqrt(2):
        mantissa, exponent = mantissa / 2, exponent + 1
    z = (mantissa - 1) / (mantissa + 1)
    total = 0.0
    for k in reversed(range(10)):
        total = total * (z * z) + 1 / (2 * k + 1)
    return exponent * math.log(2) + 2 * z * total


def normals(numbers):
    while True:
        u, v = (2 * ((next(numbers) >> 11) * 2.0**-53) - 1 for _ in range(2))
        square = u * u + v * v
        if 0 < square < 1:
            scale = math.sqrt(-2 * logarithm(square) / square)
            yield u * scale
            yield v * scale


def below(numbers, bound):
    while True:
        product = next(numbers) * bound
        if product & MASK >= (1 << 64) % bound:
            yield product >> 64


draws = normals(xoshiro256_plus_plus(11, "x"))
print([struct.unpack("<Q", struct.pack("<d", next(draws)))[0] for _ in range(4)])
whole = below(xoshiro256_plus_plus(11, "ids"), 100)
print([next(whole) - 5 for _ in range(6)])

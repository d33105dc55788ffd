"""The loops of the kernels for edges, compiled by numba. Imported at first use only.

Tensors come as addresses, of float32 or int32 numbers in C order: numba counts references to arrays, even in a function
that is called for each edge, and two threads that count the same array wait for each other.

Rows of nodes lie one behind the other: the number of head h, column c of node n is at (n·heads + h)·columns + c, and
columns are a multiple of LANES, filled up with zeros. A row of one number for each head, as scores are, has ``lanes``
columns, heads filled up likewise. Features of edges lie in the caller's order, (E, wide), wide being such a multiple.
An address of 0 stands for what is not there. Nodes are cut into parts of about equally many edges; a kernel takes a
range of parts and writes only what belongs to their nodes, so that the result is the same on any number of threads.

LLVM makes no vectors of a loop when it cannot tell that it is eight long and that its arrays are different ones, and
the heads of graph attention are that narrow. So the innermost loops are written as operations on vectors; in this file,
because numba renews its copy on disk only when the file of the kernel itself changes.
"""

# mypy: disable-error-code="call-arg, var-annotated"
# The first argument of an intrinsic is numba's own, and so is what it returns.
from contextlib import contextmanager

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from regard.kernels._pool import FAST, compiled

LANES = 8
BLOCK = 32  # edges whose scores are held at a time
SPLIT, LEAKY, DOT = range(3)
LINE = 16  # numbers in a line of the cache
SOON = 12  # how many edges before its turn a row is fetched

f32, u32 = np.float32, np.uint32
ZERO, ONE = f32(0), f32(1)
INFINITE = f32(np.inf)

FLAGS = tuple(sorted(FAST))
REAL, WORD, SIZE = ir.FloatType(), ir.IntType(32), ir.IntType(64)
VECTOR, WORDS = ir.VectorType(REAL, LANES), ir.VectorType(WORD, LANES)
SIZE_T, NUMBER = types.intp, types.float32


def _sum(builder, x, y):
    return builder.fadd(x, y, flags=FLAGS)


def _larger(builder, x, y):
    """y where it is larger, else x, also where y is NaN."""
    return builder.select(builder.fcmp_ordered(">", y, x), y, x)


def each(rule):
    """out[at…] = rule(builder, out[at…], x[i…]) of ``width`` numbers."""

    @intrinsic
    def row(typing, out, at, x, i, width):
        return _operation(rule, [SIZE_T] * 5, rows=(0, 2))

    return row


def each_pair(rule):
    """out[at…] = rule(builder, out[at…], x[i…], y[j…]) of ``width`` numbers."""

    @intrinsic
    def row(typing, out, at, x, i, y, j, width):
        return _operation(rule, [SIZE_T] * 7, rows=(0, 2, 4))

    return row


def each_scaled(rule):
    """out[at…] = rule(builder, out[at…], x[i…], scale[s + h]) of ``width`` numbers for each head h."""

    @intrinsic
    def row(typing, out, at, scale, s, x, i, heads, width):
        return _operation(rule, [SIZE_T] * 8, rows=(0, 4), scale=2, heads=6)

    return row


@intrinsic
def add_shared(typing, out, at, scale, s, x, i, heads, width):
    """out[at…] += scale[s + h]·x[i…] of ``width`` numbers for each head h, x being the same for all."""
    rule = lambda b, old, x, scale: _times_add(b, old, scale, x)  # noqa: E731
    return _operation(rule, [SIZE_T] * 8, rows=(0, 4), scale=2, heads=6, shared=(4,))


def each_leaky(rule):
    """out[at…] = rule(builder, out[at…], x[i…], y[j…], scale[s + h], slope) of ``width`` numbers for each head h."""

    @intrinsic
    def row(typing, out, at, scale, s, slope, x, i, y, j, heads, width):
        kinds = [SIZE_T] * 4 + [NUMBER] + [SIZE_T] * 6
        return _operation(rule, kinds, rows=(0, 5, 7), scale=2, slope=4, heads=9)

    return row


def _operation(rule, kinds, rows, scale=None, slope=None, heads=None, shared=()):
    """Signature and code of an operation on vectors. ``rows``, ``scale``, … say which of the arguments are what; each
    address is followed by a place, the last argument is the width. The ``shared`` rows are the same for all heads."""

    def generate(context, builder, signature, args):
        everywhere = [] if slope is None else [_everywhere(builder, args[slope])]
        with cgutils.for_range(builder, SIZE(1) if heads is None else args[heads]) as head:
            constants = everywhere
            if scale is not None:
                factor = builder.load(_pointer(builder, args[scale], builder.add(args[scale + 1], head.index)))
                constants = [_everywhere(builder, factor), *everywhere]

            def vector(place, head=head):
                vectors = _vectors(builder, args, place, rows, shared, head)
                numbers = [builder.load(vector, align=4) for vector in vectors]
                builder.store(rule(builder, *numbers, *constants), vectors[0], align=4)

            _each_vector(builder, builder.mul(head.index, args[-1]), args[-1], vector)
        return context.get_dummy_value()

    return types.void(*kinds), generate


def _vectors(builder, args, place, rows, shared, head):
    """To the vectors at a place of the rows; a shared one begins anew with each head."""
    within = builder.sub(place, builder.mul(head.index, args[-1])) if shared else place
    places = {n: builder.add(args[n + 1], within if n in shared else place) for n in rows}
    return [_pointer(builder, args[n], places[n], VECTOR) for n in rows]


@intrinsic
def put_dots(typing, out, at, x, i, y, j, heads, width):
    """out[at + h] = x[i…]·y[j…] of ``width`` numbers for each head h."""
    return _sums(lambda b, x, y: b.fmul(x, y, flags=FLAGS), [SIZE_T] * 8, rows=(2, 4))


@intrinsic
def add_shared_dots(typing, out, at, x, i, y, j, heads, width):
    """out[at + h] += x[i…]·y[j…] of ``width`` numbers for each head h, y being the same for all."""
    rule = lambda b, x, y: b.fmul(x, y, flags=FLAGS)  # noqa: E731
    return _sums(rule, [SIZE_T] * 8, rows=(2, 4), shared=(4,), more=True)


@intrinsic
def put_leaky_dots(typing, out, at, slope, x, i, y, j, z, k, heads, width):
    """out[at + h] = z[k…]·LeakyReLU(x[i…] + y[j…]) of ``width`` numbers for each head h."""
    kinds = [SIZE_T] * 2 + [NUMBER] + [SIZE_T] * 8
    return _sums(lambda b, x, y, z, k: b.fmul(z, _leaky(b, k, x, y), flags=FLAGS), kinds, rows=(3, 5, 7), slope=2)


def _sums(rule, kinds, rows, slope=None, shared=(), more=False):
    """As `_operation`, with sums over each head's numbers; ``more``: added to what is there."""

    def generate(context, builder, signature, args):
        constants = [] if slope is None else [_everywhere(builder, args[slope])]
        total = cgutils.alloca_once(builder, VECTOR)
        with cgutils.for_range(builder, args[-2]) as head:
            builder.store(_constant(0), total)

            def vector(place, head=head):
                vectors = _vectors(builder, args, place, rows, shared, head)
                term = rule(builder, *(builder.load(vector, align=4) for vector in vectors), *constants)
                builder.store(builder.fadd(builder.load(total), term, flags=FLAGS), total)

            _each_vector(builder, builder.mul(head.index, args[-1]), args[-1], vector)
            out = _pointer(builder, args[0], builder.add(args[1], head.index))
            number = _across(builder, builder.load(total))
            builder.store(builder.fadd(builder.load(out), number, flags=FLAGS) if more else number, out)
        return context.get_dummy_value()

    return types.void(*kinds), generate


def reduced(rule, start):
    """What a rule of two makes of the ``width`` numbers x[i…]."""

    @intrinsic
    def row(typing, x, i, width):
        def generate(context, builder, signature, args):
            result = cgutils.alloca_once_value(builder, _constant(start))
            with _steps(builder, args[1], args[2]) as place:
                vector = builder.load(_pointer(builder, args[0], place, VECTOR), align=4)
                builder.store(rule(builder, builder.load(result), vector), result)
            return _across(builder, builder.load(result), rule)

        return NUMBER(*[SIZE_T] * 3), generate

    return row


sum_of, largest_of = reduced(_sum, 0), reduced(_larger, -np.inf)


@intrinsic
def put_one(typing, out, at, number):
    """out[at] = number."""

    def generate(context, builder, signature, args):
        builder.store(args[2], _pointer(builder, *args[:2]))
        return context.get_dummy_value()

    return types.void(SIZE_T, SIZE_T, NUMBER), generate


def numbers_of_nodes(rule):
    """out[e] = rule(builder, out[e], x[i + step·node[n + e]]) for each e below ``count``."""

    @intrinsic
    def numbers(typing, out, x, i, step, node, n, count):
        def generate(context, builder, signature, args):
            out, x, i, step, node, n, count = args
            with cgutils.for_range(builder, count) as edge:
                place = builder.mul(step, _word(builder, node, builder.add(n, edge.index)))
                number = builder.load(_pointer(builder, x, builder.add(i, place)))
                target = _pointer(builder, out, edge.index)
                builder.store(rule(builder, builder.load(target), number), target)
            return context.get_dummy_value()

        return types.void(*[SIZE_T] * 7), generate

    return numbers


put_of_nodes, add_of_nodes = numbers_of_nodes(lambda b, old, x: x), numbers_of_nodes(_sum)


@intrinsic
def put_apart(typing, out, at, step, x, count):
    """out[at + step·e] = x[e] for each e below ``count``."""

    def generate(context, builder, signature, args):
        out, at, step, x, count = args
        with cgutils.for_range(builder, count) as edge:
            place = builder.add(at, builder.mul(step, edge.index))
            builder.store(builder.load(_pointer(builder, x, edge.index)), _pointer(builder, out, place))
        return context.get_dummy_value()

    return types.void(*[SIZE_T] * 5), generate


@intrinsic
def add_rows(typing, out, scale, x, node, n, count, width):
    """out[…] += Σ scale[e]·x[node[n + e]·width…] over the e below ``count``, of ``width`` numbers."""

    def generate(context, builder, signature, args):
        out, scale, x, node, n, count, width = args

        def piece(place, kind):
            vector = _pointer(builder, out, place, kind)
            total = cgutils.alloca_once_value(builder, builder.load(vector, align=4))
            with cgutils.for_range(builder, count) as edge:
                factor = _everywhere(builder, builder.load(_pointer(builder, scale, edge.index)), kind)
                row = _row_of(builder, x, node, n, edge.index, width, place, kind)
                builder.store(_times_add(builder, builder.load(total), factor, row), total)
            builder.store(builder.load(total), vector, align=4)

        _in_pieces(builder, width, piece)
        return context.get_dummy_value()

    return types.void(*[SIZE_T] * 7), generate


@intrinsic
def add_product(typing, out, at, scale, s, x, i, count, width):
    """out[at…] += Σ scale[s + k]·x[i + k·width…] over the k below ``count``, of ``width`` numbers."""

    def generate(context, builder, signature, args):
        out, at, scale, s, x, i, count, width = args

        def piece(place, kind):
            vector = _pointer(builder, out, builder.add(at, place), kind)
            total = cgutils.alloca_once_value(builder, builder.load(vector, align=4))
            with cgutils.for_range(builder, count) as step:
                number = builder.load(_pointer(builder, scale, builder.add(s, step.index)))
                at_row = builder.add(builder.add(i, place), builder.mul(step.index, width))
                row = builder.load(_pointer(builder, x, at_row, kind), align=4)
                builder.store(_times_add(builder, builder.load(total), _everywhere(builder, number, kind), row), total)
            builder.store(builder.load(total), vector, align=4)

        _in_pieces(builder, width, piece)
        return context.get_dummy_value()

    return types.void(*[SIZE_T] * 8), generate


@intrinsic
def add_row_dots(typing, out, y, j, x, node, n, count, width):
    """out[e] += y[j…]·x[node[n + e]·width…] of ``width`` numbers for each e below ``count``."""

    def generate(context, builder, signature, args):
        out, y, j, x, node, n, count, width = args

        def piece(place, kind):
            left = builder.load(_pointer(builder, y, builder.add(j, place), kind), align=4)
            with cgutils.for_range(builder, count) as edge:
                row = _row_of(builder, x, node, n, edge.index, width, place, kind)
                dot = _across(builder, builder.fmul(left, row, flags=FLAGS))
                number = _pointer(builder, out, edge.index)
                builder.store(builder.fadd(builder.load(number), dot, flags=FLAGS), number)

        _in_pieces(builder, width, piece)
        return context.get_dummy_value()

    return types.void(*[SIZE_T] * 8), generate


def _row_of(builder, x, node, n, edge, width, place, kind):
    """The vector at a place of the row of an edge's node."""
    row = builder.mul(_word(builder, node, builder.add(n, edge)), width)
    return builder.load(_pointer(builder, x, builder.add(row, place), kind), align=4)


def _in_pieces(builder, width, piece):
    """piece(place, kind of vector) for the places of 0…width, in vectors as long as registers hold: what a loop inside
    adds to stays in them. Registers hold 64 numbers or more, and the width is a multiple of LANES."""
    for size in (64, 32, 16, 8):
        start = SIZE(0) if size == 64 else builder.and_(width, SIZE(-2 * size))
        end = builder.and_(width, SIZE(-size))
        with cgutils.for_range_slice(builder, start, end, SIZE(size), inc=True) as (place, _):
            piece(place, ir.VectorType(REAL, size))


@intrinsic
def fill(typing, out, at, number, width):
    """out[at…] = number."""

    def generate(context, builder, signature, args):
        number = _everywhere(builder, args[2])
        with _steps(builder, args[1], args[3]) as place:
            builder.store(number, _pointer(builder, args[0], place, VECTOR), align=4)
        return context.get_dummy_value()

    return types.void(SIZE_T, SIZE_T, NUMBER, SIZE_T), generate


@intrinsic
def put_few(typing, out, at, x, i, count):
    """out[at…] = x[i…], of any count."""

    def generate(context, builder, signature, args):
        with cgutils.for_range(builder, args[4]) as step:
            number = builder.load(_pointer(builder, args[2], builder.add(args[3], step.index)))
            builder.store(number, _pointer(builder, args[0], builder.add(args[1], step.index)))
        return context.get_dummy_value()

    return types.void(*[SIZE_T] * 5), generate


@intrinsic
def integer(typing, x, i):
    """x[i] of int32 numbers."""

    def generate(context, builder, signature, args):
        return _word(builder, *args)

    return SIZE_T(SIZE_T, SIZE_T), generate


@intrinsic
def number(typing, x, i):
    """x[i]."""

    def generate(context, builder, signature, args):
        return builder.load(_pointer(builder, *args))

    return NUMBER(SIZE_T, SIZE_T), generate


@intrinsic
def put_drawn(typing, out, at, first, second, limit, boost, width):
    """out[at…] = boost, or 0 where a hash of ``first`` and ``second`` is below the limit; ``first`` counts upwards."""

    def generate(context, builder, signature, args):
        first, second, limit = (_everywhere(builder, word, WORDS) for word in args[2:5])
        boost = _everywhere(builder, args[5])
        first = builder.add(first, ir.Constant(WORDS, list(range(LANES))))
        with _steps(builder, SIZE(0), args[6]) as place:
            count = builder.add(first, _everywhere(builder, builder.trunc(place, WORD), WORDS))
            factors = _dropout_factors(builder, count, second, limit, boost)
            builder.store(factors, _pointer(builder, args[0], builder.add(args[1], place), VECTOR), align=4)
        return context.get_dummy_value()

    word = types.uint32
    return types.void(SIZE_T, SIZE_T, word, word, word, NUMBER, SIZE_T), generate


@intrinsic
def put_drawn_of(typing, out, at, factor, first, second, limit, boost, width):
    """out[at…] = boost, or 0 where a hash of factor·out[at…] + first and ``second`` is below the limit; ``out`` holds
    integers before."""

    def generate(context, builder, signature, args):
        factor, first, second, limit = (_everywhere(builder, word, WORDS) for word in args[2:6])
        boost = _everywhere(builder, args[6])
        with _steps(builder, args[1], args[7]) as place:
            count = builder.load(_pointer(builder, args[0], place, WORDS), align=4)
            count = builder.add(builder.mul(count, factor), first)
            factors = _dropout_factors(builder, count, second, limit, boost)
            builder.store(factors, _pointer(builder, args[0], place, VECTOR), align=4)
        return context.get_dummy_value()

    word = types.uint32
    return types.void(SIZE_T, SIZE_T, word, word, word, word, NUMBER, SIZE_T), generate


def _dropout_factors(builder, count, second, limit, boost):
    hashed = _mixed(builder, builder.xor(_mixed(builder, count), second))
    return builder.select(builder.icmp_unsigned(">=", hashed, limit), boost, _constant(0))


def _mixed(builder, x):
    """A permutation of 32-bit integers in which every bit of x moves about half of the others."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
        x = builder.xor(x, builder.lshr(x, ir.Constant(WORDS, [shift] * LANES)))
        x = builder.mul(x, ir.Constant(WORDS, [factor] * LANES))
    return x


@intrinsic
def fetch(typing, x, i, width):
    """Have x[i…] brought to the cache meanwhile."""

    def generate(context, builder, signature, args):
        byte = ir.IntType(8)
        kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), WORD, WORD, WORD])
        hint = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        with _steps(builder, args[1], args[2], LINE) as place:
            pointer = builder.bitcast(_pointer(builder, args[0], place), byte.as_pointer())
            builder.call(hint, [pointer, WORD(0), WORD(3), WORD(1)])  # for reading, all caches, data
        return context.get_dummy_value()

    return types.void(SIZE_T, SIZE_T, SIZE_T), generate


def _each_vector(builder, start, width, vector):
    """vector(place) for start, start + LANES, … below start + width; without a loop where there is but one."""
    with builder.if_else(builder.icmp_signed("==", width, SIZE(LANES))) as (single, several):
        with single:
            vector(start)
        with several, _steps(builder, start, width) as place:
            vector(place)


@contextmanager
def _steps(builder, start, width, size=LANES):
    """A loop over start, start + size, … below start + width."""
    end = builder.add(start, width)
    with cgutils.for_range_slice(builder, start, end, SIZE(size), inc=True) as (place, _):
        yield place


def _word(builder, address, place):
    """An int32 number as one of 64 bits."""
    return builder.sext(builder.load(_pointer(builder, address, place, WORD)), SIZE)


def _pointer(builder, address, place, kind=REAL):
    """To the number at a place, or to a vector of them; all numbers have four bytes."""
    return builder.inttoptr(builder.add(address, builder.mul(place, SIZE(4))), kind.as_pointer())


def _constant(number, kind=VECTOR):
    return ir.Constant(kind, [float(number)] * kind.count)


def _everywhere(builder, number, kind=VECTOR):
    nothing = ir.Constant(kind, ir.Undefined)
    vector = builder.insert_element(nothing, number, WORD(0))
    return builder.shuffle_vector(vector, nothing, ir.Constant(ir.VectorType(WORD, kind.count), [0] * kind.count))


def _across(builder, vector, rule=_sum):
    """The sum of a vector's numbers, or another rule of two, by halves."""
    size = vector.type.count
    while size > 1:
        size //= 2
        nothing = ir.Constant(vector.type, ir.Undefined)
        low, high = (
            builder.shuffle_vector(vector, nothing, ir.Constant(ir.VectorType(WORD, size), list(places)))
            for places in (range(size), range(size, 2 * size))
        )
        vector = rule(builder, low, high)
    return builder.extract_element(vector, WORD(0))


def _times_add(builder, old, x, y):
    return builder.fadd(old, builder.fmul(x, y, flags=FLAGS), flags=FLAGS)


def _if_positive(builder, x, positive, otherwise):
    """``positive`` where x > 0, else ``otherwise``, also where x is NaN."""
    return builder.select(builder.fcmp_ordered(">", x, _constant(0)), positive, otherwise)


def _leaky(builder, slope, x, y):
    """LeakyReLU(x + y)."""
    both = builder.fadd(x, y)
    return _if_positive(builder, both, both, builder.fmul(slope, both))


def _slope(builder, slope, x, y):
    """The derivative of LeakyReLU at x + y."""
    return _if_positive(builder, builder.fadd(x, y), _constant(1), slope)


LN2_HIGH = 0.693359375  # nine bits, so that its product with an exponent is exact
LOW, HIGH = -87, 88  # e^x is a normal number between


def _exp(builder, x):
    """e^x, at least e^LOW and at most e^HIGH: 2^n·e^f with |f| <= ln(2)/2, 2^n set in the exponent bits. NaN stays."""
    b, low, high = builder, _constant(LOW), _constant(HIGH)
    x = b.select(b.fcmp_ordered("<", x, low), low, b.select(b.fcmp_ordered(">", x, high), high, x))
    number = b.select(b.fcmp_ordered("ord", x, x), x, low)  # NaN has no integer part
    whole = b.fadd(b.fmul(number, _constant(1 / np.log(2))), _constant(0.5))
    floor = cgutils.get_or_insert_function(b.module, ir.FunctionType(VECTOR, [VECTOR]), f"llvm.floor.v{LANES}f32")
    n = b.call(floor, [whole])
    f = b.fsub(x, b.fmul(n, _constant(LN2_HIGH)))
    f = b.fsub(f, b.fmul(n, _constant(np.log(2) - LN2_HIGH)))
    p = _constant(1 / 5040)
    for factorial in (720, 120, 24, 6, 2, 1, 1):
        p = b.fadd(b.fmul(p, f, flags=("contract",)), _constant(1 / factorial), flags=("contract",))
    exponent = b.add(b.fptosi(n, WORDS), ir.Constant(WORDS, [127] * LANES))
    return b.fmul(p, b.bitcast(b.shl(exponent, ir.Constant(WORDS, [23] * LANES)), VECTOR))


def _logistic(builder, x):
    """1 / (1 + e^-x)."""
    return builder.fdiv(_constant(1), builder.fadd(_constant(1), _exp(builder, builder.fneg(x))))


put = each(lambda b, old, x: x)
put_minus = each(lambda b, old, x: b.fneg(x))
put_inverse = each(lambda b, old, x: b.fdiv(_constant(1), x))
put_larger = each(_larger)
put_logistic = each(lambda b, old, x: _logistic(b, x))
add = each(_sum)
put_product = each_pair(lambda b, old, x, y: b.fmul(x, y))
put_exp = each_pair(lambda b, old, x, y: _exp(b, b.fadd(x, y)))
put_scaled = each_scaled(lambda b, old, x, scale: b.fmul(scale, x))
add_scaled = each_scaled(lambda b, old, x, scale: _times_add(b, old, scale, x))
put_leaky = each_leaky(lambda b, old, x, y, scale, slope: _leaky(b, slope, x, y))
add_leaky = each_leaky(lambda b, old, x, y, scale, slope: _times_add(b, old, scale, _leaky(b, slope, x, y)))
add_slope = each_leaky(lambda b, old, x, y, scale, slope: _times_add(b, old, scale, _slope(b, slope, x, y)))
put_slope = each_leaky(lambda b, old, x, y, scale, slope: b.fmul(scale, _slope(b, slope, x, y)))
# For one head, whose numbers are those of edges: ``scale`` is what all of them share.
put_leaky_by = each_leaky(lambda b, old, x, y, scale, slope: _leaky(b, slope, x, scale))
put_exp_by = each_scaled(lambda b, old, x, scale: _exp(b, b.fadd(x, scale)))
# From the gradient of a weight that of its score: x is the weight and y, for a softmax, minus the mean over the edges.
to_softmax = each_pair(lambda b, old, x, y: b.fmul(b.fadd(old, y), x))
to_logistic = each(lambda b, old, x: b.fmul(old, b.fmul(x, b.fsub(_constant(1), x))))
# From the gradient of LeakyReLU that of its input, which has the sign of its output, x.
to_leaky = each_leaky(lambda b, old, x, y, scale, slope: b.fmul(old, _if_positive(b, x, _constant(1), slope)))


@compiled
def draw(keep, count, place, at, lanes, drop):
    """keep[e, h] = 0 for a share of the weights, else what makes up for them; a function of edge, head and seed.

    ``drop`` is (two words of seed, the share as a part of 2³², what a kept weight is multiplied by).
    """
    first, second, limit, boost = drop
    for e in range(count):
        count_up = u32(u32(integer(place, at + e)) * u32(lanes) + first)
        put_drawn(keep, e * lanes, count_up, second, limit, boost, lanes)


@compiled
def draw_all(first, last, out, drop):
    """`draw` for the numbers first…last of a tensor, in vectors."""
    begin, second, limit, boost = drop
    put_drawn(out, first * LANES, u32(u32(first * LANES) + begin), second, limit, boost, (last - first) * LANES)


@compiled
def ahead(x, node, at, edges, row):
    """Have the row of a node that will soon be needed brought to the cache."""
    if at + SOON < edges:
        fetch(x, integer(node, at + SOON) * row, row)


@compiled
def fetch_rows(x, node, first, last, width):
    """Have the rows of the nodes node[first…last] brought to the cache meanwhile."""
    for e in range(first, last):
        fetch(x, integer(node, e) * width, width)


@compiled
def score(
    kind,
    scores,
    count,
    rows,
    at,
    sizes,
    own_rows,
    node_number,
    other_rows,
    weight,
    slope,
    features,
    extra,
    incoming,
    sums,
):
    """scores[e, h] of the node ``node_number``, a target if ``incoming``, with the ``count`` nodes node[at…].

    ``extra`` is what features of edges add to a score: a number for each edge and head inside the LeakyReLU of SPLIT,
    (E, heads); what a target's query makes of them with DOT, (N_t, heads, wide); what they are multiplied by before
    they are added to a key with LEAKY, (wide, heads, width), which leaves the sums with ``other_rows`` in ``sums``.
    """
    _, node, _, edge = rows
    edges, heads, lanes, width, _, wide = sizes
    row = lanes if kind == SPLIT else heads * width
    for e in range(count):
        i, j, x = node_number * row, integer(node, at + e) * row, e * lanes
        ahead(other_rows, node, at + e, edges, row)
        if kind == SPLIT:
            if extra == 0:
                put_leaky(scores, x, own_rows, i, slope, own_rows, i, other_rows, j, 1, lanes)
            else:
                ahead(extra, edge, at + e, edges, heads)
                copy(sums, 0, extra, integer(edge, at + e) * heads, heads, lanes)
                add(sums, 0, other_rows, j, lanes)
                put_leaky(scores, x, own_rows, i, slope, own_rows, i, sums, 0, 1, lanes)
        elif kind == DOT:
            put_dots(scores, x, own_rows, i, other_rows, j, heads, width)
            if extra != 0:
                ahead(features, edge, at + e, edges, wide)
                target = node_number if incoming else integer(node, at + e)
                f = integer(edge, at + e) * wide
                add_shared_dots(scores, x, extra, target * heads * wide, features, f, heads, wide)
        elif extra == 0:
            put_leaky_dots(scores, x, slope, own_rows, i, other_rows, j, weight, 0, heads, width)
        else:
            ahead(features, edge, at + e, edges, wide)
            put_sum(sums, e * row, other_rows, j, features, integer(edge, at + e) * wide, extra, wide, row)
            put_leaky_dots(scores, x, slope, own_rows, i, sums, e * row, weight, 0, heads, width)


@compiled
def put_sum(out, at, x, i, features, f, extra, wide, row):
    """out[at…] = x[i…] + the features f… times ``extra``, (wide, row)."""
    put(out, at, x, i, row)
    add_product(out, at, features, f, extra, 0, wide, row)


@compiled
def room(kind, extra, sizes):
    """How many numbers ``sums`` of `score` holds."""
    return BLOCK * sizes[1] * sizes[3] if kind == LEAKY and extra != 0 else sizes[2]


@compiled
def forward(
    first,
    last,
    cuts,
    rows,
    sizes,
    kind,
    sigmoid,
    drop,
    slope,
    query,
    key,
    weight,
    value,
    features,
    extra,
    context,
    low,
    part,
    blend,
):
    """The context of the targets of parts first…last. For a softmax also ``low``, minus the largest score, and
    ``part``, 1 / Σ e^(score + low), both (N_t, lanes). ``blend``, (N_t, heads, wide), is the context with features in
    the place of values, if it is wanted."""
    start, node, place, edge = rows
    edges, heads, lanes, _, columns, wide = sizes
    row, block, span = heads * columns, BLOCK * lanes, heads * wide if blend != 0 else 0
    memory = np.zeros(2 * block + 3 * lanes + row + span + room(kind, extra, sizes), f32)
    scores = memory.ctypes.data
    keep = scores + 4 * block
    top = keep + 4 * block
    total, shrink, total_context = top + 4 * lanes, top + 8 * lanes, top + 12 * lanes
    mixed = total_context + 4 * row
    sums = mixed + 4 * span
    for i in range(cuts[first], cuts[last]):
        fill(total_context, 0, ZERO, row + span)
        fill(top, 0, -INFINITE, lanes)
        fill(total, 0, ZERO, lanes)
        for at in range(integer(start, i), integer(start, i + 1), BLOCK):
            count = min(BLOCK, integer(start, i + 1) - at)
            score(kind, scores, count, rows, at, sizes, query, i, key, weight, slope, features, extra, True, sums)
            if sigmoid:
                put_logistic(scores, 0, scores, 0, count * lanes)
            else:
                put(shrink, 0, top, 0, lanes)
                for e in range(count):
                    put_larger(top, 0, scores, e * lanes, lanes)
                put_minus(low, i * lanes, top, 0, lanes)
                if at > integer(start, i):
                    put_exp(shrink, 0, shrink, 0, low, i * lanes, lanes)
                    put_product(total, 0, total, 0, shrink, 0, lanes)
                    put_scaled(total_context, 0, shrink, 0, total_context, 0, heads, columns)
                    if blend != 0:
                        put_scaled(mixed, 0, shrink, 0, mixed, 0, heads, wide)
                for e in range(count):
                    put_exp(scores, e * lanes, scores, e * lanes, low, i * lanes, lanes)
                    add(total, 0, scores, e * lanes, lanes)
            if drop[2] > 0:
                draw(keep, count, place, at, lanes, drop)
                put_product(scores, 0, scores, 0, keep, 0, count * lanes)
            for e in range(count):
                j = integer(node, at + e) * row
                ahead(value, node, at + e, edges, row)
                add_scaled(total_context, 0, scores, e * lanes, value, j, heads, columns)
                if blend != 0:
                    ahead(features, edge, at + e, edges, wide)
                    add_shared(mixed, 0, scores, e * lanes, features, integer(edge, at + e) * wide, heads, wide)
        if sigmoid:
            put(context, i * row, total_context, 0, row)
            put(blend, i * span, mixed, 0, span)
        elif integer(start, i) == integer(start, i + 1):
            fill(context, i * row, ZERO, row)
            fill(blend, i * span, ZERO, span)
            fill(low, i * lanes, ZERO, lanes)
            fill(part, i * lanes, ZERO, lanes)
        else:
            put_inverse(part, i * lanes, total, 0, lanes)
            put_scaled(context, i * row, part, i * lanes, total_context, 0, heads, columns)
            if blend != 0:
                put_scaled(blend, i * span, part, i * lanes, mixed, 0, heads, wide)
    memory[0] = ZERO  # so that it lives as long as its address is used


@compiled
def summarize(first, last, cuts, _, sizes, context, grad, low, part, blend, grad_blend, out):
    """What `backward` reads of each target, together: low, part, and −grad·context, (N_t, 3, lanes)."""
    heads, lanes, columns, wide = sizes[1], sizes[2], sizes[4], sizes[5]
    memory = np.zeros(lanes, f32)
    more = memory.ctypes.data
    for i in range(cuts[first], cuts[last]):
        x, y, z = i * heads * columns, i * lanes, i * 3 * lanes
        put(out, z, low, y, lanes)
        put(out, z + lanes, part, y, lanes)
        fill(out, z + 2 * lanes, ZERO, lanes)
        put_dots(out, z + 2 * lanes, grad, x, context, x, heads, columns)
        if blend != 0:
            put_dots(more, 0, grad_blend, i * heads * wide, blend, i * heads * wide, heads, wide)
            add(out, z + 2 * lanes, more, 0, lanes)
        put_minus(out, z + 2 * lanes, out, z + 2 * lanes, lanes)
    memory[0] = ZERO


@compiled
def backward(
    first,
    last,
    cuts,
    rows,
    sizes,
    kind,
    sigmoid,
    drop,
    slope,
    query,
    key,
    weight,
    value,
    features,
    extra,
    summaries,
    grad,
    grad_blend,
    grad_key,
    grad_value,
    grad_scores,
    grad_features,
):
    """From grad, the gradient of the context, those of key and value of the sources of parts first…last, and of the
    scores of their edges, (E, heads); with SPLIT, of what the LeakyReLU is taken of. From grad_blend what the features
    have of it as values, which is added to grad_features.

    With p the weights, m what dropout multiplies them by and δ = grad·context: dv = Σ p m grad, ds = p (m grad·v − δ).
    """
    start, node, place, edge = rows
    edges, heads, lanes, width, columns, wide = sizes
    row, inner, block = heads * columns, heads * width, BLOCK * lanes
    own_size = lanes if kind == SPLIT else inner
    memory = np.zeros(4 * block + own_size + row + room(kind, extra, sizes), f32)
    scores = memory.ctypes.data
    weights, slopes, keep, grad_own = scores + 4 * block, scores + 8 * block, scores + 12 * block, scores + 16 * block
    grad_sum = grad_own + 4 * own_size
    sums = grad_sum + 4 * row
    for j in range(cuts[first], cuts[last]):
        fill(grad_sum, 0, ZERO, row)
        fill(grad_own, 0, ZERO, own_size)
        for at in range(integer(start, j), integer(start, j + 1), BLOCK):
            count = min(BLOCK, integer(start, j + 1) - at)
            score(kind, scores, count, rows, at, sizes, key, j, query, weight, slope, features, extra, False, sums)
            for e in range(count):
                i = integer(node, at + e) * row
                ahead(grad, node, at + e, edges, row)
                ahead(summaries, node, at + e, edges, 3 * lanes)
                put_dots(slopes, e * lanes, grad, i, value, j * row, heads, columns)
                if grad_blend != 0:
                    ahead(features, edge, at + e, edges, wide)
                    f, i = integer(edge, at + e) * wide, integer(node, at + e) * heads * wide
                    add_shared_dots(slopes, e * lanes, grad_blend, i, features, f, heads, wide)
            if drop[2] > 0:
                draw(keep, count, place, at, lanes, drop)
                put_product(slopes, 0, slopes, 0, keep, 0, count * lanes)
            if sigmoid:
                put_logistic(weights, 0, scores, 0, count * lanes)
                to_logistic(slopes, 0, weights, 0, count * lanes)
            else:
                for e in range(count):
                    x, i = e * lanes, integer(node, at + e) * 3 * lanes
                    put_exp(weights, x, scores, x, summaries, i, lanes)
                    put_product(weights, x, weights, x, summaries, i + lanes, lanes)
                    to_softmax(slopes, x, weights, x, summaries, i + 2 * lanes, lanes)
            if drop[2] > 0:
                put_product(weights, 0, weights, 0, keep, 0, count * lanes)
            if kind == SPLIT:  # LeakyReLU keeps the sign
                to_leaky(slopes, 0, scores, 0, slope, scores, 0, scores, 0, 1, count * lanes)
            for e in range(count):
                x, i = e * lanes, integer(node, at + e)
                add_scaled(grad_sum, 0, weights, x, grad, i * row, heads, columns)
                if grad_blend != 0:
                    f = integer(edge, at + e) * wide
                    add_product(grad_features, f, weights, x, grad_blend, i * heads * wide, heads, wide)
                if kind == SPLIT:
                    add(grad_own, 0, slopes, x, lanes)
                elif kind == DOT:
                    add_scaled(grad_own, 0, slopes, x, query, i * inner, heads, width)
                elif extra == 0:
                    add_slope(grad_own, 0, slopes, x, slope, query, i * inner, key, j * inner, heads, width)
                else:
                    add_slope(grad_own, 0, slopes, x, slope, sums, e * inner, key, j * inner, heads, width)
                copy(grad_scores, integer(place, at + e) * heads, slopes, x, heads, lanes)
        put(grad_value, j * row, grad_sum, 0, row)
        if kind == SPLIT:
            copy(grad_key, j * heads, grad_own, 0, heads, lanes)
        elif kind == DOT:
            put(grad_key, j * inner, grad_own, 0, inner)
        else:
            put_product(grad_key, j * inner, grad_own, 0, weight, 0, inner)
    memory[0] = ZERO


@compiled
def copy(out, at, x, i, heads, lanes):
    """out[at…] = x[i…], one number for each head."""
    if heads == lanes:
        put(out, at, x, i, lanes)
    else:
        put_few(out, at, x, i, heads)


@compiled
def pull(
    first,
    last,
    cuts,
    rows,
    sizes,
    kind,
    slope,
    own_rows,
    other_rows,
    weight,
    features,
    extra,
    weighted,
    grad_scores,
    grad,
    grad_weight,
    grad_extra,
    grad_features,
):
    """From the gradients of scores, (E, heads), that of ``own_rows`` for the nodes of parts first…last, and a row of
    grad_weight for each part. Of grad_scores with SPLIT, see `backward`.

    If the nodes are targets also, with ``extra`` as in `score`, its gradient, with LEAKY a row for each part that is to
    be multiplied by the weight, as ``weighted`` is ``extra`` times it; and what is added to that of the features."""
    start, node, place, edge = rows
    edges, heads, lanes, width, _, wide = sizes
    row = heads if kind == SPLIT else heads * width
    size, span = lanes if kind == SPLIT else row, heads * wide
    memory = np.zeros(3 * size, f32)
    grad_sum = memory.ctypes.data
    sums, slopes = grad_sum + 4 * size, grad_sum + 8 * size
    for part in range(first, last):
        for i in range(cuts[part], cuts[part + 1]):
            fill(grad_sum, 0, ZERO, size)
            for at in range(integer(start, i), integer(start, i + 1)):
                s, j = integer(place, at) * heads, integer(node, at) * row
                f = integer(edge, at) * wide
                ahead(grad_scores, place, at, edges, heads)
                if kind == SPLIT:
                    add(grad_sum, 0, grad_scores, s, lanes)
                    if grad_extra != 0:
                        put_few(grad_extra, integer(edge, at) * heads, grad_scores, s, heads)
                    continue
                ahead(other_rows, node, at, edges, row)
                if extra != 0:
                    ahead(features, edge, at, edges, wide)
                if kind == DOT:
                    add_scaled(grad_sum, 0, grad_scores, s, other_rows, j, heads, width)
                    if grad_extra != 0:
                        add_shared(grad_extra, i * span, grad_scores, s, features, f, heads, wide)
                        add_product(grad_features, f, grad_scores, s, extra, i * span, heads, wide)
                elif extra == 0:
                    add_slope(grad_sum, 0, grad_scores, s, slope, own_rows, i * row, other_rows, j, heads, width)
                    add_leaky(
                        grad_weight, part * row, grad_scores, s, slope, own_rows, i * row, other_rows, j, heads, width
                    )
                else:
                    put_sum(sums, 0, other_rows, j, features, f, extra, wide, row)
                    put_slope(slopes, 0, grad_scores, s, slope, own_rows, i * row, sums, 0, heads, width)
                    add(grad_sum, 0, slopes, 0, row)
                    if grad_extra != 0:
                        add_leaky(
                            grad_weight, part * row, grad_scores, s, slope, own_rows, i * row, sums, 0, heads, width
                        )
                        add_shared(grad_extra, part * wide * row, features, f, slopes, 0, wide, row)
                        add_shared_dots(grad_features, f, weighted, 0, slopes, 0, wide, row)
            if kind == SPLIT:
                copy(grad, i * heads, grad_sum, 0, heads, lanes)
            elif kind == DOT:
                put(grad, i * row, grad_sum, 0, row)
            else:
                put_product(grad, i * row, grad_sum, 0, weight, 0, row)
    memory[0] = ZERO


@compiled
def pairs(first, last, cuts, rows, sizes, kind, slope, query, key, weight, features, extra, out):
    """Scores of the edges of parts first…last, (E, heads)."""
    start, place = rows[0], rows[2]
    heads, lanes = sizes[1], sizes[2]
    memory = np.zeros(BLOCK * lanes + room(kind, extra, sizes), f32)
    scores = memory.ctypes.data
    sums = scores + 4 * BLOCK * lanes
    for i in range(cuts[first], cuts[last]):
        for at in range(integer(start, i), integer(start, i + 1), BLOCK):
            count = min(BLOCK, integer(start, i + 1) - at)
            score(kind, scores, count, rows, at, sizes, query, i, key, weight, slope, features, extra, True, sums)
            for e in range(count):
                copy(out, integer(place, at + e) * heads, scores, e * lanes, heads, lanes)
    memory[0] = ZERO


@compiled
def spread(first, last, cuts, sizes, h, x, weight, out, dots):
    """For head h and the nodes of parts first…last, out[n] = x[n, h] and dots[k, h, n] = x[n, h]·weight[k, h] for both
    weights."""
    heads, columns = sizes
    nodes, w = cuts[-1], h * columns
    for n in range(cuts[first], cuts[last]):
        i = n * heads * columns + w
        put(out, n * columns, x, i, columns)
        put_dots(dots, h * nodes + n, x, i, weight, w, 1, columns)
        put_dots(dots, (heads + h) * nodes + n, x, i, weight, w + heads * columns, 1, columns)


@compiled
def forward_head(first, last, cuts, rows, sizes, drop, slope, h, dots, value, extra, context, low):
    """As `forward`, for one wide head, a softmax, and nodes that are sources and targets: the cache holds the rows of
    one head where it does not hold those of all. dots (2, heads, N) is what queries and keys come to, value is that of
    this head, (N, columns), and ``low``, (heads, N), is −log Σ e^score."""
    start, node, place, edge = rows
    _, heads, lanes, _, columns, _ = sizes
    nodes, most = cuts[-1], 0
    for i in range(cuts[first], cuts[last]):
        most = max(most, integer(start, i + 1) - integer(start, i))
    most += -most % LANES
    memory = np.zeros(2 * most + columns + 1, f32)
    scores = memory.ctypes.data
    keep, head_context, shared = scores + 4 * most, scores + 8 * most, scores + 8 * most + 4 * columns
    for i in range(cuts[first], cuts[last]):
        out_place, at, count = (i * heads + h) * columns, integer(start, i), integer(start, i + 1) - integer(start, i)
        if count == 0:
            fill(context, out_place, ZERO, columns)
            put_one(low, h * nodes + i, ZERO)
            continue
        fetch_rows(value, node, at, at + count, columns)
        put_of_nodes(scores, dots, (heads + h) * nodes, 1, node, at, count)
        if extra != 0:
            add_of_nodes(scores, extra, h, heads, edge, at, count)
        put_leaky_by(scores, 0, dots, h * nodes + i, slope, scores, 0, scores, 0, 1, count)
        end(scores, count, -INFINITE)
        top = largest_of(scores, 0, count)
        put_one(shared, 0, -top)
        put_exp_by(scores, 0, shared, 0, scores, 0, 1, count)
        end(scores, count, ZERO)
        whole = sum_of(scores, 0, count)
        put_one(low, h * nodes + i, -top - np.log(whole))
        if drop[2] > 0:
            draw_head(keep, count, place, at, lanes, h, drop)
            put_product(scores, 0, scores, 0, keep, 0, count)
        fill(head_context, 0, ZERO, columns)
        add_rows(head_context, scores, value, node, at, count, columns)
        put_one(shared, 0, ONE / whole)
        put_scaled(context, out_place, shared, 0, head_context, 0, 1, columns)
    memory[0] = ZERO


@compiled
def summarize_head(first, last, cuts, sizes, h, context, grad, dots, low, out):
    """What `backward_head` reads of each target, together: query, low, −grad·context and nothing, (N, 4)."""
    heads, columns = sizes
    nodes = cuts[-1]
    for i in range(cuts[first], cuts[last]):
        put_few(out, 4 * i, dots, h * nodes + i, 1)
        put_few(out, 4 * i + 1, low, h * nodes + i, 1)
        put_dots(out, 4 * i + 2, grad, i * columns, context, (i * heads + h) * columns, 1, columns)
        put_one(out, 4 * i + 2, -number(out, 4 * i + 2))


@compiled
def backward_head(
    first,
    last,
    cuts,
    rows,
    sizes,
    drop,
    slope,
    h,
    dots,
    value,
    extra,
    summaries,
    grad,
    grad_key,
    grad_value,
    grad_scores,
):
    """As `backward`, where `forward_head` went before. grad (N, columns) is this head's; other tensors have all."""
    start, node, place, edge = rows
    edges, heads, lanes, _, columns, _ = sizes
    nodes = cuts[-1]
    memory = np.zeros(5 * BLOCK + columns, f32)
    scores = memory.ctypes.data
    weights, slopes, keep, means = scores + 4 * BLOCK, scores + 8 * BLOCK, scores + 12 * BLOCK, scores + 16 * BLOCK
    grad_sum = scores + 20 * BLOCK
    for j in range(cuts[first], cuts[last]):
        out_place, grad_own = (j * heads + h) * columns, ZERO
        fill(grad_sum, 0, ZERO, columns)
        for at in range(integer(start, j), integer(start, j + 1), BLOCK):
            count = min(BLOCK, integer(start, j + 1) - at)
            fetch_rows(grad, node, at + count, min(at + 2 * count, edges), columns)
            fetch_rows(summaries, node, at + count, min(at + 2 * count, edges), 4)
            put_of_nodes(scores, summaries, 0, 4, node, at, count)
            put_of_nodes(weights, summaries, 1, 4, node, at, count)
            put_of_nodes(means, summaries, 2, 4, node, at, count)
            if extra != 0:
                add_of_nodes(scores, extra, h, heads, edge, at, count)
            put_leaky_by(scores, 0, dots, (heads + h) * nodes + j, slope, scores, 0, scores, 0, 1, count)
            put_exp(weights, 0, weights, 0, scores, 0, count)
            fill(slopes, 0, ZERO, count)
            add_row_dots(slopes, value, out_place, grad, node, at, count, columns)
            if drop[2] > 0:
                draw_head(keep, count, place, at, lanes, h, drop)
                put_product(slopes, 0, slopes, 0, keep, 0, count)
            to_softmax(slopes, 0, weights, 0, means, 0, count)
            to_leaky(slopes, 0, scores, 0, slope, scores, 0, scores, 0, 1, count)
            if drop[2] > 0:
                put_product(weights, 0, weights, 0, keep, 0, count)
            add_rows(grad_sum, weights, grad, node, at, count, columns)
            put_apart(grad_scores, at * heads + h, heads, slopes, count)
            end(slopes, count, ZERO)
            grad_own += sum_of(slopes, 0, count)
        put(grad_value, out_place, grad_sum, 0, columns)
        put_one(grad_key, j * heads + h, grad_own)
    memory[0] = ZERO


@compiled
def end(x, count, filled):
    """Fill up the last vector of the ``count`` numbers of x."""
    for e in range(count, count + -count % LANES):
        put_one(x, e, filled)


@compiled
def draw_head(keep, count, place, at, lanes, h, drop):
    """`draw` for one head: keep[e] of edges place[at…]."""
    first, second, limit, boost = drop
    put_few(keep, 0, place, at, count)
    put_drawn_of(keep, 0, u32(lanes), u32(first + u32(h)), second, limit, boost, count)


@compiled
def head_dot(first, last, cuts, sizes, x, weight, out):
    """out[n, h] = x[n, h]·weight[h] of the nodes of parts first…last."""
    heads, columns = sizes
    for n in range(cuts[first], cuts[last]):
        i = n * heads * columns
        put_dots(out, n * heads, x, i, weight, 0, heads, columns)


@compiled
def head_dot_backward(first, last, cuts, sizes, x, weight, grad, grad_x, grad_weight):
    """From grad, (N, heads), that of x, and of the weight a row for each part."""
    heads, columns = sizes
    row = heads * columns
    for part in range(first, last):
        for n in range(cuts[part], cuts[part + 1]):
            put_scaled(grad_x, n * row, grad, n * heads, weight, 0, heads, columns)
            add_scaled(grad_weight, part * row, grad, n * heads, x, n * row, heads, columns)


@compiled
def head_dots(first, last, cuts, sizes, x, weight, out):
    """out[k, n, h] = x[n, h]·weight[k, h] for both weights."""
    heads, columns = sizes
    row, all_heads = heads * columns, cuts[-1] * heads
    for n in range(cuts[first], cuts[last]):
        put_dots(out, n * heads, x, n * row, weight, 0, heads, columns)
        put_dots(out, all_heads + n * heads, x, n * row, weight, row, heads, columns)


@compiled
def add_head_dots_backward(first, last, cuts, sizes, x, weight, grad_first, grad_second, grad_x, grad_weight):
    """From the gradients of `head_dots`, both (N, heads), what they add to that of x, and of the weights two rows for
    each part."""
    heads, columns = sizes
    row = heads * columns
    for part in range(first, last):
        for n in range(cuts[part], cuts[part + 1]):
            add_scaled(grad_x, n * row, grad_first, n * heads, weight, 0, heads, columns)
            add_scaled(grad_x, n * row, grad_second, n * heads, weight, row, heads, columns)
            add_scaled(grad_weight, 2 * part * row, grad_first, n * heads, x, n * row, heads, columns)
            add_scaled(grad_weight, (2 * part + 1) * row, grad_second, n * heads, x, n * row, heads, columns)


@compiled
def sparse_product(first, last, cuts, start, column, value, x, out, width):
    """out[n] = Σ value[e]·x[column[e]] over the e from start[n] to start[n + 1], of the rows of parts first…last."""
    for n in range(cuts[first], cuts[last]):
        at, count = integer(start, n), integer(start, n + 1) - integer(start, n)
        fill(out, n * width, ZERO, width)
        add_rows(out + 4 * n * width, value + 4 * at, x, column, at, count, width)


@compiled
def sort(nodes, start, order):
    """start (N + 1,) and order (E,): which edges each node has, in their order (a counting sort)."""
    for n in range(start.shape[0]):
        start[n] = 0
    for e in range(nodes.shape[0]):
        start[nodes[e] + 1] += 1
    for n in range(start.shape[0] - 1):
        start[n + 1] += start[n]
    for e in range(nodes.shape[0]):
        n = nodes[e]
        order[start[n]] = e
        start[n] += 1
    for n in range(start.shape[0] - 1, 0, -1):
        start[n] = start[n - 1]
    start[0] = 0


@compiled
def cut(start, cuts):
    """Where to cut the nodes into parts with about equally many edges and nodes."""
    nodes, parts = start.shape[0] - 1, cuts.shape[0] - 1
    work = np.int64(start[nodes]) + nodes
    for part in range(parts + 1):
        low, high = 0, nodes
        while low < high:
            middle = (low + high) // 2
            if np.int64(start[middle]) + middle < work * part // parts:
                low = middle + 1
            else:
                high = middle
        cuts[part] = low

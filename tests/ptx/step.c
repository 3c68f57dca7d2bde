/* SPDX-License-Identifier: MIT */
/* What instructions do. */
#include <fenv.h>
#include <math.h>
#include <string.h>

#include "ptx/run.h"

/* --- values -------------------------------------------------------------------- */

static const uint8_t byte_of[] = {
    [T_PRED] = 1, [T_B8] = 1,  [T_S8] = 1,  [T_B16] = 2,  [T_S16] = 2, [T_B32] = 4,
    [T_S32] = 4,  [T_B64] = 8, [T_S64] = 8, [T_BF16] = 2, [T_F32] = 4, [T_F64] = 8
};

static float float_of(uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    float x;

    memcpy(&x, &low, sizeof(x));
    return x;
}

static uint64_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static double double_of(uint64_t bits)
{
    double x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static uint64_t bits_of_double(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static float half_of(uint64_t bits)
{
    return float_of((bits & 0xffff) << 16);
}

static uint64_t half_bits(float x)
{
    const uint64_t bits = bits_of(x);

    return isnan(x) ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* A whole number of a type, in 64 bits. */
static uint64_t whole_of(enum ptx_type type, uint64_t bits)
{
    switch (type) {
    case T_PRED:
        return bits & 1;
    case T_B8:
        return (uint8_t)bits;
    case T_S8:
        return (uint64_t)(int64_t)(int8_t)bits;
    case T_B16:
    case T_BF16:
        return (uint16_t)bits;
    case T_S16:
        return (uint64_t)(int64_t)(int16_t)bits;
    case T_B32:
    case T_F32:
        return (uint32_t)bits;
    case T_S32:
        return (uint64_t)(int64_t)(int32_t)bits;
    default:
        return bits;
    }
}

static bool is_signed(enum ptx_type type)
{
    return type == T_S8 || type == T_S16 || type == T_S32 || type == T_S64;
}

/* --- arithmetic ------------------------------------------------------------------ */

struct work {
    struct ptx_block *b;
    unsigned thread;
    const struct ptx_ins *ins;
    uint64_t x[5]; /* the operands behind the first */
};

static _Noreturn void unknown(const struct work *w)
{
    ptx_fail(w->b, w->thread, "an instruction is not for this type", w->ins->type);
}

static uint64_t divide(const struct work *w, uint64_t x, uint64_t y)
{
    if (!y)
        ptx_fail(w->b, w->thread, "division by zero of", x);
    if (is_signed(w->ins->type) && (int64_t)y == -1)
        return w->ins->op == OP_DIV ? 0 - x : 0;
    if (is_signed(w->ins->type))
        return (uint64_t)(w->ins->op == OP_DIV ? (int64_t)x / (int64_t)y : (int64_t)x % (int64_t)y);
    return w->ins->op == OP_DIV ? x / y : x % y;
}

static bool is_less(enum ptx_type type, uint64_t x, uint64_t y)
{
    return is_signed(type) ? (int64_t)x < (int64_t)y : x < y;
}

/* The low bits of a shift by any number. */
static uint64_t shift_right(const struct work *w, uint64_t x, uint64_t by)
{
    const unsigned most = byte_of[w->ins->type] * 8U, n = by < most ? (unsigned)by : most;

    if (is_signed(w->ins->type))
        return (uint64_t)((int64_t)x >> (n > 63 ? 63 : n));
    return n > 63 ? 0 : x >> n;
}

static uint64_t insert_bits(const struct work *w)
{
    const uint64_t at = w->x[2] & 0xff, n = w->x[3] & 0xff;
    const uint64_t all = w->ins->type == T_B64 ? UINT64_MAX : UINT32_MAX;
    const uint64_t mask = n > 31 && all == UINT32_MAX ? all : n > 63 ? all : (UINT64_C(1) << n) - 1;

    return (w->x[1] & ~(mask << at)) | (w->x[0] & mask) << at;
}

static uint64_t whole_result(const struct work *w)
{
    const enum ptx_type type = w->ins->type;
    const uint64_t x = whole_of(type, w->x[0]), y = whole_of(type, w->x[1]);

    switch (w->ins->op) {
    case OP_ADD:
        return x + y;
    case OP_SUB:
        return x - y;
    case OP_MUL:
        return x * y;
    case OP_MAD:
        return x * y + w->x[2];
    case OP_DIV:
    case OP_REM:
        return divide(w, x, y);
    case OP_MIN:
        return is_less(type, y, x) ? y : x;
    case OP_MAX:
        return is_less(type, x, y) ? y : x;
    case OP_NEG:
        return 0 - x;
    case OP_ABS:
        return (int64_t)x < 0 ? 0 - x : x;
    case OP_AND:
        return x & y;
    case OP_OR:
        return x | y;
    case OP_XOR:
        return x ^ y;
    case OP_NOT:
        return type == T_PRED ? !x : ~x;
    case OP_SHL:
        return (uint32_t)w->x[1] > 63 ? 0 : x << (uint32_t)w->x[1];
    case OP_SHR:
        return shift_right(w, x, (uint32_t)w->x[1]);
    case OP_BFI:
        return insert_bits(w);
    default:
        unknown(w);
    }
}

/* To nearest, or down: what expf's reduction needs. The compiler must not move it past fesetround.
 */
static float fused(enum ptx_rounding rounding, float x, float y, float z)
{
    volatile float a = x, r;

    if (rounding == R_NEAREST)
        return fmaf(x, y, z);
    fesetround(FE_DOWNWARD);
    r = fmaf(a, y, z);
    fesetround(FE_TONEAREST);
    return r;
}

static float float_result(const struct work *w)
{
    const float x = float_of(w->x[0]), y = float_of(w->x[1]);

    switch (w->ins->op) {
    case OP_ADD:
        return x + y;
    case OP_SUB:
        return x - y;
    case OP_MUL:
        return x * y;
    case OP_FMA:
        return fused(w->ins->rounding, x, y, float_of(w->x[2]));
    case OP_DIV:
        return x / y;
    case OP_MIN:
        return fminf(x, y);
    case OP_MAX:
        return fmaxf(x, y);
    case OP_NEG:
        return -x;
    case OP_ABS:
        return fabsf(x);
    case OP_EX2:
        return exp2f(x);
    case OP_RCP:
        return 1 / x;
    case OP_SQRT:
        return sqrtf(x);
    default:
        unknown(w);
    }
}

static double double_result(const struct work *w)
{
    const double x = double_of(w->x[0]), y = double_of(w->x[1]);

    switch (w->ins->op) {
    case OP_ADD:
        return x + y;
    case OP_SUB:
        return x - y;
    case OP_MUL:
        return x * y;
    case OP_FMA:
        return fma(x, y, double_of(w->x[2]));
    case OP_NEG:
        return -x;
    case OP_ABS:
        return fabs(x);
    case OP_RCP: /* the high word alone, as of a device */
        return double_of(bits_of_double(1 / x) & ~(uint64_t)0xffffffff);
    default:
        unknown(w);
    }
}

static uint64_t result(const struct work *w)
{
    if (w->ins->type == T_F32)
        return bits_of(float_result(w));
    if (w->ins->type == T_F64)
        return bits_of_double(double_result(w));
    return whole_of(w->ins->part ? T_B64 : w->ins->type, whole_result(w));
}

/* --- comparing, converting -------------------------------------------------------- */

static bool ordered(enum ptx_compare compare, int order)
{
    return compare == C_EQ   ? order == 0
           : compare == C_NE ? order != 0
           : compare == C_LT ? order < 0
           : compare == C_LE ? order <= 0
           : compare == C_GT ? order > 0
                             : order >= 0;
}

static bool compared(const struct work *w)
{
    const enum ptx_type type = w->ins->type;
    const bool is_real = type == T_F32 || type == T_F64;
    uint64_t a, b;

    if (is_real) {
        const double x = type == T_F32 ? (double)float_of(w->x[0]) : double_of(w->x[0]);
        const double y = type == T_F32 ? (double)float_of(w->x[1]) : double_of(w->x[1]);

        if (isnan(x) || isnan(y) || w->ins->compare == C_NAN)
            return w->ins->compare >= C_NAN && (isnan(x) || isnan(y));
        return ordered(w->ins->compare < C_EQU ? w->ins->compare : w->ins->compare - C_EQU,
                       (x > y) - (x < y));
    }
    a = whole_of(type, w->x[0]);
    b = whole_of(type, w->x[1]);
    return ordered(w->ins->compare, is_less(type, b, a) - is_less(type, a, b));
}

static uint64_t float_from(const struct work *w, enum ptx_type from, uint64_t x)
{
    float y;

    if (from == T_F64)
        y = (float)double_of(x);
    else if (from == T_F32)
        y = float_of(x);
    else if (from == T_BF16)
        y = half_of(x);
    else
        y = is_signed(from) ? (float)(int64_t)whole_of(from, x) : (float)whole_of(from, x);
    if (w->ins->is_saturated)
        y = isnan(y) ? 0 : fminf(fmaxf(y, 0), 1);
    return bits_of(y);
}

static uint64_t converted(const struct work *w)
{
    const enum ptx_type to = w->ins->type, from = w->ins->from;
    const uint64_t x = w->x[0];

    if (to == T_F32)
        return float_from(w, from, x);
    if (to == T_BF16)
        return half_bits(float_of(x));
    if (to == T_F64)
        return bits_of_double(from == T_F32     ? (double)float_of(x)
                              : is_signed(from) ? (double)(int64_t)whole_of(from, x)
                                                : (double)whole_of(from, x));
    if (from == T_F64) {
        if (w->ins->rounding != R_ZERO || to != T_S32)
            unknown(w);
        return (uint32_t)(fabs(double_of(x)) < 0x1p31 ? (int32_t)double_of(x) : INT32_MIN);
    }
    if (from != T_F32)
        return whole_of(to, whole_of(from, x));
    if (w->ins->rounding != R_ZERO || to != T_S64)
        unknown(w);
    return (uint64_t)(fabsf(float_of(x)) < 0x1p63F ? (int64_t)float_of(x) : INT64_MIN);
}

/* --- moving -------------------------------------------------------------------------- */

/* {a, b} from one, or one from {a, b}. */
static void move(struct ptx_thread *t, const struct ptx_ins *ins)
{
    const unsigned n = ins->vector, bits = byte_of[ins->type] * 8U / n;
    const uint64_t mask = bits > 63 ? ~UINT64_C(0) : (UINT64_C(1) << bits) - 1;
    uint64_t all = 0;

    if (n < 2) {
        t->slot[ins->slot[0]] = t->slot[ins->slot[1]];
        return;
    }
    for (unsigned i = 0; i < n; i++)
        if (ins->is_pack)
            all |= (t->slot[ins->slot[1 + i]] & mask) << i * bits;
        else
            t->slot[ins->slot[i]] = t->slot[ins->slot[n]] >> i * bits & mask;
    if (ins->is_pack)
        t->slot[ins->slot[0]] = all;
}

static void load(struct ptx_block *b, unsigned thread, const struct ptx_ins *ins)
{
    struct ptx_thread *const t = &b->thread[thread];
    const size_t n = byte_of[ins->type];
    const uint64_t at = t->slot[ins->slot[ins->vector]] + (uint64_t)ins->offset;
    unsigned char value[32];

    ptx_read(b, thread, ins->space, at, value, n * ins->vector);
    for (unsigned i = 0; i < ins->vector; i++) {
        uint64_t x = 0;

        memcpy(&x, value + i * n, n);
        t->slot[ins->slot[i]] = whole_of(ins->type, x);
    }
}

static void put(struct ptx_block *b, unsigned thread, const struct ptx_ins *ins)
{
    struct ptx_thread *const t = &b->thread[thread];
    const size_t n = byte_of[ins->type];
    unsigned char value[32];

    for (unsigned i = 0; i < ins->vector; i++)
        memcpy(value + i * n, &t->slot[ins->slot[1 + i]], n);
    ptx_write(b, thread, ins->space, t->slot[ins->slot[0]] + (uint64_t)ins->offset, value,
              n * ins->vector);
}

/* The largest, of unsigned numbers. */
static void raise(struct ptx_block *b, unsigned thread, const struct ptx_ins *ins)
{
    struct ptx_thread *const t = &b->thread[thread];
    const size_t n = byte_of[ins->type];
    void *const at = ptx_global(b, thread, t->slot[ins->slot[1]] + (uint64_t)ins->offset, n);
    const uint64_t x = whole_of(ins->type, t->slot[ins->slot[2]]);
    uint64_t old = 0;

    memcpy(&old, at, n);
    if (x > old)
        memcpy(at, &x, n);
    t->slot[ins->slot[0]] = old;
}

static void copy(struct ptx_block *b, unsigned thread, const struct ptx_ins *ins)
{
    struct ptx_thread *const t = &b->thread[thread];

    if (ins->part == 1)
        t->n_group++;
    else if (ins->part == 2)
        ptx_copies_wait(b, thread, t->slot[ins->slot[0]]);
    else
        ptx_copy_later(b, thread, t->slot[ins->slot[0]], t->slot[ins->slot[1]],
                       t->slot[ins->slot[3]]);
}

static void compute(struct ptx_block *b, unsigned thread, const struct ptx_ins *ins)
{
    struct ptx_thread *const t = &b->thread[thread];
    struct work w = { .b = b, .thread = thread, .ins = ins };

    for (int i = 1; i < ins->n; i++)
        w.x[i - 1] = t->slot[ins->slot[i]];
    switch (ins->op) {
    case OP_SETP:
        t->slot[ins->slot[0]] = compared(&w);
        break;
    case OP_SELP:
        t->slot[ins->slot[0]] = w.x[2] & 1 ? w.x[0] : w.x[1];
        break;
    case OP_CVT:
        t->slot[ins->slot[0]] = converted(&w);
        break;
    case OP_CVTA:
        t->slot[ins->slot[0]] = w.x[0];
        break;
    default:
        t->slot[ins->slot[0]] = result(&w);
    }
}

/* Returns false where the thread stops. */
static bool step(struct ptx_block *b, unsigned thread, const struct ptx_ins *ins)
{
    struct ptx_thread *const t = &b->thread[thread];

    switch (ins->op) {
    case OP_NOP:
        break;
    case OP_MOV:
        move(t, ins);
        break;
    case OP_LD:
        load(b, thread, ins);
        break;
    case OP_ST:
        put(b, thread, ins);
        break;
    case OP_ATOM:
        raise(b, thread, ins);
        break;
    case OP_CP:
        copy(b, thread, ins);
        break;
    case OP_BRA:
        t->pc = (size_t)ins->offset;
        return true;
    case OP_RET:
        t->state = AT_END;
        return false;
    case OP_BAR:
        t->state = AT_BARRIER;
        break;
    case OP_SHFL:
    case OP_LDMATRIX:
    case OP_MMA:
        t->state = AT_EXCHANGE;
        return false;
    default:
        compute(b, thread, ins);
    }
    t->pc++;
    return t->state == AT_WORK;
}

void ptx_go_on(struct ptx_block *b, unsigned thread)
{
    struct ptx_thread *const t = &b->thread[thread];
    bool goes_on = true;

    while (goes_on) {
        const struct ptx_ins *const ins = &b->k->ins[t->pc];

        if (t->pc >= b->k->n_ins)
            ptx_fail(b, thread, "a thread ran past the end", t->pc);
        if (++b->count > UINT64_C(400000000))
            ptx_fail(b, thread, "a launch does not end", b->count);
        if (ins->guard >= 0 && (bool)(t->slot[ins->guard] & 1) == ins->is_guard_false)
            t->pc++;
        else
            goes_on = step(b, thread, ins);
    }
}

/* --- together ------------------------------------------------------------------------- */

static void shuffle(struct ptx_block *b, unsigned first, const struct ptx_ins *ins)
{
    uint64_t value[WARP];

    for (unsigned l = 0; l < WARP; l++)
        value[l] = b->thread[first + l].slot[ins->slot[2]];
    for (unsigned l = 0; l < WARP; l++) {
        struct ptx_thread *const t = &b->thread[first + l];
        const unsigned by = (unsigned)t->slot[ins->slot[3]] & 31;

        if ((uint32_t)t->slot[ins->slot[5]] != 0xffffffff ||
            ((uint32_t)t->slot[ins->slot[4]] & 0x1f) != 31)
            ptx_fail(b, first + l, "an exchange that is not of the whole warp",
                     t->slot[ins->slot[5]]);
        t->slot[ins->slot[0]] = (uint32_t)value[ins->part ? l ^ by : by];
        t->slot[ins->slot[1]] = 1;
    }
}

/* Lane 8 i + r says where row r of matrix i lies; lane 4 g + t gets columns 2t, 2t + 1 of row g. */
static void load_matrices(struct ptx_block *b, unsigned first, const struct ptx_ins *ins)
{
    uint16_t row[WARP][8];

    for (unsigned l = 0; l < WARP; l++)
        ptx_read(b, first + l, S_SHARED,
                 b->thread[first + l].slot[ins->slot[4]] + (uint64_t)ins->offset, row[l],
                 sizeof(row[l]));
    for (unsigned l = 0; l < WARP; l++)
        for (unsigned i = 0; i < 4; i++) {
            const unsigned g = l / 4, t = l % 4;
            const uint16_t low = ins->part ? row[8 * i + 2 * t][g] : row[8 * i + g][2 * t];
            const uint16_t high = ins->part ? row[8 * i + 2 * t + 1][g] : row[8 * i + g][2 * t + 1];

            b->thread[first + l].slot[ins->slot[i]] = low | (uint64_t)high << 16;
        }
}

/* d = a b + c, 16 x 8 x 16, by the layout of fragments in PTX's book. */
static void multiply(struct ptx_block *b, unsigned first, const struct ptx_ins *ins)
{
    float left[16][16], right[16][8];

    for (unsigned l = 0; l < WARP; l++)
        for (unsigned i = 0; i < 8; i++) { /* the i-th number of a, and of b for i < 4 */
            const uint64_t *const slot = b->thread[first + l].slot;
            const unsigned g = l / 4, t = l % 4, half = i % 2 * 16;

            left[g + i / 2 % 2 * 8][2 * t + i % 2 + i / 4 * 8] =
                half_of(slot[ins->slot[4 + i / 2]] >> half);
            if (i < 4)
                right[2 * t + i % 2 + i / 2 * 8][g] = half_of(slot[ins->slot[8 + i / 2]] >> half);
        }
    for (unsigned l = 0; l < WARP; l++) {
        uint64_t *const slot = b->thread[first + l].slot;
        uint64_t d[4];

        for (unsigned i = 0; i < 4; i++) {
            const unsigned row = l / 4 + i / 2 * 8, col = l % 4 * 2 + i % 2;
            float s = float_of(slot[ins->slot[10 + i]]);

            for (unsigned k = 0; k < 16; k++)
                s += left[row][k] * right[k][col];
            d[i] = bits_of(s);
        }
        for (unsigned i = 0; i < 4; i++)
            slot[ins->slot[i]] = d[i];
    }
}

void ptx_exchange(struct ptx_block *b, unsigned first)
{
    const size_t pc = b->thread[first].pc;
    const struct ptx_ins *const ins = &b->k->ins[pc];

    if (ins->op == OP_SHFL)
        shuffle(b, first, ins);
    else if (ins->op == OP_LDMATRIX)
        load_matrices(b, first, ins);
    else
        multiply(b, first, ins);
    for (unsigned l = 0; l < WARP; l++) {
        b->thread[first + l].pc = pc + 1;
        b->thread[first + l].state = AT_WORK;
    }
}

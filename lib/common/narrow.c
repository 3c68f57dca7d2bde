/* SPDX-License-Identifier: MIT */
#include "common/narrow.h"

#include "common/simd.h"

enum { CELL_MAX = SPOT_NARROW_NONE - 1 };

#define BASE_MAX (INT64_C(1) << 60)
#define UNIT_MAX (UINT64_C(1) << 52)

/* A quotient is the low bits of the dividend times the inverse of the unit's odd part, if there is
 * no remainder: the product tells. Cells are -128 to 126. */
SPOT_SIMD_INLINE void divide(const int64_t *value, size_t n, uint64_t base, uint64_t unit,
                             uint32_t inverse, int8_t *cell, bool *fits)
{
    const int shift = unit ? __builtin_ctzll(unit) : 0;
    uint64_t bad = 0;

    for (size_t k = 0; k < n; k++) {
        const uint64_t x = (uint64_t)value[k] - base;
        const int64_t q = unit == 1 ? (int64_t)x : (int32_t)((uint32_t)(x >> shift) * inverse);
        const int64_t is_none = -(int64_t)(value[k] == INT64_MIN);
        const uint64_t beyond = (((uint64_t)q + 128) | ((uint64_t)q + 129)) & ~UINT64_C(0xff);

        cell[k] = (int8_t)((q & ~is_none) | (SPOT_NARROW_NONE & is_none));
        bad |= (unit == 1 ? beyond : ((uint64_t)q * unit ^ x) | beyond) & ~(uint64_t)is_none;
    }
    *fits = !bad;
}

/* A unit of 1 needs no product: twice as fast. */
SPOT_SIMD_INLINE void encode_inline(const struct spot_narrow *w, const int64_t *value, size_t n,
                                    int8_t *cell, bool *fits)
{
    const uint64_t base = (uint64_t)w->base, unit = (uint64_t)w->unit;
    const uint32_t odd = unit ? (uint32_t)(unit >> __builtin_ctzll(unit)) : 0;
    uint32_t inverse = odd;

    for (int k = 0; k < 4; k++)
        inverse *= 2 - odd * inverse; /* 3 bits are right at first, then 6, 12, 24, 48 */
    if (unit == 1)
        divide(value, n, base, 1, 1, cell, fits);
    else
        divide(value, n, base, unit, inverse, cell, fits);
}

SPOT_SIMD_TWICE(encode,
                (const struct spot_narrow *w, const int64_t *value, size_t n, int8_t *cell,
                 bool *fits),
                (w, value, n, cell, fits))

/* The greatest common divisor of the unit and of all steps from the base. */
static uint64_t unit_with(const struct spot_narrow *w, const int64_t *value, size_t n)
{
    uint64_t unit = (uint64_t)w->unit;

    for (size_t k = 0; k < n; k++) {
        const int64_t step = (int64_t)((uint64_t)value[k] - (uint64_t)w->base);
        uint64_t x = value[k] == INT64_MIN ? 0 : step < 0 ? -(uint64_t)step : (uint64_t)step;

        while (x) {
            const uint64_t rest = unit % x;

            unit = x, x = rest;
        }
    }
    return unit;
}

/* False, and nothing is changed, if a cell does not allow it. */
static bool change_unit(struct spot_narrow *w, uint64_t unit)
{
    const int64_t times = w->unit ? w->unit / (int64_t)unit : 1;
    int least = 0, most = 0;

    for (size_t k = 0; k < w->n; k++) {
        const int x = w->cell[k] == SPOT_NARROW_NONE ? 0 : w->cell[k];

        least = x < least ? x : least;
        most = x > most ? x : most;
    }
    if (unit > UNIT_MAX || times > CELL_MAX || most * times > CELL_MAX || least * times < -CELL_MAX)
        return false;
    for (size_t k = 0; k < w->n; k++)
        if (w->cell[k] != SPOT_NARROW_NONE)
            w->cell[k] = (int8_t)(w->cell[k] * times);
    w->unit = (int64_t)unit;
    return true;
}

static bool is_fit(struct spot_narrow *w, const int64_t *value, size_t n)
{
    bool fits;

    encode(w, value, n, w->cell + w->n, &fits);
    return fits;
}

bool spot_narrow_add(struct spot_narrow *w, const int64_t *value, size_t n)
{
    for (size_t k = 0; k < n && !w->has_base; k++)
        if (value[k] != INT64_MIN)
            w->base = value[k], w->has_base = true;
    if (w->base > BASE_MAX || w->base < -BASE_MAX)
        return false;
    if (!is_fit(w, value, n)) {
        const uint64_t unit = unit_with(w, value, n);

        if (unit == (uint64_t)w->unit || !change_unit(w, unit) || !is_fit(w, value, n))
            return false;
    }
    w->n += n;
    return true;
}

SPOT_SIMD_INLINE void decode_inline(const int8_t *cell, size_t n, int64_t base, int64_t unit,
                                    int64_t *value)
{
    for (size_t k = 0; k < n; k++)
        value[k] = cell[k] == SPOT_NARROW_NONE ? INT64_MIN : base + unit * cell[k];
}

SPOT_SIMD_TWICE(decode, (const int8_t *cell, size_t n, int64_t base, int64_t unit, int64_t *value),
                (cell, n, base, unit, value))

void spot_narrow_widen(const struct spot_narrow *w, size_t at, size_t n, int64_t *value)
{
    decode(w->cell + at, n, w->base, w->unit, value);
}

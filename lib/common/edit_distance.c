/* SPDX-License-Identifier: MIT */
#include "common/edit_distance.h"

#include <string.h>

size_t spot_edit_distance(const char *a, const char *b)
{
    size_t row[64];
    const size_t nb = strlen(b);

    if (nb >= 63 || strlen(a) >= 63)
        return 99;
    for (size_t j = 0; j <= nb; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diag = row[0];

        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            const size_t sub = diag + (a[i - 1] != b[j - 1]);
            const size_t del = row[j] + 1, ins = row[j - 1] + 1;

            diag = row[j];
            row[j] = sub < del ? sub : del;
            row[j] = ins < row[j] ? ins : row[j];
        }
    }
    return row[nb];
}

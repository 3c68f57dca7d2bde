/* SPDX-License-Identifier: MIT */
#include "train/pins.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

static bool is_same(const struct spot_pins *pins, const struct spot_plan_doc *plan)
{
    if (pins->n != plan->n_place)
        return false;
    for (size_t i = 0; i < pins->n; i++) {
        const struct spot_pin *const pin = &pins->pin[i];
        const struct spot_plan_place *const at = &plan->place[i];

        if (pin->d != at->d || pin->p != at->p || pin->m != at->m || strcmp(pin->name, at->node))
            return false;
    }
    return true;
}

bool spot_pins_take(struct spot_pins *pins, const struct spot_plan_doc *plan)
{
    if (is_same(pins, plan))
        return false;
    free(pins->pin);
    pins->n = plan->n_place;
    pins->pin = spot_xcalloc(pins->n + 1, sizeof(*pins->pin));
    for (size_t i = 0; i < pins->n; i++) {
        const struct spot_plan_place *const at = &plan->place[i];

        pins->pin[i] = (struct spot_pin){ .d = at->d, .p = at->p, .m = at->m };
        strncpy(pins->pin[i].name, at->node, sizeof(pins->pin[i].name) - 1);
    }
    return true;
}

void spot_pins_release(struct spot_pins *pins)
{
    free(pins->pin);
    *pins = (struct spot_pins){ NULL, 0 };
}

size_t spot_pin_position(const struct spot_grid *grid, const struct spot_pin *pin)
{
    return (size_t)((pin->d * grid->P + pin->p) * grid->M + pin->m);
}

bool spot_pin_put(int *node_of_position, size_t n, size_t position, int node)
{
    if (node_of_position[position] == node)
        return false;
    for (size_t k = 0; k < n; k++)
        if (node_of_position[k] == node)
            node_of_position[k] = node_of_position[position];
    node_of_position[position] = node;
    return true;
}

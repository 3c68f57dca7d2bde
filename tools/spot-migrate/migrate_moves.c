/* SPDX-License-Identifier: MIT */
#include "migrate.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

static const char *format(struct moves_doc *moves, const char *fmt, ...) SPOT_PRINTF(2, 3);

static const char *format(struct moves_doc *moves, const char *fmt, ...)
{
    char line[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    moves->text = spot_xgrow(moves->text, &moves->text_cap, moves->n_text + 1, sizeof *moves->text);
    return moves->text[moves->n_text++] = spot_xstrdup(line);
}

static void put_reason(struct moves_doc *moves, const char *text)
{
    moves->doc.why =
        spot_xgrow(moves->doc.why, &moves->why_cap, moves->doc.n_why + 1, sizeof *moves->doc.why);
    moves->doc.why[moves->doc.n_why++] = text;
}

/* The planes in text form, such as "w16+master". */
static const char *plane_of(struct moves_doc *moves, const struct spot_layout *to,
                            unsigned components)
{
    char line[256] = "";
    size_t n = 0;

    if (!components)
        return "kv";
    for (size_t k = 0; k < to->n_component; k++)
        if (components >> k & 1 && n < sizeof line - 64)
            n += (size_t)snprintf(line + n, sizeof line - n, "%s%.48s", n ? "+" : "",
                                  to->component[k].name);
    return format(moves, "%s", line);
}

static void fill_unit(struct moves_doc *moves, const struct spot_reshard_part *from,
                      const struct spot_layout *to, struct spot_moves_unit *unit)
{
    unit->byte = from->byte;
    unit->kv = from->kv >= 0 ? to->kv[from->kv].name : NULL;
    unit->n_piece = from->n_piece;
    unit->piece = spot_xcalloc(from->n_piece, sizeof *unit->piece);
    for (size_t k = 0; k < from->n_piece; k++) {
        const struct spot_reshard_piece *p = &from->piece[k];

        unit->piece[k] =
            (struct spot_moves_piece){ p->first,
                                       p->last,
                                       p->lo,
                                       p->hi,
                                       p->byte,
                                       from->kv >= 0 ? "cache" : spot_group_name[p->group],
                                       plane_of(moves, to, p->components) };
    }
}

/* Number the parts that are sent or lost. Returns the unit of each part, -1 for none. */
static int64_t *number_units(struct moves_doc *moves, const struct spot_reshard *reshard,
                             const struct spot_layout *to, const struct spot_migration_plan *plan)
{
    const size_t n = reshard->n_part;
    int64_t *unit_of = spot_xcalloc(n, sizeof *unit_of);
    struct spot_moves_doc *doc = &moves->doc;

    for (size_t k = 0; k < plan->n_move; k++)
        unit_of[plan->move[k].part] = 1;
    for (size_t k = 0; k < plan->n_loss; k++)
        unit_of[plan->loss[k].part] = 1;
    doc->unit = spot_xcalloc(n, sizeof *doc->unit);
    for (size_t k = 0; k < n; k++) {
        const bool is_named = unit_of[k];

        unit_of[k] = is_named ? (int64_t)doc->n_unit : -1;
        if (is_named)
            fill_unit(moves, &reshard->part[k], to, &doc->unit[doc->n_unit++]);
    }
    return unit_of;
}

static void fill_moves(struct spot_moves_doc *doc, const struct spot_migration_problem *problem,
                       const struct spot_migration_plan *plan, const int64_t *unit_of)
{
    doc->n_move = plan->n_move;
    doc->move = spot_xcalloc(plan->n_move, sizeof *doc->move);
    for (size_t k = 0; k < plan->n_move; k++) {
        const struct spot_migration_move *m = &plan->move[k];

        doc->move[k] = (struct spot_moves_transfer){ (int64_t)k,
                                                     unit_of[m->part],
                                                     m->begin,
                                                     m->end,
                                                     problem->cluster->node[m->from].name,
                                                     problem->cluster->node[m->to].name,
                                                     !m->is_urgent,
                                                     m->is_relayed,
                                                     m->begin_s,
                                                     m->end_s };
    }
    doc->n_lost = plan->n_loss;
    doc->lost = spot_xcalloc(plan->n_loss, sizeof *doc->lost);
    for (size_t k = 0; k < plan->n_loss; k++) {
        const struct spot_migration_loss *l = &plan->loss[k];

        doc->lost[k] =
            (struct spot_moves_lost){ unit_of[l->part],
                                      problem->reshard.part[l->part].byte,
                                      l->fate == SPOT_FATE_CHECKPOINT ? "checkpoint" : "recompute",
                                      l->is_chosen,
                                      l->group,
                                      isnan(l->recovery_s) ? -1 : l->recovery_s };
    }
}

static void fill_groups(struct spot_moves_doc *doc, const struct spot_layout *to,
                        const struct spot_migration_plan *plan)
{
    static const char *const what[] = { "state", "bundles", "cache" };

    doc->n_lost_group = plan->n_group;
    doc->lost_group = spot_xcalloc(plan->n_group, sizeof *doc->lost_group);
    for (size_t k = 0; k < plan->n_group; k++) {
        const struct spot_migration_group *g = &plan->group[k];
        const bool is_cache = g->kind == SPOT_KIND_CACHE;

        doc->lost_group[k] = (struct spot_moves_group){ what[g->kind],
                                                        is_cache ? "recompute" : "checkpoint",
                                                        g->byte,
                                                        g->first,
                                                        g->last,
                                                        is_cache ? to->kv[g->kv].name : NULL,
                                                        isnan(g->recovery_s) ? -1 : g->recovery_s };
    }
    doc->recovery_s = isnan(plan->recovery_s) ? -1 : plan->recovery_s;
    doc->recovery_bound_s = isnan(plan->recovery_bound_s) ? -1 : plan->recovery_bound_s;
}

static void fill_places(struct spot_moves_doc *doc, const struct spot_layout *to,
                        const struct spot_migration_problem *problem,
                        const struct spot_migration_plan *plan)
{
    doc->n_place = (size_t)plan->n_position;
    doc->place = spot_xcalloc(doc->n_place, sizeof *doc->place);
    for (int64_t q = 0; q < plan->n_position; q++)
        doc->place[q] =
            (struct spot_moves_place){ problem->cluster->node[plan->node_of_position[q]].name,
                                       q / to->m / to->p, q / to->m % to->p, q % to->m };
}

/* Fill in the proof: the receiver that is busy all the time, or the senders of the last cut. */
static void fill_proof(struct spot_moves_doc *doc, const struct spot_migration_problem *problem,
                       const struct spot_migration_plan *plan)
{
    const size_t n_node = problem->cluster->n_node;
    bool *is_sender = spot_xcalloc(n_node, sizeof(bool));

    doc->proof = plan->busiest_node >= 0 ? "receiver" : "senders";
    doc->proof_node = spot_xcalloc(n_node, sizeof *doc->proof_node);
    for (size_t k = 0; k < plan->n_move; k++) {
        const struct spot_migration_move *m = &plan->move[k];

        if (plan->busiest_node >= 0 ? m->to == plan->busiest_node : plan->in_cut[m->part]) {
            doc->proof_byte += m->end - m->begin;
            is_sender[m->from] = true;
        }
    }
    for (size_t i = 0; i < n_node; i++)
        if (plan->busiest_node >= 0 ? (int)i == plan->busiest_node : is_sender[i])
            doc->proof_node[doc->n_proof_node++] = problem->cluster->node[i].name;
    free(is_sender);
}

/* Writes, for instance, "bundles 3 to 9, 1.2 GB, have no source in time: checkpoint, 2 s". */
static void explain_group(struct moves_doc *moves, const struct spot_moves_group *g)
{
    const double gb = (double)g->byte / 1e9;
    char name[160], cost[64] = "";

    if (g->kv)
        snprintf(name, sizeof name, "cache %.128s, %.6g GB, has", g->kv, gb);
    else if (!strcmp(g->what, "state"))
        snprintf(name, sizeof name, "the state of this step, %.6g GB of it, has", gb);
    else if (g->first == g->last)
        snprintf(name, sizeof name, "bundle %lld, %.6g GB of it, has", (long long)g->first, gb);
    else
        snprintf(name, sizeof name, "bundles %lld to %lld, %.6g GB of them, have",
                 (long long)g->first, (long long)g->last, gb);
    if (g->recovery_s >= 0)
        snprintf(cost, sizeof cost, ", %.6g s", g->recovery_s);
    put_reason(moves, format(moves, "%s no source in time: %s%s", name, g->how, cost));
}

static void explain_losses(struct moves_doc *moves, const struct spot_migration_plan *plan)
{
    const struct spot_moves_doc *doc = &moves->doc;

    for (size_t k = 0; k < doc->n_lost; k++)
        if (doc->lost[k].is_chosen)
            put_reason(
                moves,
                format(moves,
                       "unit %lld (%s): computing it again takes %.6g s, less than moving it",
                       (long long)doc->lost[k].unit, doc->unit[doc->lost[k].unit].kv,
                       doc->lost[k].recovery_s));
    for (size_t k = 0; k < doc->n_lost_group; k++)
        explain_group(moves, &doc->lost_group[k]);
    if (plan->n_saved < plan->n_at_stake)
        put_reason(moves, format(moves,
                                 "of %d groups held only by leaving nodes, %d are saved in time; a "
                                 "partly saved group is worth nothing",
                                 plan->n_at_stake, plan->n_saved));
    if (doc->n_lost_group && doc->recovery_s >= 0)
        put_reason(moves,
                   format(moves, "recovery takes %.6g s in all; no choice takes less than %.6g s",
                          doc->recovery_s, doc->recovery_bound_s));
}

static void explain(struct moves_doc *moves, const struct spot_migration_problem *problem,
                    const struct spot_migration_plan *plan)
{
    const struct spot_moves_doc *doc = &moves->doc;

    put_reason(moves,
               format(moves,
                      "%zu transfers of %.6g GB in %.6g s; no placement is faster than "
                      "%.6g s",
                      doc->n_move, (double)doc->total_byte / 1e9, doc->makespan_s, doc->bound_s));
    if (doc->n_proof_node && doc->total_byte)
        put_reason(
            moves,
            plan->busiest_node >= 0
                ? format(moves, "this placement cannot be faster: %s receives %.6g GB",
                         doc->proof_node[0], (double)doc->proof_byte / 1e9)
                : format(moves,
                         "this placement cannot be faster: %s and %zu others alone "
                         "hold %.6g GB of it%s",
                         doc->proof_node[0], doc->n_proof_node - 1, (double)doc->proof_byte / 1e9,
                         problem->shares_links ? ", and what they receive takes the same links"
                                               : ""));
    if (problem->shares_links)
        put_reason(moves, format(moves,
                                 "links are shared: the busiest node sends and receives "
                                 "%.6g GB",
                                 (double)doc->busiest_byte / 1e9));
    if (problem->together > 1)
        put_reason(moves,
                   format(moves, "%d ranks of a tensor group share a node", problem->together));
    put_reason(
        moves,
        problem->place ? "the target layout names its nodes"
        : doc->is_exhaustive
            ? format(moves, "every distinct placement was compared or ruled out (%ld)",
                     plan->n_scored)
            : format(moves, "%ld placements were compared, from two exact starts", plan->n_scored));
    if (doc->naive_s > doc->makespan_s * (1 + 1e-9))
        put_reason(moves, format(moves, "with the first holder always sending it would take %.6g s",
                                 doc->naive_s));
    if (problem->restarts)
        put_reason(moves, format(moves,
                                 "serving restarts after %.6g s, with %.6g s a layer; no order of "
                                 "these transfers is sooner than %.6g s%s",
                                 plan->restart_s, problem->layer_s, plan->restart_bound_s,
                                 plan->is_every_order ? ", and every order was compared" : ""));
    explain_losses(moves, plan);
}

void moves_doc_init(struct moves_doc *moves, const struct spot_layout *to,
                    const struct spot_migration_problem *problem,
                    const struct spot_migration_plan *plan)
{
    struct spot_moves_doc *doc = &moves->doc;
    int64_t *unit_of;

    *moves = (struct moves_doc){ 0 };
    doc->makespan_s = plan->makespan_s;
    doc->bound_s = plan->bound_s;
    doc->gap = plan->bound_s > 0 ? fmax(plan->makespan_s / plan->bound_s - 1, 0) : 0;
    doc->naive_s = plan->naive_s;
    doc->in_order_s = plan->in_order_s;
    doc->restart_s = problem->restarts ? plan->restart_s : -1;
    doc->restart_bound_s = plan->restart_bound_s;
    doc->usd = plan->usd;
    doc->peak_extra_byte = plan->peak_extra_byte;
    doc->total_byte = plan->total_byte;
    doc->bound_byte = plan->bound_byte;
    doc->busiest_byte = plan->busiest_byte;
    doc->lost_byte = plan->lost_byte;
    doc->n_touched = plan->n_touched;
    doc->n_compared = plan->n_scored;
    doc->is_exhaustive = plan->is_exhaustive;
    unit_of = number_units(moves, &problem->reshard, to, plan);
    fill_moves(doc, problem, plan, unit_of);
    fill_groups(doc, to, plan);
    fill_places(doc, to, problem, plan);
    fill_proof(doc, problem, plan);
    explain(moves, problem, plan);
    free(unit_of);
}

void moves_doc_release(struct moves_doc *moves)
{
    for (size_t k = 0; k < moves->n_text; k++)
        free(moves->text[k]);
    free(moves->text);
    free(moves->doc.why), free(moves->doc.proof_node);
    spot_moves_release(&moves->doc);
    *moves = (struct moves_doc){ 0 };
}

void moves_table(const struct moves_doc *moves, FILE *out, enum spot_format format)
{
    struct spot_table table;

    spot_table_init(&table, "order#,from,to,byte#,what,bundle,begin_s#,end_s#");
    for (size_t k = 0; k < moves->doc.n_move; k++) {
        const struct spot_moves_transfer *m = &moves->doc.move[k];
        const struct spot_moves_unit *unit = &moves->doc.unit[m->unit];
        const struct spot_moves_piece *last = &unit->piece[unit->n_piece - 1];
        char bundles[48];

        snprintf(bundles, sizeof bundles, "%lld-%lld", (long long)unit->piece[0].first,
                 (long long)last->last);
        spot_table_add(&table, "%lld %s %s %lld %s %s %.6f %.6f", (long long)m->order, m->from,
                       m->to, (long long)(m->byte_to - m->byte_from),
                       unit->kv ? unit->kv : unit->piece[0].plane, bundles, m->begin_s, m->end_s);
    }
    spot_table_print(&table, out, format);
    spot_table_release(&table);
}

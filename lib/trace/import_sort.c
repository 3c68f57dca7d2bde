/* SPDX-License-Identifier: MIT */
/* The second half of an import: sort the rows, drop repetitions, make traces and tables. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv_write.h"
#include "common/xalloc.h"
#include "trace/import.h"
#include "trace/trace_write.h"

/* Texts are interned: equal ones have equal addresses, but only strcmp orders
 * them the same in every run. */
static int compare_text(const char *a, const char *b)
{
    return a == b ? 0 : strcmp(a, b);
}

static int compare_place(const char *const a[3], const char *const b[3])
{
    for (int i = 0; i < 3; i++) {
        const int c = compare_text(a[i], b[i]);

        if (c)
            return c;
    }
    return 0;
}

struct ranked { /* a rank makes qsort stable */
    const void *item;
    size_t rank;
};

static int compare_rows(const void *a, const void *b)
{
    const struct ranked *p = a, *q = b;
    const struct spot_import_row *x = p->item, *y = q->item;
    const int place = compare_place((const char *const[]){ x->zone, x->instance_type, x->extra },
                                    (const char *const[]){ y->zone, y->instance_type, y->extra });

    if (x->time_s != y->time_s)
        return x->time_s < y->time_s ? -1 : 1;
    return place ? place : (p->rank > q->rank) - (p->rank < q->rank);
}

/* Nodes by time and place; at equal ones in the order read, so that add and remove of a node keep
 * their order. */
static int compare_nodes(const void *a, const void *b)
{
    const struct ranked *p = a, *q = b;
    const struct spot_import_node *x = p->item, *y = q->item;
    const int place = compare_place((const char *const[]){ x->zone, x->instance_type, "" },
                                    (const char *const[]){ y->zone, y->instance_type, "" });

    if (x->time_s != y->time_s)
        return x->time_s < y->time_s ? -1 : 1;
    return place ? place : (p->rank > q->rank) - (p->rank < q->rank);
}

/* Sort n items of `size` bytes at base, stably. */
static void sort_stable(void *base, size_t n, size_t size,
                        int (*compare)(const void *, const void *))
{
    struct ranked *ranked = spot_xcalloc(n, sizeof(*ranked));
    char *sorted = spot_xcalloc(n, size);

    for (size_t i = 0; i < n; i++)
        ranked[i] = (struct ranked){ (char *)base + i * size, i };
    qsort(ranked, n, sizeof(*ranked), compare);
    for (size_t i = 0; i < n; i++)
        memcpy(sorted + i * size, ranked[i].item, size);
    if (n)
        memcpy(base, sorted, n * size);
    free(sorted);
    free(ranked);
}

static bool is_same_row(const struct spot_import_row *a, const struct spot_import_row *b)
{
    return a->time_s == b->time_s && a->zone == b->zone && a->instance_type == b->instance_type &&
           a->extra == b->extra;
}

/* Numbers of series and nodes, by first appearance. */
struct numbers {
    struct spot_names zone, series, node;
    bool *is_there;     /* [node.n] */
    int32_t *available; /* [series.n] */
    size_t there_cap, available_cap;
};

static size_t number_series(struct numbers *n, const char *zone, const char *type)
{
    const size_t z = spot_names_intern(&n->zone, 0, zone);
    const size_t known = n->series.n;
    const size_t s = spot_names_intern(&n->series, (uint32_t)z, type);

    n->available = spot_xgrow(n->available, &n->available_cap, n->series.n, sizeof(int32_t));
    if (s == known)
        n->available[s] = 0;
    return s;
}

static void release_numbers(struct numbers *n)
{
    spot_names_release(&n->zone);
    spot_names_release(&n->series);
    spot_names_release(&n->node);
    free(n->is_there);
    free(n->available);
}

/* The events kept for a node at one time, as index + 1; 0: none. */
struct said {
    size_t first, last, at; /* at: the position that the current reading has reached */
    size_t newest;          /* the event read last, kept or not */
    unsigned long line;
    const char *source;
};

struct moments {
    struct numbers number;
    struct spot_import_node *kept; /* [n] */
    size_t n, *next;               /* next: the next event of the same node and time */
    size_t *node;                  /* [n_node] node of each event of the import */
    struct said *said;             /* [number.node.n] */
    size_t said_cap;
};

/* True if an earlier reading of that time had this event, or the current reading had it just
 * before. Overlapping files repeat a time, each in its own order: their new events come after the
 * rest. */
static bool is_repeated(const struct moments *m, struct said *said,
                        const struct spot_import_node *e)
{
    const bool is_new_reading = said->source != e->source || e->line <= said->line;
    const size_t was = is_new_reading ? 0 : said->at;
    size_t k = was ? m->next[was - 1] : said->first;

    said->line = e->line;
    said->source = e->source;
    if (was && m->kept[was - 1].kind == e->kind)
        return true;
    while (k && m->kept[k - 1].kind != e->kind)
        k = m->next[k - 1];
    if (k)
        said->at = k;
    return k;
}

static void keep(struct moments *m, struct said *said, const struct spot_import_node *e)
{
    m->kept[m->n++] = *e;
    if (said->last)
        m->next[said->last - 1] = m->n;
    else
        said->first = m->n;
    said->last = said->at = m->n;
}

/* A node that comes, leaves and comes again at one time has three events there; the state read last
 * is its final one. */
static void keep_moment(struct moments *m, const struct spot_import_node *event, size_t from,
                        size_t to)
{
    for (size_t i = from; i < to; i++) {
        const struct spot_import_node *e = &event[i];
        const size_t series = number_series(&m->number, e->zone, e->instance_type);
        const size_t known = m->number.node.n;
        const size_t k = spot_names_intern(&m->number.node, (uint32_t)series, e->node);

        m->node[i] = k;
        m->said = spot_xgrow(m->said, &m->said_cap, m->number.node.n, sizeof(*m->said));
        if (k == known || m->said[k].newest < from)
            m->said[k] = (struct said){ 0 };
        if (!is_repeated(m, &m->said[k], e))
            keep(m, &m->said[k], e);
        m->said[k].newest = i;
    }
    for (size_t i = from; i < to; i++) {
        struct said *said = &m->said[m->node[i]];

        if (said->newest == i && m->kept[said->last - 1].kind != event[i].kind)
            keep(m, said, &event[i]);
    }
}

static void drop_repeated(struct spot_import *imp)
{
    struct moments m = { .kept = spot_xcalloc(imp->n_node, sizeof(*m.kept)),
                         .next = spot_xcalloc(imp->n_node, sizeof(*m.next)),
                         .node = spot_xcalloc(imp->n_node, sizeof(*m.node)) };

    for (size_t from = 0, to; from < imp->n_node; from = to) {
        for (to = from; to < imp->n_node && imp->node[to].time_s == imp->node[from].time_s;)
            to++;
        keep_moment(&m, imp->node, from, to);
    }
    if (m.n)
        memcpy(imp->node, m.kept, m.n * sizeof(*m.kept));
    imp->n_node = m.n;
    free(m.kept);
    free(m.next);
    free(m.node);
    free(m.said);
    release_numbers(&m.number);
}

void spot_import_sort(struct spot_import *imp)
{
    size_t n = 0;

    sort_stable(imp->row, imp->n_row, sizeof(*imp->row), compare_rows);
    for (size_t i = 0; i < imp->n_row; i++) {
        if (n && is_same_row(&imp->row[n - 1], &imp->row[i]))
            n--; /* the later reading replaces the earlier one */
        imp->row[n++] = imp->row[i];
    }
    imp->n_row = n;
    sort_stable(imp->node, imp->n_node, sizeof(*imp->node), compare_nodes);
    drop_repeated(imp);
}

/* Drop events without effect, or refuse them: a node that comes twice or leaves twice. */
static int check_nodes(struct spot_import *imp, struct spot_err *err)
{
    static const char *const word[] = { "", "add", "remove", "notice" };
    struct numbers n = { 0 };
    size_t kept = 0;
    int rc = 0;

    for (size_t i = 0; i < imp->n_node && !rc; i++) {
        const struct spot_import_node *e = &imp->node[i];
        const size_t series = number_series(&n, e->zone, e->instance_type), known = n.node.n;
        const size_t k = spot_names_intern(&n.node, (uint32_t)series, e->node);
        const bool is_add = e->kind == SPOT_TRACE_ADD;

        n.is_there = spot_xgrow(n.is_there, &n.there_cap, n.node.n, sizeof(bool));
        if (k == known)
            n.is_there[k] = false;
        if (n.is_there[k] != is_add) {
            n.is_there[k] = e->kind != SPOT_TRACE_REMOVE;
            imp->node[kept++] = *e;
        } else if (!imp->is_lenient) {
            rc = spot_err_at(err, e->source, e->line, 1, NULL, "%s of '%.80s', which is %s there",
                             word[e->kind], e->node, is_add ? "already" : "not");
            rc = spot_bad_rows_take(&imp->bad, rc, err);
        }
    }
    imp->n_node = kept;
    release_numbers(&n);
    return rc;
}

static int check_row(const struct numbers *n, double time_s, struct spot_err *err)
{
    if (time_s < 0 || time_s > SPOT_TRACE_TIME_MAX_S)
        return spot_err_set(err, SPOT_EDATA, "a time of %.15g s lies before the origin", time_s);
    if (n->series.n > SPOT_TRACE_SERIES_MAX || n->node.n > SPOT_TRACE_NODES_MAX)
        return spot_err_set(err, SPOT_EDATA, "more series or nodes than a trace may have");
    return 0;
}

static int build_counts(const struct spot_import *imp, struct numbers *n,
                        struct spot_trace_builder *b, struct spot_err *err)
{
    for (size_t i = 0; i < imp->n_row; i++) {
        const struct spot_import_row *r = &imp->row[i];
        const struct spot_trace_row row = { .series = number_series(n, r->zone, r->instance_type),
                                            .zone = r->zone,
                                            .instance_type = r->instance_type,
                                            .time_s = r->time_s,
                                            .available = (int32_t)r->value[0],
                                            .requested = -1,
                                            .price_usd_per_h = NAN };

        if (check_row(n, r->time_s, err) || spot_trace_build(b, &row, err))
            return -1;
    }
    return 0;
}

static int build_nodes(const struct spot_import *imp, struct numbers *n,
                       struct spot_trace_builder *b, struct spot_err *err)
{
    for (size_t i = 0; i < imp->n_node; i++) {
        const struct spot_import_node *e = &imp->node[i];
        const size_t series = number_series(n, e->zone, e->instance_type);
        struct spot_trace_row row = { .series = series,
                                      .zone = e->zone,
                                      .instance_type = e->instance_type,
                                      .time_s = e->time_s,
                                      .requested = -1,
                                      .price_usd_per_h = NAN,
                                      .kind = e->kind,
                                      .node_name = e->node };

        row.node = spot_names_intern(&n->node, (uint32_t)series, e->node);
        n->available[series] += (e->kind == SPOT_TRACE_ADD) - (e->kind == SPOT_TRACE_REMOVE);
        row.available = n->available[series];
        if (check_row(n, e->time_s, err) || spot_trace_build(b, &row, err))
            return -1;
    }
    return 0;
}

/* Events after the last change show that nothing changed until then: add a row for that time. */
static int build_end(const struct spot_import *imp, struct spot_trace_builder *b,
                     struct spot_err *err)
{
    for (size_t k = 0; k < b->trace->n_series; k++) {
        const struct spot_trace_series *s = &b->trace->series[k];
        const struct spot_trace_row row = { .series = k,
                                            .zone = s->zone,
                                            .instance_type = s->instance_type,
                                            .time_s = imp->end_s,
                                            .available = s->available[s->n - 1],
                                            .requested = -1,
                                            .price_usd_per_h = NAN };

        if (s->time_s[s->n - 1] < imp->end_s && spot_trace_build(b, &row, err))
            return -1;
    }
    return 0;
}

int spot_import_trace(struct spot_import *imp, struct spot_trace *trace, struct spot_err *err)
{
    struct spot_trace_builder b = { .trace = trace, .source = "import" };
    struct numbers n = { 0 };
    int rc;

    *trace = (struct spot_trace){ 0 };
    imp->bad = (struct spot_bad_rows){ .is_strict = imp->bad.is_strict };
    if (imp->kind == SPOT_IMPORT_NODE)
        rc = check_nodes(imp, err) || build_nodes(imp, &n, &b, err) || build_end(imp, &b, err) ? -1
                                                                                               : 0;
    else
        rc = build_counts(imp, &n, &b, err);
    if (!rc && !trace->n_series)
        rc = spot_err_set(err, SPOT_EDATA, "nothing to import");
    release_numbers(&n);
    if (rc)
        spot_trace_release(trace);
    else
        spot_trace_find_span(trace);
    return rc;
}

static void write_row(const struct spot_import_row *r, enum spot_import_kind kind, FILE *out)
{
    static const int n_value[] = {
        [SPOT_IMPORT_PRICE] = 1, [SPOT_IMPORT_PROBE] = 4, [SPOT_IMPORT_HAZARD] = 3
    };

    if (kind != SPOT_IMPORT_HAZARD) {
        spot_trace_put_real(out, r->time_s);
        putc(',', out);
    }
    spot_csv_put(out, r->zone, ',');
    putc(',', out);
    spot_csv_put(out, r->instance_type, ',');
    if (kind != SPOT_IMPORT_PROBE) {
        putc(',', out);
        spot_csv_put(out, r->extra, ',');
    }
    for (int i = 0; i < n_value[kind]; i++) {
        putc(',', out);
        if (!isnan(r->value[i]))
            spot_trace_put_real(out, r->value[i]);
    }
    if (kind == SPOT_IMPORT_HAZARD) {
        /* The highest bucket is open: 0.35 stands for "more than 0.20". */
        const double share = r->value[1] >= 1 ? 0.35 : (r->value[0] + r->value[1]) / 2;

        putc(',', out);
        spot_trace_put_real(out, -log1p(-share) / 730);
    }
    putc('\n', out);
}

#define HAZARD_HEADER \
    "zone,instance_type,os,interrupted_min_share,interrupted_max_share,savings_share,hazard_per_h"

void spot_import_write(const struct spot_import *imp, FILE *out)
{
    static const char *const header[] = {
        [SPOT_IMPORT_PRICE] = "time_s,zone,instance_type,market,price_usd_per_h",
        [SPOT_IMPORT_PROBE] = "time_s,zone,instance_type,asked,granted,price_usd_per_h,score",
        [SPOT_IMPORT_HAZARD] = HAZARD_HEADER,
    };

    fprintf(out, "%s\n", header[imp->kind]);
    for (size_t i = 0; i < imp->n_row; i++)
        write_row(&imp->row[i], imp->kind, out);
}

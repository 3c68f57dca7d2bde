/* SPDX-License-Identifier: MIT */
/* Goal: what must travel is counted to the byte, plans meet every need from a holder that has it,
 * and their makespan is the enumerated optimum on recorded and on random small cases. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "migration_rig.h"
#include "plan/assign.h"
#include "plan/migration.h"
#include "plan/migration/migration_inner.h"
#include "suite.h"

#define GOLDEN "../shared/data/golden/migrate/"

static int64_t integer(const struct spot_json_value *obj, const char *key)
{
    return spot_json_integer(spot_json_get(obj, key));
}

static int64_t item(const struct spot_json_value *array, size_t k)
{
    return spot_json_integer(spot_json_entry(array, k));
}

static void write_model(FILE *out, const struct spot_json_value *golden)
{
    const struct spot_json_value *m = spot_json_get(golden, "model_params");
    const char *mlp = spot_json_text(spot_json_get(m, "mlp"));

    fprintf(out,
            "{\"schema\":\"spot.layout/1\",\"model\":{\"layers\":%d,\"width\":%d,\"ffn\":%d,"
            "\"heads\":%d,\"kv_heads\":%d,\"head_dim\":%d,\"vocab\":%d,\"vocab_pad\":%d,"
            "\"positions\":%d,\"norm_elems\":%d,\"gated\":%s,\"bias\":%s},"
            "\"components\":[{\"name\":\"all\",\"byte_per_param\":%d}],",
            (int)integer(m, "L"), (int)integer(m, "h"), (int)integer(m, "f"), (int)integer(m, "a"),
            (int)integer(m, "kv"), (int)integer(m, "hd"), (int)integer(m, "V"),
            (int)integer(m, "vpad"), (int)integer(m, "maxpos"), (int)integer(m, "norm_elems"),
            strcmp(mlp, "gated") ? "false" : "true",
            spot_json_is_true(spot_json_get(m, "bias")) ? "true" : "false", (int)integer(m, "wB"));
}

static void write_grid(FILE *out, const struct spot_json_value *golden, const char *which,
                       bool with_kv)
{
    const struct spot_json_value *grid = spot_json_get(golden, which), *ends, *kv;
    char key[32];

    snprintf(key, sizeof key, "stage_ends_%s", which);
    ends = spot_json_get(golden, key);
    fprintf(out, "\"grid\":{\"D\":%d,\"P\":%d,\"M\":%d},\"stage_ends\":[", (int)item(grid, 0),
            (int)item(grid, 1), (int)item(grid, 2));
    for (size_t k = 0; k < spot_json_array_size(ends); k++)
        fprintf(out, "%s%d", k ? "," : "", (int)item(ends, k));
    kv = spot_json_get(golden, "kv_groups");
    fprintf(out, "],\"kv\":[");
    for (size_t k = 0; k < spot_json_array_size(kv) && with_kv; k++)
        fprintf(out, "%s{\"name\":\"g%zu\",\"d\":%d,\"tokens\":%d}", k ? "," : "", k,
                (int)integer(spot_json_entry(kv, k), which),
                (int)integer(spot_json_entry(kv, k), "tokens"));
    fputs("],\"place\":[", out);
}

static void write_place(FILE *out, const struct spot_json_value *golden, const char *which,
                        size_t q, int64_t node)
{
    const struct spot_json_value *grid = spot_json_get(golden, which);
    const int64_t p = item(grid, 1), m = item(grid, 2);

    fprintf(out, "%s{\"node\":\"i%d\",\"d\":%d,\"p\":%d,\"m\":%d}", q ? "," : "", (int)node,
            (int)((int64_t)q / m / p), (int)((int64_t)q / m % p), (int)((int64_t)q % m));
}

/* The old layout, and the new one with the recorded assignment or without places. */
static void make_layouts(const struct spot_json_value *golden, bool with_kv, bool with_places,
                         struct spot_layout *from, struct spot_layout *to)
{
    const struct spot_json_value *old = spot_json_get(golden, "instance_of_old_position");
    const struct spot_json_value *chosen =
        spot_json_get(golden, "one_optimal_assignment_newpos_to_slot");
    struct spot_err err;

    for (int k = 0; k < 2; k++) {
        char *text;
        size_t n_byte;
        FILE *out = open_memstream(&text, &n_byte);

        write_model(out, golden);
        write_grid(out, golden, k ? "new" : "old", with_kv);
        for (size_t q = 0; !k && q < spot_json_array_size(old); q++)
            write_place(out, golden, "old", q, item(old, q));
        for (size_t q = 0; k && with_places && q < spot_json_array_size(chosen); q++)
            write_place(
                out, golden, "new", q,
                integer(spot_json_entry(spot_json_get(golden, "slots"), (size_t)item(chosen, q)),
                        "instance"));
        fputs("]}", out);
        fclose(out);
        ck_assert_msg(!spot_layout_parse(k ? to : from, text, n_byte, k ? "to" : "from", &err),
                      "%s", err.msg);
        free(text);
    }
}

/* Instances that take slots stay; one with a bandwidth and without slots is leaving, and lives
 * only if some recorded fetch names it as a holder (and never in the cases without caches). */
static void make_cluster(const struct spot_json_value *golden, bool with_leaving,
                         struct spot_cluster *cluster)
{
    const struct spot_json_value *slots = spot_json_get(golden, "slots");
    const struct spot_json_value *fetches = spot_json_get(golden, "nic_fetch_classes");
    char *text;
    size_t n_byte;
    FILE *out = open_memstream(&text, &n_byte);
    bool is_first = true;
    struct spot_err err;

    fputs("{\"schema\":\"spot.cluster/1\",\"nodes\":[", out);
    for (int64_t i = 0; i < 64; i++) {
        int n_slot = 0;
        bool is_sending = false;

        for (size_t k = 0; k < spot_json_array_size(slots); k++)
            n_slot += integer(spot_json_entry(slots, k), "instance") == i;
        for (size_t k = 0; k < spot_json_array_size(fetches); k++) {
            const struct spot_json_value *h = spot_json_get(spot_json_entry(fetches, k), "holders");

            for (size_t j = 0; j < spot_json_array_size(h); j++)
                is_sending = is_sending || item(h, j) == i;
        }
        if (!n_slot && !(is_sending && with_leaving))
            continue;
        fprintf(out, "%s{\"node\":\"i%d\",\"out_byte_per_s\":1.25e9,\"slots\":%d,\"leaving\":%s}",
                is_first ? "" : ",", (int)i, n_slot, n_slot ? "false" : "true");
        is_first = false;
    }
    fputs("]}", out);
    fclose(out);
    ck_assert_msg(!spot_cluster_parse(cluster, text, n_byte, "cluster", &err), "%s", err.msg);
    free(text);
}

/* Needs, overlaps, least bytes and least busiest receiver of single positions. */
static void check_overlaps(const struct spot_json_value *golden, const struct spot_reshard *r)
{
    const struct spot_json_value *need = spot_json_get(golden, "need_bytes_per_new_position");
    const struct spot_json_value *overlap = spot_json_get(golden, "overlap_bytes");
    const struct spot_json_value *slots = spot_json_get(golden, "slots");
    const size_t n_slot = spot_json_array_size(slots), n = (size_t)r->n_new;
    int64_t *in = calloc(n * n_slot, sizeof *in), most;
    const struct spot_assign_problem assign = { .n_row = (int)n, .n_col = (int)n_slot, .cost = in };
    struct spot_assignment answer;

    ck_assert_uint_eq(spot_json_array_size(need), n);
    for (size_t q = 0; q < n; q++)
        ck_assert_int_eq(r->need_byte[q], item(need, q));
    for (size_t slot = 0; slot < n_slot; slot++) {
        const struct spot_json_value *old =
            spot_json_get(spot_json_entry(slots, slot), "old_position");

        for (size_t q = 0; q < n; q++) {
            int64_t sum = 0;

            for (size_t k = 0; k < r->n_part; k++) {
                const struct spot_reshard_part *part = &r->part[k];
                bool has = false, wants = false;

                for (int h = 0; h < part->n_holder; h++)
                    has = has ||
                          (spot_json_is_integer(old) && part->holder[h] == spot_json_integer(old));
                for (int w = 0; w < part->n_want; w++)
                    wants = wants || part->want[w] == (int)q;
                sum += has && wants ? part->byte : 0;
            }
            ck_assert_int_eq(sum, item(spot_json_entry(overlap, slot), q));
            in[q * n_slot + slot] = r->need_byte[q] - sum;
        }
    }
    ck_assert_int_eq(spot_assign(&assign, &answer, NULL), 0);
    ck_assert_int_eq((int64_t)answer.cost, integer(golden, "min_total_bytes_moved_gpu_grain"));
    ck_assert(spot_assign_threshold(&assign, &most));
    ck_assert_int_eq(most, integer(golden, "minmax_bytes_in_gpu_grain"));
    spot_assignment_release(&answer);
    free(in);
}

static int load(struct spot_json_doc *doc, const char *name)
{
    char path[256];

    snprintf(path, sizeof path, "%s%s", GOLDEN, name);
    return spot_json_load_path(doc, path, NULL);
}

static const char *const recorded[] = {
    "reshard_tiny_222_to_132.json",    "reshard_llama7b_222_to_132_grace.json",
    "reshard_llama8b_124_to_222.json", "reshard_llama7b_114_to_132_joiners.json",
    "reshard_gpt2xl_441_to_351.json",  "reshard_gpt2xl_441_to_351_lost_stage.json",
};

START_TEST(needs_overlaps_and_times_of_recorded_cases_are_exact)
{
    struct spot_json_doc doc;
    struct spot_layout from, to;
    struct spot_cluster cluster;
    struct spot_migration_problem problem;
    struct spot_migration_plan plan;

    if (load(&doc, recorded[_i]))
        return;
    make_layouts(doc.root, true, true, &from, &to);
    make_cluster(doc.root, true, &cluster);
    solve(&problem, &from, &to, &cluster, &plan);
    check_overlaps(doc.root, &problem.reshard);
    ck_assert_int_eq(problem.reshard.replica_byte, integer(doc.root, "state_bytes_one_replica"));
    ck_assert_int_eq(plan.total_byte + plan.lost_byte, integer(doc.root, "nic_bytes_total"));
    ck_assert_int_eq(plan.lost_byte, integer(doc.root, "bytes_with_no_live_holder"));
    ck_assert_double_eq_tol(plan.makespan_s,
                            spot_json_number(spot_json_get(doc.root, "T_star_seconds")), 2e-9);
    ck_assert_double_eq_tol(
        plan.naive_s, spot_json_number(spot_json_get(doc.root, "T_lowest_holder_seconds")), 2e-9);
    spot_migration_plan_release(&plan), spot_migration_problem_release(&problem);
    spot_layout_release(&from), spot_layout_release(&to), spot_cluster_release(&cluster);
    spot_json_release(&doc);
}
END_TEST

static void plan_freely(const struct spot_json_value *golden, bool with_kv,
                        struct spot_migration_plan *plan)
{
    struct spot_layout from, to;
    struct spot_cluster cluster;
    struct spot_migration_problem problem;

    make_layouts(golden, with_kv, false, &from, &to);
    make_cluster(golden, with_kv, &cluster);
    solve(&problem, &from, &to, &cluster, plan);
    spot_migration_problem_release(&problem);
    spot_layout_release(&from), spot_layout_release(&to), spot_cluster_release(&cluster);
}

START_TEST(free_placements_reach_the_recorded_optimum)
{
    static const struct {
        const char *file;
        bool with_kv;
        double makespan_s;
        int64_t byte;
    } c[] = {
        { "reshard_llama7b_222_to_132_grace.json", true, 3.332859, 8734801920 },
        { "reshard_llama7b_222_to_132_grace.json", false, 1.619067, 2023833600 },
        { "reshard_llama7b_114_to_132_joiners.json", true, 3.447856, 4309819392 },
        { "reshard_llama8b_124_to_222.json", true, 0, 0 },
        { "reshard_gpt2xl_441_to_351.json", true, 2.75437568, 18936332800 },
    };
    struct spot_json_doc doc;
    struct spot_migration_plan plan;

    if (load(&doc, c[_i].file))
        return;
    plan_freely(doc.root, c[_i].with_kv, &plan);
    ck_assert_double_eq_tol(plan.makespan_s, c[_i].makespan_s, 1e-6);
    ck_assert_int_eq(plan.total_byte, c[_i].byte);
    ck_assert(plan.bound_s <= plan.makespan_s);
    spot_migration_plan_release(&plan);
    spot_json_release(&doc);
}
END_TEST

/* --- random cases against every placement and every set of senders --- */

START_TEST(random_plans_equal_the_best_of_every_placement)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 31, 0);
    for (int k = 0; k < 1500; k++) {
        struct random_case c;
        struct spot_migration_plan plan;
        int node[32] = { 0 };
        double least;

        draw_case(&c, &rng);
        solve(&c.problem, &c.from, &c.to, &c.cluster, &plan);
        least = brute_least(&c, &c.problem.reshard, 1, 0, node);
        ck_assert_msg(fabs(plan.makespan_s - least) <= 1e-9 * least, "case %d: %.12g, best %.12g",
                      k, plan.makespan_s, least);
        ck_assert(plan.is_exhaustive && plan.bound_s <= plan.makespan_s);
        check_moves(&c, &plan);
        spot_migration_plan_release(&plan), spot_migration_problem_release(&c.problem);
        spot_layout_release(&c.from), spot_layout_release(&c.to);
        spot_cluster_release(&c.cluster);
    }
}
END_TEST

/* Against the links of the set: what must leave it for one placement, in the time of another. */
static void check_cut(const struct random_case *c, const struct spot_reshard *r,
                      const struct spot_place_cut *cut, int q, int *node)
{
    if (q < r->n_new) {
        for (int i = 0; i < (int)c->cluster.n_node; i++) {
            bool is_free = !c->cluster.node[i].is_leaving;

            for (int p = 0; p < q; p++)
                is_free = is_free && node[p] != i;
            node[q] = i;
            if (is_free)
                check_cut(c, r, cut, q + 1, node);
        }
        return;
    }
    double byte = (double)cut->fixed_byte;

    for (int p = 0; p < r->n_new; p++)
        byte += (double)cut->byte[(size_t)p * c->cluster.n_node + (size_t)node[p]];
    ck_assert_double_le(byte, cut->rate_byte_per_s * brute_time(c, r, node) * (1 + 1e-9));
}

START_TEST(what_must_leave_a_set_of_senders_bounds_every_placement)
{
    struct spot_rng rng;
    int n_cut = 0;

    spot_rng_init(&rng, 33, 0);
    for (int k = 0; k < 800; k++) {
        struct random_case c;
        struct spot_migration_plan plan;
        struct spot_migration s;
        struct spot_place_cut cut = { 0 };
        int node[32] = { 0 };

        draw_case(&c, &rng);
        solve(&c.problem, &c.from, &c.to, &c.cluster, &plan);
        ck_assert_int_eq(spot_migration_init(&s, &c.problem, NULL), 0);
        cut.byte = calloc((size_t)s.r->n_new * c.cluster.n_node, sizeof *cut.byte);
        spot_migration_score(&s, plan.node_of_position, INFINITY);
        if (s.is_single && spot_migration_cut(&s, &cut)) {
            check_cut(&c, s.r, &cut, 0, node);
            n_cut++;
        }
        free(cut.byte);
        spot_migration_release(&s);
        spot_migration_plan_release(&plan), spot_migration_problem_release(&c.problem);
        spot_layout_release(&c.from), spot_layout_release(&c.to);
        spot_cluster_release(&c.cluster);
    }
    ck_assert_int_gt(n_cut, 200);
}
END_TEST

/* An independent count of what each position must hold: element by element. */
START_TEST(parts_cover_what_every_position_needs_exactly_once)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 32, 0);
    for (int k = 0; k < 400; k++) {
        struct random_case c;
        struct spot_reshard r;
        int64_t sum = 0, replica = 0, n_atom;

        draw_case(&c, &rng);
        ck_assert_int_eq(spot_reshard_init(&r, &c.from, &c.to, NULL), 0);
        for (int64_t bundle = 0; bundle < c.to.model.n_layer + 2; bundle++)
            for (int g = 0; g < SPOT_GROUPS; g++)
                replica += 6 * spot_shape_elem(&c.to.model, bundle, g, &n_atom);
        ck_assert_int_eq(replica, r.replica_byte);
        /* state that is not replicated inside a replica appears once per replica at least */
        for (int q = 0; q < r.n_new; q++)
            sum += r.need_byte[q];
        ck_assert_int_ge(sum, replica);
        for (size_t i = 0; i < r.n_part; i++) {
            int64_t byte = 0;

            for (size_t p = 0; p < r.part[i].n_piece; p++)
                byte += r.part[i].piece[p].byte;
            ck_assert_int_eq(byte, r.part[i].byte);
            ck_assert_int_gt(r.part[i].n_holder, 0);
        }
        spot_reshard_release(&r);
        spot_layout_release(&c.from), spot_layout_release(&c.to);
        spot_cluster_release(&c.cluster);
    }
}
END_TEST

int main(void)
{
    TCase *const tcase = tcase_create("plans");

    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, needs_overlaps_and_times_of_recorded_cases_are_exact, 0,
                        sizeof recorded / sizeof *recorded);
    tcase_add_loop_test(tcase, free_placements_reach_the_recorded_optimum, 0, 5);
    add_tests(tcase);
    return run_case("migration", tcase);
}

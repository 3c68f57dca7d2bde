/* SPDX-License-Identifier: MIT */
/* Goal: plans take the least time where least bytes take longer, to the recorded byte. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "plan/migration.h"
#include "suite.h"

/* LLaMA-7B in fp16, one GPU a node; 4 even stages before, 3 even ones (10, 11, 11 layers) after. */
static void parse(struct spot_layout *layout, int replicas, int stages, const char *ends,
                  bool has_places)
{
    char *text;
    size_t n_byte;
    FILE *out = open_memstream(&text, &n_byte);
    struct spot_err err;

    fprintf(out,
            "{\"schema\":\"spot.layout/1\",\"model\":{\"layers\":32,\"width\":4096,\"ffn\":11008,"
            "\"heads\":32,\"kv_heads\":32,\"head_dim\":128,\"vocab\":32000,\"positions\":0,"
            "\"gated\":true,\"bias\":false},\"components\":[{\"name\":\"w\",\"byte_per_param\":2}],"
            "\"grid\":{\"D\":%d,\"P\":%d,\"M\":1},\"stage_ends\":%s,\"place\":[",
            replicas, stages, ends);
    for (int q = 0; q < replicas * stages && has_places; q++)
        fprintf(out, "%s{\"node\":\"n%d\",\"d\":%d,\"p\":%d,\"m\":0}", q ? "," : "", q, q / stages,
                q % stages);
    fputs("]}", out);
    fclose(out);
    ck_assert_msg(!spot_layout_parse(layout, text, n_byte, "layout", &err), "%s", err.msg);
    free(text);
}

static const struct {
    int replicas;  /* before; two after */
    unsigned gone; /* bit i: node i of n is not there any more */
    int n;
    double makespan_s;
    int64_t byte, least_byte; /* at that time; of any placement */
} recorded[] = {
    /* both nodes of the last two stages of one replica are lost */
    { 2, 0xc0, 8, 3.771669, 12000387072, 10381320192 },
    /* one replica grows to two with two joiners */
    { 1, 0, 6, 3.771669, 15500664832, 15500664832 },
};

START_TEST(the_recorded_optimum_is_reached_where_least_bytes_are_slower)
{
    struct spot_layout from, to;
    struct spot_cluster cluster;
    struct spot_migration_problem problem;
    struct spot_migration_plan plan;
    char *text;
    size_t n_byte;
    FILE *out = open_memstream(&text, &n_byte);
    struct spot_err err;

    parse(&from, recorded[_i].replicas, 4, "[8,16,24,32]", true);
    parse(&to, 2, 3, "[10,21,32]", false);
    fputs("{\"schema\":\"spot.cluster/1\",\"nodes\":[", out);
    for (int i = 0, n = 0; i < recorded[_i].n; i++)
        if (!(recorded[_i].gone >> i & 1))
            fprintf(out, "%s{\"node\":\"n%d\",\"out_byte_per_s\":1.25e9}", n++ ? "," : "", i);
    fputs("]}", out);
    fclose(out);
    ck_assert_msg(!spot_cluster_parse(&cluster, text, n_byte, "cluster", &err), "%s", err.msg);
    free(text);
    ck_assert_msg(!spot_migration_of_layouts(&problem, &from, &to, &cluster, &err) &&
                      !spot_migrate(&problem, &plan, &err),
                  "%s", err.msg);
    ck_assert_double_eq_tol(plan.makespan_s, recorded[_i].makespan_s, 1e-6);
    ck_assert_int_eq(plan.total_byte, recorded[_i].byte);
    ck_assert_int_eq(plan.bound_byte, recorded[_i].least_byte);
    ck_assert(plan.is_exhaustive && plan.bound_s == plan.makespan_s && !plan.lost_byte);
    spot_migration_plan_release(&plan), spot_migration_problem_release(&problem);
    spot_layout_release(&from), spot_layout_release(&to), spot_cluster_release(&cluster);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("recorded");

    tcase_add_loop_test(tcase, the_recorded_optimum_is_reached_where_least_bytes_are_slower, 0,
                        sizeof recorded / sizeof *recorded);
    return run_suite("makespan", tcase);
}

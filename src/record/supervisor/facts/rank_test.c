/* Tests the ranks of all known launchers, and environments without a rank. */
#include "gwi_rank.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define ENVIRONMENT(text) text, sizeof text - 1

static void expect_rank(const char *environment, size_t bytes, const char *wanted)
{
    gw_text text = {0};
    assert_int_equal(gwi_rank_find(environment, bytes, &text), wanted != NULL);
    assert_string_equal(gw_text_str(&text), wanted == NULL ? "" : wanted);
    gw_text_free(&text);
}

static void launchers_are_known(void **state)
{
    (void)state;
    expect_rank(ENVIRONMENT("A=1\0RANK=3\0WORLD_SIZE=8\0LOCAL_RANK=1\0"), "rank=3 of=8 local=1 by=RANK");
    expect_rank(ENVIRONMENT("TORCHELASTIC_RESTART_COUNT=2\0RANK=3\0WORLD_SIZE=8\0LOCAL_RANK=1\0"),
                "rank=3 of=8 local=1 restart=2 by=RANK");
    expect_rank(ENVIRONMENT("TORCHELASTIC_RESTART_COUNT=2\0OMPI_COMM_WORLD_RANK=3\0"),
                "rank=3 by=OMPI_COMM_WORLD_RANK");
    expect_rank(ENVIRONMENT("TORCHELASTIC_RESTART_COUNT=no\0RANK=3\0"), "rank=3 by=RANK");
    expect_rank(ENVIRONMENT("OMPI_COMM_WORLD_RANK=2\0OMPI_COMM_WORLD_SIZE=4\0"), "rank=2 of=4 by=OMPI_COMM_WORLD_RANK");
    expect_rank(ENVIRONMENT("PMI_RANK=0\0"), "rank=0 by=PMI_RANK");
    expect_rank(ENVIRONMENT("SLURM_PROCID=7\0SLURM_LOCALID=3\0"), "rank=7 local=3 by=SLURM_PROCID");
    expect_rank(ENVIRONMENT("SLURM_PROCID=1\0RANK=9\0"), "rank=9 by=RANK");
    expect_rank(ENVIRONMENT("NODE_RANK=0\0LOCAL_RANK=1\0WORLD_SIZE=4\0"), "rank=1 of=4 local=1 by=LOCAL_RANK");
    expect_rank(ENVIRONMENT("NODE_RANK=0\0LOCAL_RANK=1\0SLURM_PROCID=0\0"), "rank=1 local=1 by=LOCAL_RANK");
    expect_rank(ENVIRONMENT("NODE_RANK=1\0LOCAL_RANK=1\0WORLD_SIZE=4\0"), NULL);
    expect_rank(ENVIRONMENT("LOCAL_RANK=1\0WORLD_SIZE=4\0"), NULL);
    expect_rank(ENVIRONMENT("NODE_RANK=1\0LOCAL_RANK=1\0SLURM_PROCID=5\0"), "rank=5 by=SLURM_PROCID");
    expect_rank(
        ENVIRONMENT("TF_CONFIG={\"cluster\": {\"worker\": [\"a\"]}, \"task\": {\"type\": \"worker\", \"index\": 1}}\0"),
        "rank=1 task=worker by=TF_CONFIG");
}

static void odd_environments_have_no_rank(void **state)
{
    (void)state;
    expect_rank("", 0, NULL);
    expect_rank(ENVIRONMENT("RANK=\0"), NULL);
    expect_rank(ENVIRONMENT("RANK=captain\0"), NULL);
    expect_rank(ENVIRONMENT("RANK=-1\0"), NULL);
    expect_rank(ENVIRONMENT("RANK=99999999999999999999\0"), NULL);
    expect_rank(ENVIRONMENT("FRANK=3\0RANKS=4\0RANK\0"), NULL);
    expect_rank("RANK=3", 6, NULL); /* truncated: more digits may be missing */
    expect_rank(ENVIRONMENT("TF_CONFIG={\"task\": {\"index\": \0"), NULL);
    expect_rank(ENVIRONMENT("TF_CONFIG={\"index\": 3}\0"), NULL);
    expect_rank(ENVIRONMENT("\0\0\0=\0"), NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launchers_are_known),
        cmocka_unit_test(odd_environments_have_no_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Tests that datagen rejects broken tables: it must print file, line and reason, and write nothing. */
#include "gw_test_folder.h"
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int run(const char *command, char *said, size_t said_bytes)
{
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    said[fread(said, 1, said_bytes - 1, pipe)] = '\0';
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int generate(char *said, size_t said_bytes)
{
    char command[512];
    snprintf(command, sizeof command, "%s %s %s/out.c %s/out.h %s/words.h 2>&1", GW_TEST_DATAGEN, gw_test_folder,
             gw_test_folder, gw_test_folder, gw_test_folder);
    return run(command, said, said_bytes);
}

static void copy_tables(void)
{
    char command[512], said[256];
    snprintf(command, sizeof command, "rm -f %s/* && cp %s/*.tsv %s", gw_test_folder, GW_TEST_DATA, gw_test_folder);
    assert_int_equal(run(command, said, sizeof said), 0);
}

/* Each sed command breaks one table. datagen must report the reason. */
GW_TEST(spoilt_tables_are_refused)
{
    static const struct {
        const char *table;
        const char *script;
        const char *reason;
    } cases[] = {
        {"xid", "/^xid\\t79\\t/s/^xid/yid/", "'yid' in column 'kind', expected xid sxid"},
        {"xid", "/^xid\\t79\\t/s/\\t79/\\t65536/", "expected a number below 65536"},
        {"xid", "/^xid\\t79\\t/s/\\t79/\\t78/", "this row is already in line"},
        {"xid", "/^xid\\t79\\t/s/\\t[^\\t]*$//", "10 columns, expected 11"},
        {"xid", "/^xid\\t79\\t/s/$/\\tmore/", "12 columns, expected 11"},
        {"xid", "/^kind/s/mnemonic/name/", "column 3 is 'name', expected 'mnemonic'"},
        {"xid", "/^kind/d", "column 1 is 'xid', expected 'kind'"},
        {"xid", "/^[^#]/d", "no rows"},
        {"xid", "/^xid\\t79\\t/s/GPU/G\\xffPU/", "only printable ASCII"},
        {"xid", "/^xid\\t79\\t/s/\\tyes\\t/\\tsure\\t/", "expected no partly yes"},
        {"cuda_errors", "/^700\\t/s/\\t[^\\t]*\\t[^\\t]*/\\t-\\t-/", "neither the driver nor the runtime"},
        {"cuda_errors", "/^700\\t/s/CUDA_ERROR_[A-Z_]*//", "column 'driver_name' is empty"},
        {"cuda_errors", "/^700\\t/s/\\t77\\t/\\t74\\t/", "old_code 74 is already in line"},
        {"cuda_errors", "/^700\\t/s/\\t=\\t/\\tmisaligned address\\t/", "words of its log_text are already in line"},
        {"cuda_errors", "/^700\\t/s/\\t=\\t/\\t=||x\\t/", "separated by |"},
        {"cuda_errors", "/^700\\t/s/\\t=\\t/\\ta(b\\t/", "characters that patterns give a meaning"},
        {"cuda_errors", "/^222\\t/s/\\tthe provided[^\\t.]*\\t/\\t=\\t/", "characters that patterns give a meaning"},
        {"cuda_errors", "/^810\\t/s/\\tyes\\tCUDA 13.0[^\\t]*/\\tyes\\t-/", "sticky_source must be there where sticky"},
        {"cudnn_status", "/^9\\t9\\t1001\\t/s/^9\\t9/9\\t8/", "major_last is below major_first"},
        {"driver_compat", "/^12.2\\t12.2.0/s/525.60.13/525.60.1x/", "expected a version such as 525.60.13"},
        {"driver_compat", "/^12.2\\t12.2.0/s/525.60.13/525.60.14/", "driver_minimum is not 525.60.13"},
        {"driver_compat", "/^12.2\\t12.2.0/s/12.2.0/12.3.9/", "release 12.3.9 is none of CUDA 12.2"},
        {"cuda_families", "/^12\\t/d", "no row for CUDA 12 in cuda_families.tsv"},
        {"compute_capability", "/^9.0\\t/d", "9.0 is not in compute_capability.tsv"},
        {"compute_capability", "/^7.0\\t/s/12.9/8.0/", "not after cuda_last"},
        {"framework_compat", "0,/^pytorch\\t2.1.x\\t12.1/s//pytorch\\t2.1.y\\t12.1/", "expected a release"},
        {"framework_compat", "0,/^pytorch\\t2.1.x\\t12.1/s//pytorch\\t2.1.x\\t12.77/",
         "CUDA 12.77 is not in driver_compat"},
        {"framework_compat", "0,/5.0 6.0 7.0/s//5.0, 6.0 7.0/", "expected compute capabilities"},
        {"regressions", "/^NCCL\\t2.29.2/s/^NCCL/nickel/", "'nickel' in column 'library'"},
        {"regressions", "/^NCCL\\t2.29.2/s/\\t2.29.3/\\t2.29.1/", "before must be newer than first"},
        {"regressions", "0,/\\tcuDNN<9.15\\t/s//\\tcuDNN<9.15,\\t/", "expected conditions such as"},
        {"regressions", "0,/\\tcuDNN<9.15\\t/s//\\tcuTT<9.15\\t/", "expected conditions such as"},
        {"regressions", "0,/\\tcuDNN<9.15\\t/s//\\tcuDNN>9.15\\t/", "expected conditions such as"},
        {"regressions", "/^NCCL\\t2.29.2/s/\\t-\\t-\\t[^\\t]*/\\t-\\t-\\t-/", "a version alone is in every log"},
        {"cudnn_support", "/^9.10.2\\t/s/^9.10.2\\t9.10.2/9.10.2\\t9.1/", "last is older than first"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char command[1024], said[16384], path[256];
        copy_tables();
        snprintf(command, sizeof command, "LC_ALL=C sed -i '%s' %s/%s.tsv", cases[i].script, gw_test_folder,
                 cases[i].table);
        assert_int_equal(run(command, said, sizeof said), 0);
        int status = generate(said, sizeof said);
        snprintf(path, sizeof path, "%s/out.c", gw_test_folder);
        if (status != 1 || strstr(said, cases[i].reason) == NULL || access(path, F_OK) == 0)
            fail_msg("%s: exit status %d\n%s\nwanted: %s", cases[i].script, status, said, cases[i].reason);
        assert_non_null(strstr(said, ".tsv:")); /* the message names file and line */
    }
}

GW_TEST(what_is_no_table_is_refused)
{
    char command[512], said[4096];
    copy_tables();
    snprintf(command, sizeof command, "rm %s/xid.tsv", gw_test_folder);
    assert_int_equal(run(command, said, sizeof said), 0);
    assert_int_equal(generate(said, sizeof said), 1);
    assert_non_null(strstr(said, "xid.tsv:0: No such file"));
    copy_tables();
    snprintf(command, sizeof command, "head -c 5000 /dev/zero > %s/xid.tsv", gw_test_folder);
    assert_int_equal(run(command, said, sizeof said), 0);
    assert_int_equal(generate(said, sizeof said), 1);
    copy_tables();
    assert_int_equal(generate(said, sizeof said), 0);
    assert_string_equal(said, "");
}

GW_TEST_MAIN(gw_test_folder_make, gw_test_folder_remove)

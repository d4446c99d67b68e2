/* Tests when iterations count as equal. */
#include "gw_unit_test.h"
#include "gwi_course.h"
#include "gwi_rehearse.h"

#include <sys/wait.h>
#include <unistd.h>

/* ---- what steady.c needs of the hook ---- */

gwi_state gwi;

static uint64_t peak, told, told_equal, told_launches;

bool gwi_lock(void)
{
    return true;
}

void gwi_unlock(void)
{
}

bool gwi_fact(unsigned kind, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, const char *text)
{
    assert_int_equal(kind, GW_EV_REHEARSAL);
    assert_int_equal(a0, GW_REHEARSAL_STEADY);
    told++;
    told_equal = a1;
    told_launches = a2;
    return true;
}

bool gwi_course_copy_make(uint64_t device, gwi_course_copy *ret_copy)
{
    return false; /* no PyTorch in this process */
}

void gwi_course_copy_free(gwi_course_copy *copy)
{
}

uint64_t gwi_cards_peak(void)
{
    return peak;
}

void gwi_cards_settle(void)
{
}

/* ---- programs, as texts: a letter is a launch of that kernel, `S` of one of an optimizer's step; `.` a copy to the
 * host, `:` one from it; `+` is more memory ---- */

static void run(const char *program, int count)
{
    for (int i = 0; i < count; i++)
        for (const char *at = program; *at != '\0'; at++) {
            if (*at == '.' || *at == ':')
                gwi_steady_copy(4, *at == '.');
            else if (*at == '+')
                peak++;
            else
                gwi_steady_launch((uint64_t)*at, *at == 'S');
        }
}

enum { ENOUGH = 16 }; /* equal iterations that are always enough */

static const struct {
    uint64_t wanted; /* UINT64_MAX: as many as are enough */
    struct {
        const char *program;
        int count;
    } parts[5];
    uint64_t equal, launches; /* as told; 0: nothing is told */
} cases[] = {
    {3, {{"abcd.", 2}}, 0, 0},
    {3, {{"abcd.", 3}}, 3, 4},
    {3, {{"abcd.", 30}, {"efgh.", 30}}, 3, 4}, /* it is told once */
    {5, {{"abcd.", 4}, {"efgh.", 4}}, 0, 0},
    {5, {{"abcd.", 4}, {"efghi.", 5}}, 5, 5},
    {3, {{"abcd.", 2}, {"efgh.", 1}, {"abcd.", 2}, {"efgh.", 1}}, 0, 0},
    {3, {{"abcd.efgh.", 3}}, 3, 8},        /* two parts */
    {3, {{"ab.ab.cdef.", 3}}, 3, 8},       /* equal parts, fewer than three in a row */
    {3, {{"abcd.abcd.abcd.e.", 1}}, 3, 4}, /* three equal parts look like three iterations */
    {UINT64_MAX, {{"abcd.", ENOUGH - 1}}, 0, 0},
    {UINT64_MAX, {{"abcd.", ENOUGH}}, ENOUGH, 4},
    {UINT64_MAX, {{"abcS.", 5}}, 0, 0},
    {UINT64_MAX, {{"abcS.", 6}}, 6, 4}, /* the optimizer's step shows that these are whole iterations */
    {UINT64_MAX, {{"S.", 1}, {"abcd.", 3}}, 0, 0},
    {UINT64_MAX, {{"abcd.abcd.abcd.abcd.efgS.", 5}}, 0, 0},
    {UINT64_MAX, {{"abcd.abcd.abcd.abcd.efgS.", 6}}, 6, 20},
    {UINT64_MAX, {{"abcS.abcS.abcS.abcS.abcS.efghS.", 5}}, 0, 0}, /* five steps of one network for each of the other */
    {UINT64_MAX, {{"abcS.abcS.abcS.abcS.abcS.efghS.", 6}}, 6, 25},
    {9, {{"abcS.", 9}}, 9, 4},
    {0, {{"abcS.", 100}}, 0, 0},
    {UINT64_MAX, {{"abcd.abcd.abcd.abcd.efgh.", ENOUGH - 1}}, 0, 0}, /* four steps of a gradient accumulation */
    {UINT64_MAX, {{"abcd.abcd.abcd.abcd.efgh.", ENOUGH + 1}}, ENOUGH, 20},
    {UINT64_MAX, {{"abcd.", 10}, {"+", 1}, {"abcd.", 10}}, 0, 0}, /* it holds more memory than before */
    {UINT64_MAX, {{"abcd.", 10}, {"+", 1}, {"abcd.", ENOUGH + 1}}, ENOUGH, 4},
    {UINT64_MAX, {{"+abcd.", 40}}, 0, 0},
    {3, {{"abcd.", 1}, {"abdc.", 1}, {"abcd.", 1}, {"abdc.", 1}, {"ab.", 1}}, 0, 0}, /* the order counts */
    {3, {{"abcd.", 1}, {"abcd:", 1}, {"abcd.", 1}}, 0, 0},                           /* and the direction */
    {3, {{"abc.", 20}}, 3, 6},   /* an iteration has at least four launches */
    {3, {{"abcd", 1000}}, 0, 0}, /* no copies */
    {0, {{"abcd.", 100}}, 0, 0}, /* --until end */
};

static int judge(size_t i)
{
    gwi_steady_want(cases[i].wanted);
    for (size_t k = 0; k < 5 && cases[i].parts[k].program != NULL; k++)
        run(cases[i].parts[k].program, cases[i].parts[k].count);
    if (told == (cases[i].equal != 0) && told_equal == cases[i].equal && told_launches == cases[i].launches)
        return 0;
    print_error("case %zu: told %u times: %u iterations of %u launches\n", i, (unsigned)told, (unsigned)told_equal,
                (unsigned)told_launches);
    return 1;
}

/* Each case has a process of its own, because the fact is written once. */
GW_TEST(test_cases)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0)
            _exit(judge(i));
        waitpid(child, &status, 0);
        assert_int_equal(status, 0);
    }
}

GW_TEST_MAIN(NULL, NULL)

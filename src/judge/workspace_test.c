/* Tests the advice about a library that chose a smaller workspace after its first request was refused. Slightly
 * different runs must not get it. */
#include "verdict_testlib.h"

typedef struct story {
    bool library, other_place, kept, late, logged;
    uint64_t small_bytes;
} story;

static void map_cudnn(void)
{
    gw_feed_fact(&feed, "library",
                 "kind=cudnn part= place=wheel version=9.1.0 from=3 major_only=0 "
                 "path=/v/site-packages/nvidia/cudnn/lib/libcudnn.so.9");
}

static void tell(const story *told)
{
    gw_feed_open(&feed, 16 * gib);
    if (told->library)
        map_cudnn();
    uint32_t site = gw_feed_site(&feed, "forward /srv/net.py 30, main /srv/net.py 80");
    uint32_t other = gw_feed_site(&feed, "load /srv/data.py 7, main /srv/net.py 70");
    gw_feed_text_call(&feed, "cuModuleGetFunction", GW_EV_FUNCTION, 0xf1, 0, 0, 0, "conv_large");
    gw_feed_text_call(&feed, "cuModuleGetFunction", GW_EV_FUNCTION, 0xf2, 0, 0, 0, "conv_small");
    feed.site = site;
    uint64_t workspace = gw_feed_alloc(&feed, 2 * gib);
    gw_feed_launch(&feed, 0xf1, 0);
    gw_feed_free(&feed, workspace);
    gw_feed_no_room(&feed, 2 * gib, gib, 16 * gib);
    if (told->logged)
        gw_feed_fact(&feed, "cudnn.log",
                     "severity=warning\nfunction=cudnnBackendExecute\nstatus=CUDNN_STATUS_NOT_SUPPORTED\n"
                     "reason=workspace is too small\n");
    if (told->late)
        gw_feed_wait(&feed, 5000000000u);
    feed.site = told->other_place ? other : site;
    workspace = gw_feed_alloc(&feed, told->small_bytes);
    gw_feed_launch(&feed, 0xf2, 0);
    gw_feed_sync(&feed);
    if (!told->kept)
        gw_feed_free(&feed, workspace);
    gw_feed_exit(&feed, 0, 0);
}

/* Judge the run and return its advice about a workspace; "": there is none. */
static const char *advice_on(const story *told)
{
    static char text[1000];
    text[0] = '\0';
    tell(told);
    judge_open();
    assert_int_equal(verdict->status, GW_VERDICT_CLEAN);
    for (size_t i = 0; i < verdict->advice.count; i++)
        if (strstr(verdict->advice.item[i], "library-workspace-choice") != NULL)
            strncpy(text, verdict->advice.item[i], sizeof text - 1);
    return text;
}

static void a_smaller_workspace_is_told(void **state)
{
    const char *text = advice_on(&(story){.library = true, .small_bytes = 96 * mib});
    static const char *const wanted[] = {"2.00 GiB", "96.00 MiB", "net.py:30", "cudnn", "conv_large", "conv_small"};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (strstr(text, wanted[i]) == NULL)
            fail_msg("%s is not in: %s", wanted[i], text);
}

static void what_is_nearly_that_is_not(void **state)
{
    const story near[] = {
        {.small_bytes = 96 * mib},                                       /* cuDNN is not loaded */
        {.library = true, .small_bytes = 96 * mib, .other_place = true}, /* requested at another place */
        {.library = true, .small_bytes = 96 * mib, .kept = true},        /* never freed, so it is no workspace */
        {.library = true, .small_bytes = 96 * mib, .late = true},        /* requested long after the refusal */
        {.library = true, .small_bytes = 3 * gib / 2},                   /* smaller by only a quarter */
        {.library = true, .small_bytes = 2 * gib},                       /* as large as the refused request */
    };
    for (size_t i = 0; i < sizeof near / sizeof near[0]; i++) {
        const char *text = advice_on(&near[i]);
        if (text[0] != '\0')
            fail_msg("story %zu: %s", i, text);
    }
}

/* If cuDNN's own log has a line about workspaces from the time of the refusal, the advice quotes it. The line alone is
 * no reason for advice. */
static void the_librarys_own_word(void **state)
{
    const char *text = advice_on(&(story){.library = true, .small_bytes = 96 * mib, .logged = true});
    assert_non_null(strstr(text, "cuDNN's own log has a warning at that time: cudnnBackendExecute"));
    assert_non_null(strstr(text, "workspace is too small"));
    assert_string_equal(advice_on(&(story){.small_bytes = 96 * mib, .logged = true}), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_smaller_workspace_is_told),
                                       cmocka_unit_test(what_is_nearly_that_is_not),
                                       cmocka_unit_test(the_librarys_own_word)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "gw_out.h"
#include "gwi_out.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *words[] = {(char *)"python", (char *)"train.py\033[2J"};
static char *next[] = {
    (char *)"Append float(x), or x.detach(), so that the graph of each step can be freed with the step.",
    (char *)"Use a smaller batch."};
static char *ruled_out[] = {(char *)"other processes (0 B)", (char *)"fragmentation"};
static struct gw_verdict_gpu gpus[] = {{.name = (char *)"NVIDIA H200", .bytes_limit = 16ull << 30},
                                       {.name = (char *)"NVIDIA H200", .bytes_limit = 16ull << 30}};
static gw_evidence evidence[] = {
    {.t_ns = 38920000000u, .has_time = true, .text = (char *)"cuMemAlloc of 2.39 GiB failed", .source = "driver"},
    {.text = (char *)"12.74 GiB in use by this process",
     .has_value = true,
     .value = 1,
     .unit = "bytes",
     .source = "ledger"}};

static gw_verdict sample(void)
{
    gw_verdict verdict = {.status = GW_VERDICT_FAULT,
                          .cause = "gpu-oom-leak",
                          .certainty = GW_ESTABLISHED,
                          .headline = (char *)"the second run found the GPU full of what the first one kept.",
                          .evidence = evidence,
                          .evidence_count = 2,
                          .ruled_out = {ruled_out, 2},
                          .next = {next, 2},
                          .argv = {words, 2},
                          .exit_known = true,
                          .exit_code = 1,
                          .seconds = 41.2,
                          .gpus = gpus,
                          .gpu_count = 2,
                          .recording =
                              (char *)"/a/very/long/path/that/must/not/be/cut/in/two/whatever/the/width/may/be.gpuwhy"};
    return verdict;
}

static void a_verdict_reads_as_designed(void **state)
{
    (void)state;
    gw_verdict verdict = sample();
    gw_text text = {0};
    gw_out_text(&verdict, &(gw_out_style){.width = 80}, &text);
    static const char wanted[] =
        "gpuwhy: python 'train.py?[2J' exited 1 after 41.2 s on 2 x NVIDIA H200 (limit\n"
        "        16.00 GiB)\n"
        "\n"
        "Verdict  gpu-oom-leak (established): the second run found the GPU full of what\n"
        "         the first one kept.\n"
        "Why      38.92 s  cuMemAlloc of 2.39 GiB failed\n"
        "         12.74 GiB in use by this process\n"
        "         ruled out: other processes (0 B), fragmentation\n"
        "Next     1. Append float(x), or x.detach(), so that the graph of each step can\n"
        "            be freed with the step.\n"
        "         2. Use a smaller batch.\n"
        "Details  gpuwhy explain\n"
        "           /a/very/long/path/that/must/not/be/cut/in/two/whatever/the/width/may/be.gpuwhy\n";
    assert_string_equal(gw_text_str(&text), wanted);
    gw_text_free(&text);
}

static void no_line_is_wider_than_asked(void **state)
{
    (void)state;
    for (unsigned width = 40; width < 200; width += 7) {
        gw_verdict verdict = sample();
        verdict.recording = NULL;
        gw_text text = {0};
        gw_out_text(&verdict, &(gw_out_style){.width = width}, &text);
        for (const char *line = gw_text_str(&text); *line != '\0'; line += strcspn(line, "\n") + 1)
            if (strcspn(line, "\n") > width)
                fail_msg("width %u: %.*s", width, (int)strcspn(line, "\n"), line);
        gw_text_free(&text);
    }
}

static void colours_only_when_asked(void **state)
{
    (void)state;
    gw_verdict verdict = sample();
    gw_text text = {0};
    gw_out_text(&verdict, &(gw_out_style){.width = 80}, &text);
    assert_null(strchr(gw_text_str(&text), '\033'));
    gw_out_text(&verdict, &(gw_out_style){.width = 80, .colour = true}, &text);
    assert_non_null(strchr(gw_text_str(&text), '\033'));
    gw_text_free(&text);
}

static void an_empty_verdict_is_printed(void **state)
{
    (void)state;
    for (int status = GW_VERDICT_FAULT; status <= GW_VERDICT_UNDETERMINED; status++) {
        gw_verdict verdict = {.status = (gw_verdict_status)status, .cause = "x"};
        gw_text text = {0};
        gw_out_text(&verdict, &(gw_out_style){0}, &text);
        assert_non_null(strstr(gw_text_str(&text), "how it ended is not known"));
        gw_text_free(&text);
    }
}

static void long_commands_are_cut(void **state)
{
    (void)state;
    char script[2000], *arguments[100];
    memset(script, 'x', sizeof script - 1);
    script[sizeof script - 1] = '\0';
    script[5] = ' ';
    for (size_t i = 0; i < 100; i++)
        arguments[i] = i == 1 ? script : (char *)"it's";
    gw_verdict verdict = {.status = GW_VERDICT_CLEAN, .argv = {arguments, 100}};
    gw_text text = {0};
    gw_out_text(&verdict, &(gw_out_style){.width = 1000}, &text);
    size_t first = strcspn(gw_text_str(&text), "\n");
    assert_in_range(first, 80, 250);
    assert_non_null(strstr(gw_text_str(&text), "xxx...'"));
    gw_text_free(&text);
}

static void foreign_bytes_become_harmless(void **state)
{
    (void)state;
    static const struct {
        const char *given, *shown, *utf8;
    } cases[] = {{"plain", "plain", "plain"},
                 {"\033[31m\007\r\n", "?[31m???", "\033[31m\007\r\n"},
                 {"gr\xC3\xBC\xC3\x9F", "gr\xC3\xBC\xC3\x9F", "gr\xC3\xBC\xC3\x9F"},
                 {"\xC2\x9B", "?", "\xC2\x9B"},                                   /* C1 control */
                 {"a\xFF", "a?", "a\xEF\xBF\xBD"},                                /* never in UTF-8 */
                 {"\xC0\x80", "??", "\xEF\xBF\xBD\xEF\xBF\xBD"},                  /* overlong */
                 {"\xE2\x82", "??", "\xEF\xBF\xBD\xEF\xBF\xBD"},                  /* cut */
                 {"\xED\xA0\x80", "???", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* surrogate */
                 {"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gw_text shown = {0}, utf8 = {0};
        gw_out_add_printable(&shown, cases[i].given);
        gw_out_add_utf8(&utf8, cases[i].given);
        assert_string_equal(gw_text_str(&shown), cases[i].shown);
        assert_string_equal(gw_text_str(&utf8), cases[i].utf8);
        gw_text_free(&shown);
        gw_text_free(&utf8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_verdict_reads_as_designed),   cmocka_unit_test(no_line_is_wider_than_asked),
        cmocka_unit_test(colours_only_when_asked),       cmocka_unit_test(an_empty_verdict_is_printed),
        cmocka_unit_test(foreign_bytes_become_harmless), cmocka_unit_test(long_commands_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

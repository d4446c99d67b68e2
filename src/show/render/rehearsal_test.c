/* Tests the answer of a rehearsal as text. */
#include "gw_render.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const uint64_t mib = 1u << 20;
static char *words[] = {(char *)"python", (char *)"train.py"};
static char *refused[] = {(char *)"cuIpcGetMemHandle", (char *)"cuGraphAddNode"};
static struct gw_verdict_gpu gpus[] = {{.name = (char *)"NVIDIA H200"}};

static gw_verdict sample(gw_verdict_rehearsal *rehearsal)
{
    *rehearsal = (gw_verdict_rehearsal){.fits = GW_FITS,
                                        .pid = 7,
                                        .card_count = 1,
                                        .limit_bytes = 16384 * mib,
                                        .peak_bytes = 12288 * mib,
                                        .asked_bytes = 11776 * mib,
                                        .driver_bytes = 512 * mib,
                                        .t_peak_ns = 1500000000};
    return (gw_verdict){.argv = {words, 2}, .gpus = gpus, .gpu_count = 1, .seconds = 2.5, .rehearsal = rehearsal};
}

static void expect_text(const gw_verdict *verdict, const char *wanted)
{
    gw_text text = {0};
    gw_render_rehearsal(verdict, &(gw_render_style){.width = 80}, &text);
    assert_string_equal(gw_text_str(&text), wanted);
    gw_text_free(&text);
}

static bool says(const gw_verdict *verdict, const char *part)
{
    gw_text text = {0};
    gw_render_rehearsal(verdict, &(gw_render_style){.width = 0}, &text);
    bool found = strstr(gw_text_str(&text), part) != NULL;
    gw_text_free(&text);
    return found;
}

static void an_answer_reads_as_designed(void **state)
{
    (void)state;
    gw_verdict_rehearsal rehearsal;
    gw_verdict verdict = sample(&rehearsal);
    expect_text(&verdict, "gpuwhy: rehearsed python train.py in 2.5 s for a card of 16.00 GiB on NVIDIA\n"
                          "        H200; nothing was computed\n"
                          "\n"
                          "Fits     yes: the process holds at most 12.00 GiB of 16.00 GiB; 4.00 GiB remain\n"
                          "Peak     1.50 s  11.50 GiB allocated by the program and 512.00 MiB for context,\n"
                          "           code and streams\n"
                          "Open     values read from the card were zeros: sizes that depend on data were\n"
                          "           taken as for zeros\n");
}

static void each_fact_has_its_line(void **state)
{
    (void)state;
    gw_verdict_rehearsal rehearsal;
    gw_verdict verdict = sample(&rehearsal);
    assert_false(says(&verdict, "Steady") || says(&verdict, "PyTorch") || says(&verdict, "made up"));
    rehearsal.equal_iterations = 16;
    rehearsal.launches_each = 1200;
    assert_true(says(&verdict, "Steady   16 equal iterations of 1200 launches\n"));
    rehearsal.was_ended = true;
    assert_true(says(&verdict, "launches; the program was then ended"));
    rehearsal.equal_iterations = 0;
    assert_true(says(&verdict, "Steady   the program was then ended"));
    rehearsal.torch_live_bytes = 1024 * mib;
    rehearsal.torch_reserved_bytes = 2048 * mib;
    assert_true(says(&verdict, "PyTorch  1.00 GiB live in PyTorch's allocator at its peak, of 2.00 GiB"));
    rehearsal.timed = true;
    assert_true(says(&verdict, "which were made up"));
    rehearsal.refused = (gw_string_list){refused, 2};
    assert_true(says(&verdict, "cuIpcGetMemHandle was refused") && says(&verdict, "cuGraphAddNode was refused"));
    rehearsal.place = (char *)"train.py:31 in step";
    rehearsal.card_count = 4;
    assert_true(says(&verdict, "train.py:31 in step"));
}

static void places_of_values(void **state)
{
    (void)state;
    static char *sizes[] = {(char *)"a.py:1 in f (nonzero)"},
                *values[] = {(char *)"a.py:2 in f", (char *)"a.py:3 in f", (char *)"a.py:4 in f",
                             (char *)"a.py:5 in f"};
    gw_verdict_rehearsal rehearsal;
    gw_verdict verdict = sample(&rehearsal);
    rehearsal.sizes = (gw_string_list){sizes, 1};
    assert_true(says(&verdict, "sizes read from the card were zeros, at a.py:1 in f (nonzero)"));
    rehearsal.values = (gw_string_list){values, 4};
    assert_true(says(&verdict, "a.py:4 in f") && !says(&verdict, "a.py:5"));
    rehearsal.fits = GW_FITS_UNKNOWN;
    assert_true(says(&verdict, "may have stopped"));
}

static void what_does_not_fit(void **state)
{
    (void)state;
    gw_verdict_rehearsal rehearsal;
    gw_verdict verdict = sample(&rehearsal);
    rehearsal.fits = GW_FITS_NOT;
    assert_true(says(&verdict, "Fits     no: a request was refused when the process held 12.00 GiB of 16.00 GiB"));
    rehearsal.fits = GW_FITS_UNKNOWN;
    assert_true(says(&verdict, "Fits     unknown: the program failed for another reason"));
    rehearsal.fits = GW_FITS;
    rehearsal.peak_bytes = rehearsal.limit_bytes + mib; /* never less than nothing remains */
    assert_true(says(&verdict, "0 B remain"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_reads_as_designed),
        cmocka_unit_test(each_fact_has_its_line),
        cmocka_unit_test(places_of_values),
        cmocka_unit_test(what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

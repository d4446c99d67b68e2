/* Parses the JSON output and compares each field with the verdict. */
#include "gw_render.h"
#include "gw_unit_test.h"

#include <json-c/json.h>

#include <math.h>
#include <string.h>

static struct json_object *written(const gw_verdict *verdict)
{
    gw_text text = {0};
    gw_error err;
    assert_int_equal(gw_render_json(verdict, &text, &err), GW_OK);
    struct json_object *root = json_tokener_parse(gw_text_str(&text));
    assert_non_null(root);
    gw_text_free(&text);
    return root;
}

static struct json_object *get(struct json_object *root, const char *key)
{
    struct json_object *value = NULL;
    if (!json_object_object_get_ex(root, key, &value))
        fail_msg("no field %s", key);
    return value;
}

GW_TEST(what_was_kept_is_told_by_phase)
{
    gw_verdict_block block[] = {{0x7f0000000000, 4096, 1500000000, true}, {.address = 64}};
    gw_verdict_kept kept[] = {
        {(char[]){"In [2]"}, true, 4096, 1, 1500000000, 1600000000, block, 2},
        {.bytes = 7, .count = 1},
    };
    gw_verdict verdict = {.status = GW_VERDICT_FAULT,
                          .has_failure = true,
                          .t_failure_ns = 2500000000,
                          .failure_phase = (char[]){"In [3]"},
                          .kept = kept,
                          .kept_count = 2};
    struct json_object *root = written(&verdict), *failure = get(root, "failure"), *list = get(root, "kept");
    assert_true(json_object_get_double(get(failure, "t_s")) == 2.5);
    assert_string_equal(json_object_get_string(get(failure, "phase")), "In [3]");
    assert_false(json_object_get_boolean(get(failure, "context_lost")));
    assert_int_equal(json_object_array_length(list), 2);
    struct json_object *first = json_object_array_get_idx(list, 0), *second = json_object_array_get_idx(list, 1);
    assert_string_equal(json_object_get_string(get(first, "phase")), "In [2]");
    assert_true(json_object_get_double(get(first, "last_t_s")) == 1.6);
    struct json_object *blocks = get(first, "blocks");
    assert_int_equal(json_object_get_int64(get(json_object_array_get_idx(blocks, 0), "address")), 0x7f0000000000);
    assert_null(get(json_object_array_get_idx(blocks, 1), "t_s")); /* an unknown time is null, not 0 */
    assert_null(get(second, "phase"));
    assert_null(get(second, "first_t_s"));
    assert_int_equal(json_object_get_int64(get(second, "bytes")), 7);
    json_object_put(root);
}

GW_TEST(an_empty_verdict_has_every_field)
{
    gw_verdict verdict = {.status = GW_VERDICT_UNDETERMINED};
    struct json_object *root = written(&verdict);
    assert_int_equal(json_object_get_int(get(root, "schema")), GW_JSON_SCHEMA);
    assert_string_equal(json_object_get_string(get(root, "status")), "undetermined");
    static const char *const nulls[] = {"cause",    "certainty", "where",  "where_reason",
                                        "headline", "recording", "failure"};
    for (size_t i = 0; i < sizeof nulls / sizeof nulls[0]; i++)
        assert_null(get(root, nulls[i]));
    static const char *const arrays[] = {"evidence", "alternatives", "ruled_out", "consequences", "next",
                                         "advice",   "gpus",         "kept",      "leaks",        "known"};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        assert_int_equal(json_object_array_length(get(root, arrays[i])), 0);
    assert_null(get(get(root, "program"), "exit")); /* an unknown exit status is null, not 0 */
    assert_null(get(get(root, "program"), "signal"));
    json_object_put(root);
}

GW_TEST(values_survive)
{
    char *words[] = {(char *)"a\"b\\c", (char *)"\xFF"};
    gw_evidence evidence[] = {{.t_ns = 1500000000u,
                               .has_time = true,
                               .text = (char *)"t",
                               .has_value = true,
                               .value = 17179869184.0,
                               .unit = "bytes",
                               .source = "driver"},
                              {.text = (char *)"u", .has_value = true, .value = NAN, .unit = "ms", .source = "host"}};
    gw_alternative alternative = {.cause = "illegal-address", .certainty = GW_HYPOTHESIS};
    struct gw_verdict_gpu gpu = {.name = (char *)"card", .bytes_total = 1ull << 40, .is_virtual = true};
    gw_verdict verdict = {.status = GW_VERDICT_FAULT,
                          .cause = "gpu-oom-leak",
                          .certainty = GW_SUPPORTED,
                          .evidence = evidence,
                          .evidence_count = 2,
                          .alternatives = &alternative,
                          .alternative_count = 1,
                          .argv = {words, 2},
                          .exit_known = true,
                          .exit_code = -1,
                          .signal = 9,
                          .seconds = 2.5,
                          .gpus = &gpu,
                          .gpu_count = 1};
    struct json_object *root = written(&verdict);
    struct json_object *first = json_object_array_get_idx(get(root, "evidence"), 0);
    assert_true(json_object_get_double(get(first, "t_s")) == 1.5);
    assert_int_equal(json_object_get_int64(get(first, "value")), 17179869184);
    struct json_object *second = json_object_array_get_idx(get(root, "evidence"), 1);
    assert_null(get(second, "t_s"));
    assert_null(get(second, "value")); /* NaN is written as null, because JSON has no NaN */
    struct json_object *program = get(root, "program");
    assert_string_equal(json_object_get_string(json_object_array_get_idx(get(program, "argv"), 0)), "a\"b\\c");
    assert_string_equal(json_object_get_string(json_object_array_get_idx(get(program, "argv"), 1)), "\xEF\xBF\xBD");
    assert_null(get(program, "exit"));
    assert_int_equal(json_object_get_int(get(program, "signal")), 9);
    struct json_object *card = json_object_array_get_idx(get(root, "gpus"), 0);
    assert_true(json_object_get_boolean(get(card, "virtual")));
    assert_null(get(card, "bytes_limit"));
    assert_string_equal(
        json_object_get_string(get(json_object_array_get_idx(get(root, "alternatives"), 0), "certainty")),
        "hypothesis");
    json_object_put(root);
}

GW_TEST(a_place_has_its_stack)
{
    gw_where_frame frame[] = {{.function = (char *)"cuda_alloc",
                               .module = (char *)"/lib/x.so",
                               .text = (char *)"cuda_alloc (x.so)",
                               .address = 0x1234,
                               .whose = "framework",
                               .inlined = true},
                              {.function = (char *)"load_batch",
                               .file = (char *)"/project/train.py",
                               .text = (char *)"train.py:41 in load_batch",
                               .line = 41,
                               .whose = "own",
                               .python = true}};
    gw_where where = {.what = "the request that was refused", .frame = frame, .frame_count = 2, .user = 1};
    gw_verdict verdict = {.status = GW_VERDICT_FAULT, .cause = "gpu-oom-leak", .where = &where};
    struct json_object *root = written(&verdict), *place = get(root, "where");
    assert_string_equal(json_object_get_string(get(place, "function")), "load_batch");
    assert_string_equal(json_object_get_string(get(place, "file")), "/project/train.py");
    assert_int_equal(json_object_get_int(get(place, "line")), 41);
    assert_int_equal(json_object_get_int(get(place, "user")), 1);
    struct json_object *inner = json_object_array_get_idx(get(place, "frames"), 0);
    assert_null(get(inner, "file"));
    assert_null(get(inner, "line")); /* an unknown line is null, not 0 */
    assert_string_equal(json_object_get_string(get(inner, "kind")), "native");
    assert_true(json_object_get_boolean(get(inner, "inlined")));
    assert_int_equal(json_object_get_int(get(inner, "address")), 0x1234);
    struct json_object *outer = json_object_array_get_idx(get(place, "frames"), 1);
    assert_string_equal(json_object_get_string(get(outer, "whose")), "own");
    assert_null(get(outer, "module"));
    assert_int_equal(json_object_array_length(get(place, "notes")), 0);
    json_object_put(root);
}

/* Tests the answer of a rehearsal as text. */

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

GW_TEST(an_answer_reads_as_designed)
{
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

GW_TEST(each_fact_has_its_line)
{
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

GW_TEST(places_of_values)
{
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

GW_TEST(what_does_not_fit)
{
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

GW_TEST_MAIN(NULL, NULL)

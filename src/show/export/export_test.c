/* Tests all formats with every kind of item, and the JSON output with json-c's own parser. */
#define _GNU_SOURCE
#include "gw_export.h"
#include "gw_test_folder.h"

#include <string.h>

#include <json-c/json.h>

static const char *const fn_names[] = {"cuMemAlloc_v2", "cuLaunchKernel"};

static int write_recording(void **state)
{
    gw_error err;
    gw_writer *writer;
    if (gw_test_folder_make(state) != 0 || gw_writer_create(gw_test_file, 0, fn_names, 2, &writer, &err) != GW_OK)
        return -1;
    const uint64_t counter[GW_COUNT_COUNT] = {3};
    const gw_hot_call call[2] = {{1, 2, 3, 1}, {4, 5, 6, 1}};
    gw_symbol_frame frame[2] = {{"inner", "x.h", 3, 7}, {"outer", NULL, 0, 0}};
    const gw_sample_value value[2] = {{GW_METRIC_CARD_POWER, GW_SAMPLE_KNOWN, 700000},
                                      {GW_METRIC_CARD_ECC_MODE, GW_SAMPLE_NOT_SUPPORTED, 0}};
    const gw_event event = {.t_ns = 7,
                            .pid = 5,
                            .tid = 6,
                            .kind = GW_EV_ALLOC,
                            .flags = 3,
                            .took_us = 9,
                            .arg = {UINT64_MAX, 4096},
                            .text = "not \xff utf-8",
                            .text_bytes = 11};
    const gw_item items[] = {
        {.kind = GW_ITEM_META, .pair = {"argv", "a, \"quoted\"\nword"}},
        {.kind = GW_ITEM_PROCESS, .pid = 5, .process = {1, 2, "/bin/x", "/lib/libcuda.so.1", "ab", 0}},
        {.kind = GW_ITEM_EVENT, .t_ns = 7, .pid = 5, .tid = 6, .event = event},
        {.kind = GW_ITEM_COUNTERS,
         .pid = 5,
         .tid = 6,
         .counters = {.counter = counter, .thread_name = "main,thread", .inside_fn_plus_1 = 2}},
        {.kind = GW_ITEM_RING, .pid = 5, .tid = 6, .ring = {call, 2, 9, 8}},
        {.kind = GW_ITEM_LOST, .pid = 5, .lost = {1, 2, 3}},
        {.kind = GW_ITEM_STDERR, .stderr_part = {"line\nline,\"\n", 12}},
        {.kind = GW_ITEM_EXIT, .exit = {.pid = 5, .status_known = true, .exit_code = 1}},
        {.kind = GW_ITEM_MAPS, .pair = {"/lib/a.so", ""}},
        {.kind = GW_ITEM_SUPERVISOR, .pair = {"k", "v"}},
        {.kind = GW_ITEM_SYMBOL, .symbol = {"/bin/x", 1, 0x20, GW_SYMBOL_LINE, frame, 2}},
        {.kind = GW_ITEM_SAMPLE, .sample = {GW_SOURCE_NVML, true, 1, value, 2}},
        {.kind = GW_ITEM_MACHINE,
         .pid = 5,
         .machine = {GW_MACHINE_XID, GW_SOURCE_KERNEL_LOG, GW_NO_DEVICE, 1, 79, 0, "fallen, \"off\""}},
        {.kind = GW_ITEM_META, .pair = {"env.A", "=CMD(1,2)"}}};
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++)
        assert_int_equal(gw_writer_put(writer, &items[i], &err), GW_OK);
    return gw_writer_close(writer, &err) == GW_OK ? 0 : -1;
}

static gw_status export_to(const char *format, FILE *file, uint64_t *ret_faults, gw_error *err)
{
    gw_reader *reader;
    gw_status st = gw_reader_open(gw_test_file, &reader, err);
    if (st != GW_OK)
        return st;
    st = gw_export_run(gw_export_find(format), reader, file, ret_faults, err);
    gw_reader_close(reader);
    return st;
}

static char *export_text(const char *format, uint64_t *ret_faults)
{
    char *text = NULL;
    size_t bytes;
    gw_error err = {""};
    FILE *file = open_memstream(&text, &bytes);
    if (export_to(format, file, ret_faults, &err) != GW_OK)
        fail_msg("%s", err.text);
    fclose(file);
    return text;
}

/* Count the fields of the line at `at`. A quoted field may contain commas and newlines. *ret_next is the next line. */
static unsigned count_fields(const char *at, const char **ret_next)
{
    unsigned fields = 1;
    bool quoted = false;
    for (; *at != '\0' && (quoted || *at != '\n'); at++) {
        quoted ^= *at == '"';
        fields += *at == ',' && !quoted;
    }
    *ret_next = *at == '\0' ? at : at + 1;
    return fields;
}

GW_TEST(csv_lines_have_all_columns)
{
    uint64_t faults;
    char *text = export_text("csv", &faults);
    assert_int_equal(faults, 0);
    const char *at = text;
    unsigned columns = count_fields(at, &at), lines = 0;
    assert_int_equal(columns, 19);
    for (; *at != '\0'; lines++) {
        const char *line = at;
        unsigned fields = count_fields(at, &at);
        if (fields != columns)
            fail_msg("%u fields: %.*s", fields, (int)(at - line), line);
    }
    assert_int_equal(lines, 16);
    assert_non_null(strstr(text, "7,event,5,6,ALLOC,cuMemAlloc_v2,0,9,3,0,0,0,18446744073709551615,4096,0,0,"
                                 "arg0=address arg1=bytes arg2=space arg3=detail,text,"));
    assert_non_null(strstr(text, "argv,\"a, \"\"quoted\"\"\nword\""));
    assert_non_null(strstr(text, "LAUNCH=3"));
    assert_non_null(strstr(text, "sample,0,0,nvml,,,,,,,,1,,,,arg0=card,card.power,700000"));
    assert_non_null(strstr(text, "arg0=card,card.ecc.mode,not supported"));
    assert_non_null(strstr(text, "machine,5,0,kernel log,,,,,,,,,,,,,xid,"));
    free(text);
}

/* A spreadsheet must not evaluate a program's text as a formula. */
GW_TEST(formulas_are_texts_in_a_sheet)
{
    uint64_t faults;
    char *plain = export_text("csv", &faults), *sheet = export_text("csv-sheet", &faults);
    assert_non_null(strstr(plain, "env.A,\"=CMD(1,2)\"\r\n"));
    assert_non_null(strstr(sheet, "env.A,\"'=CMD(1,2)\"\r\n"));
    assert_non_null(strstr(sheet, "argv,\"a, \"\"quoted\"\"\nword\""));
    assert_int_equal(strlen(sheet), strlen(plain) + 1);
    free(plain);
    free(sheet);
}

static json_object *get(json_object *object, const char *key)
{
    json_object *value;
    if (!json_object_object_get_ex(object, key, &value))
        fail_msg("no %s", key);
    return value;
}

GW_TEST(json_is_parsed_back)
{
    char *text = export_text("json", NULL);
    json_object *all = json_tokener_parse(text);
    assert_non_null(all);
    assert_int_equal(json_object_get_int(get(all, "schema")), 1);
    assert_int_equal(json_object_array_length(get(all, "functions")), 2);
    json_object *items = get(all, "items");
    assert_int_equal(json_object_array_length(items), 14);
    json_object *event = json_object_array_get_idx(items, 2);
    assert_string_equal(json_object_get_string(get(event, "item")), "event");
    assert_string_equal(json_object_get_string(get(event, "kind")), "ALLOC");
    assert_string_equal(json_object_get_string(get(event, "function")), "cuMemAlloc_v2");
    assert_true(json_object_get_uint64(get(get(event, "args"), "address")) == UINT64_MAX);
    assert_string_equal(json_object_get_string(get(event, "text")), "not \xef\xbf\xbd utf-8");
    assert_string_equal(json_object_get_string(get(json_object_array_get_idx(items, 0), "value")),
                        "a, \"quoted\"\nword");
    json_object *ring = json_object_array_get_idx(items, 4);
    assert_int_equal(json_object_array_length(get(ring, "calls")), 2);
    json_object *sample = json_object_array_get_idx(items, 11), *machine = json_object_array_get_idx(items, 12);
    assert_string_equal(json_object_get_string(get(sample, "source")), "nvml");
    assert_int_equal(json_object_get_int(get(get(sample, "values"), "card.power")), 700000);
    assert_string_equal(json_object_get_string(get(get(sample, "unknown"), "card.ecc.mode")), "not supported");
    assert_string_equal(json_object_get_string(get(machine, "kind")), "xid");
    assert_int_equal(json_object_get_int(get(machine, "code")), 79);
    json_object_put(all);
    free(text);
}

GW_TEST(a_full_disk_is_noticed)
{
    gw_error err = {""};
    FILE *file = fopen("/dev/full", "w");
    assert_non_null(file);
    assert_int_equal(export_to("csv", file, NULL, &err), GW_IO);
    assert_non_null(strstr(err.text, "No space left"));
    fclose(file);
}

GW_TEST(damage_is_shown)
{
    uint64_t faults;
    FILE *file = fopen(gw_test_file, "r+b");
    fseek(file, -40, SEEK_END);
    fputc('!', file);
    fputc('?', file);
    fclose(file);
    char *text = export_text("csv", &faults);
    assert_true(faults > 0);
    assert_non_null(strstr(text, ",damage,,"));
    assert_non_null(strstr(text, "offset"));
    free(text);
}

GW_TEST(formats_are_found_by_name)
{
    assert_non_null(gw_export_find("json"));
    assert_non_null(gw_export_find("csv"));
    assert_null(gw_export_find("xml"));
    for (unsigned i = 0; gw_export_at(i) != NULL; i++)
        assert_ptr_equal(gw_export_find(gw_export_at(i)->name), gw_export_at(i));
}

GW_TEST_MAIN(write_recording, gw_test_folder_remove)

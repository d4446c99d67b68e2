/* Tests the pickle reader: first malicious and damaged files, then files as Python and PyTorch write them. */
#include "gw_unit_test.h"
#include "gwi_store.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char path[64];
static int fd = -1;

static void put_file(const void *data, size_t bytes)
{
    if (fd < 0)
        fd = memfd_create("pickle", MFD_CLOEXEC);
    assert_true(fd >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(pwrite(fd, data, bytes, 0), (ssize_t)bytes);
}

/* What was read last. */
static gw_pickle *p;
static gw_pickle_value root;
static gw_error err;

static gw_status read_bytes(const void *data, size_t bytes, const gw_pickle_options *options)
{
    static const gw_pickle_options plain = {0};
    put_file(data, bytes);
    gw_pickle_free(p);
    p = NULL;
    err.text[0] = '\0';
    return gw_pickle_read(path, options == NULL ? &plain : options, &p, &root, &err);
}

static int free_last(void **state)
{
    gw_pickle_free(p);
    p = NULL;
    return 0;
}

#define BYTES(literal) literal, sizeof(literal) - 1

static void expect_refused(const void *data, size_t bytes, gw_status status, const char *words)
{
    root.type = 77;
    gw_status st = read_bytes(data, bytes, NULL);
    if (st != status || strstr(err.text, words) == NULL)
        fail_msg("status %d, not %d; \"%s\" lacks \"%s\"", st, status, err.text, words);
    assert_non_null(strstr(err.text, path));
    assert_null(strchr(err.text, '\n'));
    assert_null(p);
    assert_int_equal(root.type, 77);
}

GW_TEST(nothing_is_called)
{
    static const struct {
        const char *name;
        unsigned char opcode;
    } refused[] = {{"GLOBAL", 'c'},    {"REDUCE", 'R'},       {"BUILD", 'b'},      {"INST", 'i'},
                   {"OBJ", 'o'},       {"NEWOBJ", 0x81},      {"NEWOBJ_EX", 0x92}, {"STACK_GLOBAL", 0x93},
                   {"PERSID", 'P'},    {"BINPERSID", 'Q'},    {"EXT1", 0x82},      {"EXT2", 0x83},
                   {"EXT4", 0x84},     {"NEXT_BUFFER", 0x97}, {"POP", '0'},        {"POP_MARK", '1'},
                   {"DUP", '2'},       {"INT", 'I'},          {"LONG", 'L'},       {"FLOAT", 'F'},
                   {"STRING", 'S'},    {"UNICODE", 'V'},      {"GET", 'g'},        {"PUT", 'p'},
                   {"BINBYTES", 'B'},  {"EMPTY_SET", 0x8f},   {"FROZENSET", 0x91}, {"BYTEARRAY8", 0x96},
                   {"BINSTRING", 'T'}, {"DICT", 'd'},         {"LIST", 'l'},       {"ADDITEMS", 0x90}};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        char data[8] = {'\x80', 4, ']', (char)refused[i].opcode, '.'}, words[64];
        snprintf(words, sizeof words, "at byte 3: opcode %s ", refused[i].name);
        expect_refused(data, 5, GW_UNSUPPORTED, words);
    }
    expect_refused(BYTES("\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R."), GW_UNSUPPORTED, "STACK_GLOBAL");
    expect_refused(BYTES("\x80\x02"
                         "cos\nsystem\n."),
                   GW_UNSUPPORTED, "at byte 2: opcode GLOBAL");
}

GW_TEST(damage_is_named)
{
    expect_refused(BYTES(""), GW_CORRUPT, "ends early");
    expect_refused(BYTES("PK\x03\x04"), GW_UNSUPPORTED, "not a pickle");
    expect_refused(BYTES("\x80\x01N."), GW_UNSUPPORTED, "not a pickle");
    expect_refused(BYTES("\x80\x06N."), GW_UNSUPPORTED, "not a pickle");
    expect_refused(BYTES("\x80\x04\xff."), GW_CORRUPT, "at byte 2: unknown opcode 0xff");
    expect_refused(BYTES("\x80\x04."), GW_CORRUPT, "0 values");
    expect_refused(BYTES("\x80\x04NN."), GW_CORRUPT, "2 values");
    expect_refused(BYTES("\x80\x04(N."), GW_CORRUPT, "instead of one");
    expect_refused(BYTES("\x80\x04N"), GW_CORRUPT, "ends early");
    expect_refused(BYTES("\x80\x04h\x00."), GW_CORRUPT, "never written");
    expect_refused(BYTES("\x80\x04Nr\x00\x00\x00\x7f."), GW_CORRUPT, "memo entry");
    expect_refused(BYTES("\x80\x04\x94."), GW_CORRUPT, "too few");
    expect_refused(BYTES("\x80\x04"
                         "e."),
                   GW_CORRUPT, "no mark");
    expect_refused(BYTES("\x80\x04(Ne."), GW_CORRUPT, "nothing to put");
    expect_refused(BYTES("\x80\x04](Nu."), GW_CORRUPT, "something that is not a dict");
    expect_refused(BYTES("\x80\x04}(Nu."), GW_CORRUPT, "key without a value");
    expect_refused(BYTES("\x80\x04](a."), GW_CORRUPT, "too few");
    expect_refused(BYTES("\x80\x04N](Na."), GW_CORRUPT, "too few"); /* APPEND must not use the list below the mark */
    expect_refused(BYTES("\x80\x04\x85."), GW_CORRUPT, "too few");
    expect_refused(BYTES("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff."), GW_UNSUPPORTED, "a text of");
    expect_refused(BYTES("\x80\x04\x8b\xff\xff\xff\xff."), GW_UNSUPPORTED, "an integer of");
    expect_refused(BYTES("\x80\x04X\xff\xff\x00\x00."), GW_CORRUPT, "ends early");
}

/* A container must not contain itself, directly or through another container. Otherwise, a program that follows the
 * items would loop forever. */
GW_TEST(cycles_are_refused)
{
    expect_refused(BYTES("\x80\x04]\x94h\x00"
                         "a."),
                   GW_UNSUPPORTED, "changed after its use");
    expect_refused(BYTES("\x80\x04]\x94]h\x00"
                         "aa."),
                   GW_UNSUPPORTED, "changed after its use");
    expect_refused(BYTES("\x80\x04}\x94Nh\x00s."), GW_UNSUPPORTED, "changed after its use");
    expect_refused(BYTES("\x80\x04]\x94(Ne](h\x00"
                         "eh\x00Na."),
                   GW_UNSUPPORTED, "changed after its use");
}

GW_TEST(missing_file)
{
    const gw_pickle_options options = {0};
    assert_int_equal(gw_pickle_read("/nonexistent/x", &options, &p, &root, &err), GW_IO);
    assert_int_equal(gw_pickle_read("/", &options, &p, &root, &err), GW_IO);
    assert_string_equal(err.text, "/: not a regular file");
    assert_false(gw_pickle_is("/nonexistent/x"));
    assert_false(gw_pickle_is("/"));
}

/* ---- valid files ---- */

GW_TEST(values)
{
    static const char data[] =
        "\x80\x04\x95\x08\x00\x00\x00\x00\x00\x00\x00]\x94(N\x88\x89K\xffM\xff\xffJ\xfe\xff\xff\xff"
        "\x8a\x06\x00\x00\x00\x00\x00\x7f\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00\x8a\x00"
        "G\x3f\xf8\x00\x00\x00\x00\x00\x00\x8c\x02hi\x94h\x01X\x02\x00\x00\x00hi)\x8a\x01\xff"
        "NN\x86"
        "e.";
    gw_pickle_value key;
    assert_int_equal(read_bytes(BYTES(data), NULL), GW_OK);
    assert_true(gw_pickle_is(path));
    assert_int_equal(root.type, GW_PICKLE_LIST);
    assert_int_equal(gw_pickle_count(p, root), 16);
    static const struct {
        uint8_t type;
        int64_t number;
    } expected[] = {{GW_PICKLE_NONE, 0},
                    {GW_PICKLE_BOOL, 1},
                    {GW_PICKLE_BOOL, 0},
                    {GW_PICKLE_INT, 255},
                    {GW_PICKLE_INT, 65535},
                    {GW_PICKLE_INT, -2},
                    {GW_PICKLE_INT, 0x7f0000000000},
                    {GW_PICKLE_HUGE, 0},
                    {GW_PICKLE_INT, 0}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        gw_pickle_value value = gw_pickle_at(p, root, i, &key);
        assert_int_equal(value.type, expected[i].type);
        assert_int_equal((int64_t)value.number, expected[i].number);
    }
    const double expected_float = 1.5;
    gw_pickle_value value = gw_pickle_at(p, root, 9, NULL);
    assert_int_equal(value.type, GW_PICKLE_FLOAT);
    assert_memory_equal(&value.number, &expected_float, sizeof expected_float);
    size_t bytes;
    /* the same text three times: written, read from the memo, and written again; all must have the same id */
    for (size_t i = 10; i < 13; i++) {
        gw_pickle_value text = gw_pickle_at(p, root, i, NULL);
        assert_string_equal(gw_pickle_text(p, text, &bytes), "hi");
        assert_int_equal(bytes, 2);
        assert_int_equal(text.number, gw_pickle_at(p, root, 10, NULL).number);
    }
    assert_int_equal(gw_pickle_count(p, gw_pickle_at(p, root, 13, NULL)), 0);
    assert_int_equal((int64_t)gw_pickle_at(p, root, 14, NULL).number, -1);
    assert_int_equal(gw_pickle_count(p, gw_pickle_at(p, root, 15, NULL)), 2);
    assert_int_equal(gw_pickle_at(p, root, 16, NULL).type, GW_PICKLE_NONE); /* no item has this index */
}

GW_TEST(truncated_anywhere)
{
    static const char data[] =
        "\x80\x04\x95\x20\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x08segments\x94]\x94}\x94\x8c\x04size"
        "\x94M\x00\x02sa\x8c\x0d"
        "device_traces\x94]\x94]\x94"
        "au.";
    for (size_t cut = 0; cut < sizeof data - 1; cut++)
        assert_int_not_equal(read_bytes(data, cut, NULL), GW_OK);
    assert_int_equal(read_bytes(BYTES(data), NULL), GW_OK);
    assert_int_equal(gw_pickle_count(p, root), 2);
}

/* ---- folding ---- */

enum { NAME_A, NAME_B, NAME_COUNT };
static const char *const names[NAME_COUNT] = {"a", "b"};

typedef struct seen {
    uint64_t dicts, lists, most_items;
} seen;

/* A fold function: replaces a dict by the value of its key "a", and fails for a dict with a key "b". */
static gw_status fold(void *user, gw_pickle *store, gw_pickle_value container, gw_pickle_value *ret_folded,
                      gw_error *ret_err)
{
    seen *s = user;
    gw_pickle_value b;
    uint64_t number;
    if (container.type == GW_PICKLE_LIST) {
        s->lists++;
        s->most_items =
            gw_pickle_count(store, container) > s->most_items ? gw_pickle_count(store, container) : s->most_items;
        return GW_OK;
    }
    s->dicts++;
    if (gw_pickle_get(store, container, NAME_B, &b))
        return gw_fail(ret_err, GW_USAGE, "no b, please");
    if (gw_pickle_get_number(store, container, NAME_A, &number))
        *ret_folded = (gw_pickle_value){.type = GW_PICKLE_FOLDED, .tag = 5, .number = number};
    return GW_OK;
}

typedef struct out {
    char data[1 << 20];
    size_t bytes;
} out;

static void add(out *o, const void *data, size_t bytes)
{
    assert_true(o->bytes + bytes <= sizeof o->data);
    memcpy(o->data + o->bytes, data, bytes);
    o->bytes += bytes;
}

/* Write a pickle of a list of `count` dicts {"a": i}, in batches of `batch` dicts. Python's pickler writes batches of
 * 1,000. PyTorch's own pickler writes a single batch. */
static void make_list(out *o, unsigned count, unsigned batch)
{
    o->bytes = 0;
    add(o, BYTES("\x80\x04]\x94"));
    for (unsigned i = 0; i < count; i++) {
        if (i % batch == 0)
            add(o, BYTES("("));
        unsigned char dict[] = {'}', 0x94, 0x8c, 1, 'a', 'M', (unsigned char)i, (unsigned char)(i >> 8), 's'};
        add(o, dict, sizeof dict);
        if (i % batch == batch - 1 || i == count - 1)
            add(o, BYTES("e"));
    }
    add(o, BYTES("."));
}

GW_TEST(folded_values)
{
    static out o;
    static const unsigned counts[][2] = {{1, 1000},    {999, 1000},   {1000, 1000},
                                         {1001, 1000}, {30000, 1000}, {30000, 30000}};
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        seen s = {0};
        gw_pickle_options options = {.names = names, .name_count = NAME_COUNT, .fold = fold, .user = &s};
        make_list(&o, counts[k][0], counts[k][1]);
        assert_int_equal(read_bytes(o.data, o.bytes, &options), GW_OK);
        assert_int_equal(s.dicts, counts[k][0]);
        assert_int_equal(s.lists, 1); /* `fold` is called once for the list, regardless of the number of batches */
        assert_int_equal(s.most_items, counts[k][0]);
        for (unsigned i = 0; i < counts[k][0]; i++) {
            gw_pickle_value value = gw_pickle_at(p, root, i, NULL);
            assert_int_equal(value.type, GW_PICKLE_FOLDED);
            assert_int_equal(value.tag, 5);
            assert_int_equal(value.number, i);
        }
    }
}

GW_TEST(folded_is_shared_and_final)
{
    seen s = {0};
    gw_pickle_options options = {.names = names, .name_count = NAME_COUNT, .fold = fold, .user = &s};
    assert_int_equal(read_bytes(BYTES("\x80\x04](}\x94\x8c\x01"
                                      "aK\x07sh\x00h\x00"
                                      "e."),
                                &options),
                     GW_OK);
    assert_int_equal(s.dicts, 1);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(gw_pickle_at(p, root, i, NULL).number, 7);
    /* a file that changes a dict after it was folded must be rejected */
    gw_status st = read_bytes(BYTES("\x80\x04](}\x94\x8c\x01"
                                    "aK\x07sh\x00\x8c\x01xNse."),
                              &options);
    assert_int_not_equal(st, GW_OK);
    assert_null(p);
    st = read_bytes(BYTES("\x80\x04}\x8c\x01"
                          "bNs."),
                    &options);
    assert_int_equal(st, GW_USAGE);
    assert_non_null(strstr(err.text, "no b, please"));
}

/* A folded container needs no memory for items: 30,000 dicts fit into 3 MiB if they are folded, but not otherwise. */
GW_TEST(memory_is_bounded)
{
    static out o;
    seen s = {0};
    gw_pickle_options options = {.names = names, .name_count = NAME_COUNT, .memory_max = 3 << 20};
    make_list(&o, 30000, 1000);
    assert_int_equal(read_bytes(o.data, o.bytes, &options), GW_UNSUPPORTED);
    assert_non_null(strstr(err.text, "more than 3 MiB of memory"));
    options.fold = fold;
    options.user = &s;
    assert_int_equal(read_bytes(o.data, o.bytes, &options), GW_OK);
}

static void add_texts(out *o, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char text[32] = {'X'};
        int bytes = snprintf(text + 5, sizeof text - 5, "text %u", i);
        text[1] = (char)bytes;
        add(o, text, 5 + (size_t)bytes);
    }
}

/* If the memory limit is below what the file needs, reading must fail, whichever of the reader's tables reaches the
 * limit. */
GW_TEST(every_table_is_bounded)
{
    static out o;
    gw_pickle_options options = {.memory_max = UINT64_C(1) << 40};
    o.bytes = 0;
    add(&o, BYTES("\x80\x02]("));
    add_texts(&o, 5000);
    add(&o, BYTES("e."));
    assert_int_equal(read_bytes(o.data, o.bytes, &options), GW_OK);
    uint64_t needed = p->memory;
    for (options.memory_max = 1000; options.memory_max < needed; options.memory_max += 1000) {
        assert_int_equal(read_bytes(o.data, o.bytes, &options), GW_UNSUPPORTED);
        assert_null(p);
    }
    options.memory_max = needed;
    assert_int_equal(read_bytes(o.data, o.bytes, &options), GW_OK);
}

GW_TEST(many_texts)
{
    static out o;
    o.bytes = 0;
    add(&o, BYTES("\x80\x02]("));
    add_texts(&o, 5000);
    add_texts(&o, 5000);
    add(&o, BYTES("e."));
    assert_int_equal(read_bytes(o.data, o.bytes, NULL), GW_OK);
    for (unsigned i = 0; i < 5000; i++) {
        char text[32];
        snprintf(text, sizeof text, "text %u", i);
        assert_string_equal(gw_pickle_text(p, gw_pickle_at(p, root, i, NULL), NULL), text);
        assert_int_equal(gw_pickle_at(p, root, i, NULL).number, gw_pickle_at(p, root, 5000 + i, NULL).number);
    }
}

GW_TEST_MAIN(NULL, free_last)

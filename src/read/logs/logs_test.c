/* Tests that the reader finds each sign in its example. Further tests: terminal text, long lines, damaged files,
 * limits, the order of found lines. */
#include "gw_cuda_results.h"
#include "gw_regression_words.h"
#include "gw_test_folder.h"
#include "gwi_logs.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static gw_log *read_text(const char *bytes, size_t count, size_t piece)
{
    gw_error err;
    gw_log_reader *reader = NULL;
    gw_log *log = NULL;
    assert_int_equal(gw_log_open(&reader, &err), GW_OK);
    assert_int_equal(gw_log_begin(reader, "test.log", &err), GW_OK);
    for (size_t at = 0; at < count; at += piece)
        assert_int_equal(gw_log_feed(reader, bytes + at, count - at < piece ? count - at : piece, &err), GW_OK);
    assert_int_equal(gw_log_finish(reader, &log, &err), GW_OK);
    return log;
}

static gw_log *read_string(const char *text)
{
    return read_text(text, strlen(text), SIZE_MAX / 2);
}

static const gw_log_find *find_of(const gw_log *log, gw_sign sign)
{
    for (size_t i = 0; i < log->find_count; i++) {
        if (log->find[i].sign == sign)
            return &log->find[i];
    }
    return NULL;
}

/* ---- signs ---- */

static const struct {
    const char *name, *pattern;
} signs[GW_SIGN_COUNT] = {
#define GWI_SIGN(name, kind, pattern) {#name, pattern},
#include "signs.def"
#undef GWI_SIGN
};

static const struct {
    gw_sign sign;
    const char *field, *value, *line;
} examples[] = {
#define GWI_EXAMPLE(sign, field, value, line) {GW_SAYS_##sign, field, value, line},
#include "examples.def"
#undef GWI_EXAMPLE
};
enum { EXAMPLE_COUNT = sizeof examples / sizeof examples[0] };

/* True for the signs of messages.def. */
static bool is_class(gw_sign sign)
{
    static const gw_sign classes[] = {
#define GWI_MESSAGE(name, kind, depth, certainty, causes, pattern) GW_SAYS_##name,
#include "messages.def"
#undef GWI_MESSAGE
    };
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        if (classes[i] == sign)
            return true;
    }
    return false;
}

/* ---- several readers ---- */

enum { THREADS = 4 };

static void *read_all_examples(void *unused)
{
    size_t *count = calloc(GW_SIGN_COUNT, sizeof *count);
    gw_log_reader *reader = NULL;
    gw_log *log = NULL;
    if (count == NULL || gw_log_open(&reader, NULL) != GW_OK || gw_log_begin(reader, "x", NULL) != GW_OK) {
        free(count);
        return NULL;
    }
    for (size_t i = 0; i < EXAMPLE_COUNT; i++) {
        if (gw_log_feed(reader, examples[i].line, strlen(examples[i].line), NULL) != GW_OK ||
            gw_log_feed(reader, "\n", 1, NULL) != GW_OK)
            break;
    }
    if (gw_log_finish(reader, &log, NULL) == GW_OK) {
        for (gw_sign sign = 0; sign < GW_SIGN_COUNT; sign++)
            count[sign] = log->count[sign];
        gw_log_free(log);
    }
    return count;
}

/* The first reader compiles the patterns for all threads. All threads must get the same result, whichever thread opens
 * the first reader. This must be the first test, because every reader compiles the patterns if that was not done
 * before. */
GW_TEST(readers_of_several_threads_see_the_same)
{
    pthread_t thread[THREADS];
    size_t *count[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, read_all_examples, NULL), 0);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(thread[i], (void **)&count[i]), 0);
        assert_non_null(count[i]);
        assert_memory_equal(count[i], count[0], GW_SIGN_COUNT * sizeof *count[0]);
    }
    assert_int_equal(count[0][GW_SAYS_FORK], 1);
    for (size_t i = 0; i < THREADS; i++)
        free(count[i]);
}

GW_TEST(every_sign_is_found_in_its_example)
{
    bool seen[GW_SIGN_COUNT] = {0};
    for (size_t i = 0; i < EXAMPLE_COUNT; i++) {
        gw_log *log = read_string(examples[i].line);
        const gw_log_find *find = find_of(log, examples[i].sign);
        bool noise = gw_sign_kind_of(examples[i].sign) == GW_SIGN_NOISE;
        if (noise ? log->count[examples[i].sign] != 1 || log->find_count != 0 : find == NULL)
            fail_msg("%s is not found in: %s", signs[examples[i].sign].name, examples[i].line);
        if (examples[i].field[0] != '\0')
            assert_string_equal(gw_log_text(find, examples[i].field), examples[i].value);
        seen[examples[i].sign] = true;
        gw_log_free(log);
    }
    for (gw_sign sign = 0; sign < GW_SIGN_COUNT; sign++) {
        if (!seen[sign] && !is_class(sign) &&
            sign != GW_SAYS_RAISED) /* verdict_messages_test has the examples of the signs of messages.def */
            fail_msg("%s has no example", signs[sign].name);
    }
}

/* Lines that contain the same words in another context must not match. */
GW_TEST(other_things_are_not_found)
{
    static const struct {
        gw_sign sign;
        const char *line;
    } others[] = {{GW_SAYS_XLA_OOM, "429 RESOURCE_EXHAUSTED: Quota exceeded for requests"},
                  {GW_SAYS_XLA_OOM, "StatusCode.RESOURCE_EXHAUSTED details = \"Received message larger than max\""},
                  {GW_SAYS_OOM_WORDS, "java.lang.OutOfMemoryError: Java heap space"},
                  {GW_SAYS_SUMMARY_OOMS, "|            CUDA OOMs: 0            |"},
                  {GW_SAYS_THROTTLE, "thermal throttling monitor started on GPU 0"},
                  {GW_SAYS_THROTTLE, "HW Thermal Slowdown                  : Not Active"},
                  {GW_SAYS_NAN, "op CheckNumerics is not clusterable"},
                  {GW_SAYS_NAN, "NaN detected: False"},
                  {GW_SAYS_NETWORK, "websocket connection failed, retrying"},
                  {GW_SAYS_NETWORK, "socket.timeout: The read operation timed out"}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        gw_log *log = read_string(others[i].line);
        if (log->count[others[i].sign] != 0)
            fail_msg("%s is found in: %s", signs[others[i].sign].name, others[i].line);
        gw_log_free(log);
    }
}

GW_TEST(every_pattern_has_a_literal)
{
    gwi_literals literals;
    for (gw_sign sign = 0; sign < GW_SIGN_COUNT; sign++) {
        if (gw_sign_kind_of(sign) == GW_SIGN_NEAR)
            continue; /* these signs need no literal: they are not searched for in the whole log */
        gwi_literals_find(signs[sign].pattern, &literals);
        if (literals.count == 0)
            fail_msg("%s has no literal to look for", signs[sign].name);
    }
}

GW_TEST(literals_are_what_a_line_must_hold)
{
    static const struct {
        const char *pattern;
        size_t count;
        const char *first;
    } cases[] = {{"abc", 1, "abc"},
                 {"abc|defg", 2, "abc"},
                 {"ab?cdef", 2, "abcdef"},
                 {"(?:abc|def)ghijk", 2, "abcghijk"},
                 {"(?:abc|xabc)", 1, "abc"},
                 {"x(?:abc|def)y", 2, "xabcy"},
                 {"[Tt]imed out", 2, "Timed out"},
                 {"a\\.bcd", 1, "a.bcd"},
                 {"[a-z]+xyz", 1, "xyz"},
                 {"[]x]yz", 2, "]yz"},
                 {"[^x]abc", 1, "abc"},
                 {"(?<n>abcd)*xyz", 1, "xyz"},
                 {"(?<n>abcd)+xyz", 1, "abcdxyz"},
                 {"(?<n>[\\d.]+ ?[KMGT]?i?B) (?:is )?free", 2, "B is free"},
                 {"abc{0,3}de", 0, ""},
                 {"abc(?!longer than it)", 1, "abc"},
                 {"(?<!longer )abc(?=no)", 1, "abc"},
                 {"\\bword\\b", 1, "word"},
                 {"(?i:abcd|efgh) xyz", 1, " xyz"},
                 {"(?i:abcd|efgh)", 0, ""},
                 {"abc|.", 0, ""},
                 {"a|b", 0, ""},
                 {"abc(def", 1, "abcdef"},
                 {"abc)def", 0, ""},
                 {"[abc", 0, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gwi_literals found;
        gwi_literals_find(cases[i].pattern, &found);
        if (found.count != cases[i].count)
            fail_msg("%s: %zu literals", cases[i].pattern, found.count);
        if (found.count > 0)
            assert_string_equal(found.text[0], cases[i].first);
    }
}

static bool holds_one(const char *line, const gwi_literals *literals)
{
    for (size_t i = 0; i < literals->count; i++) {
        if (strstr(line, literals->text[i]) != NULL)
            return true;
    }
    return false;
}

/* If a pattern matches a line, the line must contain one of the pattern's literals. */
GW_TEST(no_match_is_without_a_literal)
{
    gwi_matcher *matcher = NULL;
    gwi_match match;
    assert_int_equal(gwi_matcher_open(&matcher, NULL), GW_OK);
    for (gw_sign sign = 0; sign < GW_SIGN_COUNT; sign++) {
        gwi_literals literals;
        gwi_literals_find(signs[sign].pattern, &literals);
        for (size_t i = 0; i < EXAMPLE_COUNT; i++) {
            const char *line = examples[i].line;
            if (gw_sign_kind_of(sign) != GW_SIGN_NEAR && gwi_matcher_line(matcher, sign, line, strlen(line), &match) &&
                !holds_one(line, &literals))
                fail_msg("%s is in a line that nobody looks at: %s", signs[sign].name, line);
        }
    }
    gwi_matcher_close(matcher);
}

/* ---- terminals ---- */

GW_TEST(colours_and_progress_bars_do_not_hide_a_line)
{
    gw_log *log = read_string("one\r\n\x1b[1;31mRuntimeError\x1b[0m: \x1b[31mCUDA error: misaligned \x1b[0maddress\r\n"
                              " 10%|#\r 20%|##\rRuntimeError: CUDA error: unspecified launch failure\n"
                              "\x1b]0;title\x07"
                              "CUDA error: invalid device function\n");
    assert_int_equal(log->count[GW_SAYS_CUDA_TEXT], 3);
    assert_int_equal(log->file[0].line_count, 4);
    const gw_log_find *find = find_of(log, GW_SAYS_CUDA_TEXT);
    assert_int_equal(find->line, 2);
    assert_string_equal(find->text, "RuntimeError: CUDA error: misaligned address");
    gw_log_free(log);
}

GW_TEST(broken_sequences_end_with_their_line)
{
    gw_log *log =
        read_string("\x1b[31\nCUDA error: misaligned address\n\x1b]0;never closed\nCUDA error: misaligned address\n"
                    "\xff\xc3(\x80 CUDA error: misaligned address \xf0\x28\n\x1b");
    assert_int_equal(log->count[GW_SAYS_CUDA_TEXT], 3);
    gw_log_free(log);
}

GW_TEST(sixteen_bit_text_is_read)
{
    static const char text[] = "x\nCUDA error: misaligned address\n";
    for (int high_first = 0; high_first < 2; high_first++) {
        char wide[2 * sizeof text] = {(char)(high_first ? 0xfe : 0xff), (char)(high_first ? 0xff : 0xfe)};
        for (size_t i = 0; text[i] != '\0'; i++)
            wide[2 + 2 * i + (size_t)high_first] = text[i];
        gw_log *log = read_text(wide, 2 * sizeof text, 3);
        assert_int_equal(log->count[GW_SAYS_CUDA_TEXT], 1);
        assert_int_equal(find_of(log, GW_SAYS_CUDA_TEXT)->line, 2);
        gw_log_free(log);
    }
}

/* ---- sizes ---- */

/* The result does not depend on how the text is split into pieces. */
GW_TEST(pieces_make_no_difference)
{
    static const char text[] =
        "Epoch 1\n\x1b[31mTraceback (most recent call last):\x1b[0m\n  File \"a.py\", line 3, in f\n"
        "ValueError: bad\nEpoch 2";
    static const char escaped[] = "{\"log\": \"Epoch 1\\n\\u001b[31mTraceback (most recent call last):\\u001b[0m\\n  "
                                  "File \\\"a.py\\\", line 3, in f\\n"
                                  "ValueError: bad\\nEpoch 2";
    static const size_t pieces[] = {1, 2, 3, 7, 1000};
    for (size_t i = 0; i < 2 * sizeof pieces / sizeof pieces[0]; i++) {
        size_t piece = pieces[i / 2];
        gw_log *log =
            i % 2 == 0 ? read_text(text, sizeof text - 1, piece) : read_text(escaped, sizeof escaped - 1, piece);
        assert_int_equal(log->find_count, 6);
        assert_int_equal(log->file[0].line_count, 5);
        assert_int_equal(find_of(log, GW_SAYS_EXCEPTION)->line, 4);
        gw_log_free(log);
    }
}

/* A line with a failure may have signs of kind NEAR, too, wherever it is. */
GW_TEST(failing_lines_are_searched_for_all_signs)
{
    static const char *const ends[] = {"", "\n", "\nbye\n", "\nCUDA error: misaligned address\n"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, "Traceback (most recent call last):\n  File \"a.py\", line 3\nIOError: no memory%s",
                 ends[i]);
        gw_log *log = read_string(text);
        assert_non_null(find_of(log, GW_SAYS_MEMORY_WORD));
        assert_int_equal(find_of(log, GW_SAYS_MEMORY_WORD)->line, 3);
        gw_log_free(log);
    }
}

enum { MIB = 1 << 20 };

GW_TEST(lines_longer_than_a_block_are_read)
{
    size_t count = 3 * MIB;
    char *text = malloc(count);
    assert_non_null(text);
    memset(text, 'x', count);
    static const char said[] = "CUDA error: misaligned address";
    memcpy(text, said, sizeof said - 1);
    static const char end[] = "\nKeyboardInterrupt";
    memcpy(text + count - sizeof end + 1, end, sizeof end - 1);
    gw_log *log = read_text(text, count, 4096);
    assert_int_equal(log->count[GW_SAYS_CUDA_TEXT], 1);
    assert_int_equal(find_of(log, GW_SAYS_INTERRUPTED)->line, 2);
    assert_true(strlen(find_of(log, GW_SAYS_CUDA_TEXT)->text) <= GW_LOG_TEXT_MAX);
    gw_log_free(log);
    memset(text, 'x', 400000);
    memcpy(text + 200000, said, sizeof said - 1);
    log = read_text(text, 400000, 400000);
    /* the message is found although it is far from the start of the line */
    assert_int_equal(log->count[GW_SAYS_CUDA_TEXT], 1);
    assert_non_null(strstr(find_of(log, GW_SAYS_CUDA_TEXT)->text, said));
    gw_log_free(log);
    for (size_t blocks = 1; blocks <= 2; blocks++) { /* one line, which ends at the end of a block */
        log = read_text(text, blocks * MIB, MIB);
        assert_int_equal(log->file[0].line_count, 1);
        gw_log_free(log);
    }
    free(text);
}

/* If many lines match a sign, only the first and the last matches are stored, but all are counted. Line numbers
 * continue from block to block. */
GW_TEST(finds_are_bounded)
{
    enum { LINES = 60000 };
    static const char line[] = "CUDA error: misaligned address\n";
    size_t bytes = sizeof line - 1;
    char *text = malloc(LINES * bytes);
    assert_non_null(text);
    for (size_t i = 0; i < LINES; i++)
        memcpy(text + i * bytes, line, bytes);
    gw_log *log = read_text(text, LINES * bytes, 100000);
    assert_int_equal(log->count[GW_SAYS_CUDA_TEXT], LINES);
    assert_true(log->find_count < 200);
    assert_int_equal(log->find[0].line, 1);
    assert_int_equal(log->find[log->find_count - 1].line, LINES);
    gw_log_free(log);
    free(text);
}

/* ---- ranks ---- */

GW_TEST(prefixes_name_the_rank)
{
    static const struct {
        const char *line;
        int rank;
    } cases[] = {{"[rank3]: Traceback", 3},
                 {"[rank2]:[E ProcessGroupNCCL.cpp:563] [Rank 2] Watchdog", 2},
                 {"[E ProcessGroupNCCL.cpp:474] [Rank 0] Watchdog", 0},
                 {"[1,5]<stderr>: error", 5},
                 {" 7: srun's label", 7},
                 {"host0:1001:1002 [1] NCCL INFO x", 1},
                 {"[2024-01-01 00:00:00] x", -1},
                 {"12:30:01 INFO x", -1},
                 {"[1/5] step", -1},
                 {"[99999999999,99999999999999999]", -1},
                 {"", -1},
                 {"[rank", -1},
                 {"[Rank ]", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(gwi_rank_of(cases[i].line, strlen(cases[i].line)), cases[i].rank);
}

/* ---- files ---- */

GW_TEST_WITH(packed_files_are_read, gw_test_folder_make, gw_test_folder_remove)
{
    static const char *const packers[] = {"gzip -n", "xz -T1", "zstd -q --rm"};
    static const char *const suffixes[] = {"gz", "xz", "zst"};
    static const char text[] = "Epoch 1\nCUDA error: misaligned address\n";
    for (size_t i = 0; i < sizeof packers / sizeof packers[0]; i++) {
        char command[600], path[600];
        gw_error err;
        gw_log *log = NULL;
        gw_test_write(gw_test_file, text, sizeof text - 1);
        snprintf(command, sizeof command, "%s %s", packers[i], gw_test_file);
        if (system(command) != 0)
            continue; /* this compressor is not installed */
        snprintf(path, sizeof path, "%s.%s", gw_test_file, suffixes[i]);
        assert_true(gw_log_is_text(path));
        gw_status st = gw_log_read((const char *const[]){path}, 1, &log, &err);
        if (st != GW_UNSUPPORTED) {
            assert_int_equal(st, GW_OK);
            assert_int_equal(log->count[GW_SAYS_CUDA_TEXT], 1);
            assert_int_equal(log->file[0].bytes, sizeof text - 1);
            gw_log_free(log);
            /* a truncated file: the readable part is kept, and the damage is reported */
            assert_int_equal(truncate(path, 30), 0);
            log = NULL;
            assert_int_equal(gw_log_read((const char *const[]){path}, 1, &log, &err), GW_OK);
            assert_non_null(log->file[0].damage);
            gw_log_free(log);
        }
    }
}

/* A program wrote on after its log had been truncated: a file of 1 TiB with one line, and nothing before it. */
GW_TEST_WITH(holes_are_skipped, gw_test_folder_make, gw_test_folder_remove)
{
    static const char text[] = "CUDA error: misaligned address\n";
    gw_error err;
    gw_log *log = NULL;
    gw_test_write(gw_test_file, text, 0);
    assert_int_equal(truncate(gw_test_file, (off_t)1 << 40), 0);
    assert_false(gw_log_is_text(gw_test_file));
    assert_int_equal(gw_log_read((const char *const[]){gw_test_file}, 1, &log, &err), GW_CORRUPT);
    FILE *file = fopen(gw_test_file, "ab");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, sizeof text - 1, file), sizeof text - 1);
    assert_int_equal(fclose(file), 0);
    assert_true(gw_log_is_text(gw_test_file));
    assert_int_equal(gw_log_read((const char *const[]){gw_test_file}, 1, &log, &err), GW_OK);
    assert_int_equal(log->count[GW_SAYS_CUDA_TEXT], 1);
    gw_log_free(log);
}

GW_TEST_WITH(what_is_no_text_is_refused, gw_test_folder_make, gw_test_folder_remove)
{
    gw_error err;
    gw_log *log = NULL;
    char bytes[512] = {0};
    gw_test_write(gw_test_file, bytes, sizeof bytes);
    assert_false(gw_log_is_text(gw_test_file));
    assert_int_equal(gw_log_read((const char *const[]){gw_test_file}, 1, &log, &err), GW_CORRUPT);
    assert_non_null(strstr(err.text, gw_test_file));
    assert_int_equal(gw_log_read((const char *const[]){gw_test_folder}, 1, &log, &err), GW_IO);
    assert_int_equal(gw_log_read((const char *const[]){"/nowhere/train.log"}, 1, &log, &err), GW_IO);
    assert_non_null(strstr(err.text, "/nowhere/train.log"));
}

GW_TEST(fields_are_numbers_and_sizes)
{
    int64_t number;
    uint64_t bytes;
    gw_log_find find = {.field = {{"a", "1,024"}, {"b", "381.50 MiB"}, {"c", "x"}, {"d", "999999999999999999999999"}},
                        .field_count = 4};
    assert_true(gw_log_number(&find, "a", &number));
    assert_int_equal(number, 1024);
    assert_true(gw_log_bytes(&find, "b", &bytes));
    assert_int_equal(bytes, 400031744);
    assert_false(gw_log_number(&find, "b", &number));
    assert_false(gw_log_bytes(&find, "c", &bytes));
    assert_false(gw_log_number(&find, "none", &number));
}

int main(void)
{
    if (!gw_logs_are_supported()) {
        printf("[  SKIPPED ] text logs: this build has no matcher\n");
        return 77;
    }
    return GW_TEST_RUN(NULL, NULL);
}

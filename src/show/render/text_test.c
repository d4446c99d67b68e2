/* Tests verdicts as text: strings with control characters, the limit of one screen, and the user's source line. */
#include "gw_render.h"
#include "gw_say.h"
#include "gw_test_folder.h"
#include "gw_text.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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

static gw_text page; /* rendered last */

static const char *rendered(const gw_verdict *verdict, const gw_render_style *style)
{
    gw_text_clear(&page);
    gw_render_text(verdict, style, &page);
    return gw_text_str(&page);
}

GW_TEST(a_verdict_reads_as_designed)
{
    gw_verdict verdict = sample();
    static const char wanted[] =
        "gpuwhy: python $'train.py\\033[2J' exited 1 after 41.2 s on 2 x NVIDIA H200\n"
        "        (limit 16.00 GiB)\n"
        "\n"
        "Verdict  gpu-oom-leak (established): the second run found the GPU full of what\n"
        "         the first one kept.\n"
        "Next     1. Append float(x), or x.detach(), so that the graph of each step can\n"
        "            be freed with the step.\n"
        "         2. Use a smaller batch.\n"
        "Why      38.92 s  cuMemAlloc of 2.39 GiB failed\n"
        "         12.74 GiB in use by this process\n"
        "         ruled out: other processes (0 B), fragmentation\n"
        "Details  gpuwhy explain\n"
        "           /a/very/long/path/that/must/not/be/cut/in/two/whatever/the/width/may/be.gpuwhy\n";
    assert_string_equal(rendered(&verdict, &(gw_render_style){.width = 80}), wanted);
}

GW_TEST(a_headline_is_not_repeated)
{
    static gw_evidence said[] = {{.text = (char *)"no CUDA driver call was observed", .source = "driver"},
                                 {.text = (char *)"the program exited with status 1", .source = "exit"}};
    gw_verdict verdict = sample();
    verdict.headline = (char *)"the program raised an exception; no CUDA driver call was observed";
    verdict.evidence = said;
    const char *text = rendered(&verdict, &(gw_render_style){.width = 200, .all = true});
    const char *first = strstr(text, said[0].text);
    assert_non_null(first);
    assert_null(strstr(first + 1, said[0].text));
    assert_non_null(strstr(text, said[1].text));
}

GW_TEST(a_message_is_short_and_cut_after_a_line)
{
    gw_verdict verdict = sample();
    gw_text whole = {0};
    gw_render_message(&verdict, 4096, &whole);
    static const char wanted[] =
        "gpuwhy: python $'train.py\\033[2J' exited 1 after 41.2 s on 2 x NVIDIA\n"
        "        H200 (limit 16.00 GiB)\n"
        "\n"
        "Verdict  gpu-oom-leak (established): the second run found the GPU full\n"
        "         of what the first one kept.\n"
        "Next     1. Append float(x), or x.detach(), so that the graph of each\n"
        "            step can be freed with the step.\n"
        "         2. Use a smaller batch.\n"
        "Details  gpuwhy explain\n"
        "           /a/very/long/path/that/must/not/be/cut/in/two/whatever/the/width/may/be.gpuwhy\n"
        "Why      38.92 s  cuMemAlloc of 2.39 GiB failed\n"
        "         12.74 GiB in use by this process\n";
    assert_string_equal(gw_text_str(&whole), wanted);
    for (size_t bytes = 0; bytes <= whole.bytes; bytes++) {
        static const char mark[] = "(cut here)\n";
        gw_text text = {0};
        gw_render_message(&verdict, bytes, &text);
        assert_true(text.bytes <= bytes);
        assert_int_equal(text.bytes == whole.bytes, bytes == whole.bytes);
        size_t kept = text.bytes == 0 ? 0 : text.bytes - strlen(mark);
        if (bytes < whole.bytes && text.bytes > 0) {
            assert_true(gw_ends_with(gw_text_str(&text), mark));
            assert_memory_equal(text.data, whole.data, kept);
            assert_int_equal(text.data[kept - 1], '\n');
        }
        assert_true(text.bytes > 0 || bytes < 72 + strlen(mark)); /* the first line is 70 bytes long */
        gw_text_free(&text);
    }
    gw_text_free(&whole);
}

GW_TEST(a_message_has_the_first_lines_of_evidence)
{
    gw_verdict verdict = sample();
    static gw_evidence many[9];
    char text_of[9][16];
    gw_text text = {0};
    for (int i = 0; i < 9; i++) {
        snprintf(text_of[i], sizeof text_of[i], "evidence %d", i);
        many[i] = (gw_evidence){.text = text_of[i], .source = "driver"};
    }
    many[8].weight = GW_WEIGHT_DECIDES;
    verdict.evidence = many;
    verdict.evidence_count = 9;
    gw_render_message(&verdict, 4096, &text);
    assert_non_null(strstr(gw_text_str(&text), "Why      evidence 8\n         evidence 0\n"));
    assert_non_null(strstr(gw_text_str(&text), "evidence 4\n"));
    assert_null(strstr(gw_text_str(&text), "evidence 5"));
    gw_text_free(&text);
}

GW_TEST(no_line_is_wider_than_asked)
{
    for (unsigned width = 40; width < 200; width += 7) {
        gw_verdict verdict = sample();
        verdict.recording = NULL;
        rendered(&verdict, &(gw_render_style){.width = width});
        for (const char *line = gw_text_str(&page); *line != '\0'; line += strcspn(line, "\n") + 1)
            if (strcspn(line, "\n") > width)
                fail_msg("width %u: %.*s", width, (int)strcspn(line, "\n"), line);
    }
}

GW_TEST(colours_only_when_asked)
{
    gw_verdict verdict = sample();
    assert_null(strchr(rendered(&verdict, &(gw_render_style){.width = 80}), '\033'));
    assert_non_null(strchr(rendered(&verdict, &(gw_render_style){.width = 80, .colour = true}), '\033'));
}

/* Colours change neither the words nor the layout: without the sequences, each text is the one without colours. */
GW_TEST(colours_do_not_move_text)
{
    for (unsigned width = 40; width < 200; width += 7) {
        for (int all = 0; all < 2; all++) {
            gw_verdict verdict = sample();
            gw_text plain = {0}, colour = {0}, stripped = {0};
            gw_render_text(&verdict, &(gw_render_style){.width = width, .all = all != 0}, &plain);
            gw_render_text(&verdict, &(gw_render_style){.width = width, .all = all != 0, .colour = true}, &colour);
            gw_paint_remove(gw_text_str(&colour), &stripped);
            assert_string_equal(gw_text_str(&stripped), gw_text_str(&plain));
            gw_text_free(&plain);
            gw_text_free(&colour);
            gw_text_free(&stripped);
        }
    }
}

GW_TEST(the_verdicts_colour_is_its_certainty)
{
    static const struct {
        gw_verdict_status status;
        gw_certainty certainty;
        gw_role role;
    } cases[] = {{GW_VERDICT_FAULT, GW_ESTABLISHED, GW_ROLE_FAILED},
                 {GW_VERDICT_FAULT, GW_SUPPORTED, GW_ROLE_FAILED},
                 {GW_VERDICT_FAULT, GW_HYPOTHESIS, GW_ROLE_WARNING},
                 {GW_VERDICT_CLEAN, GW_HYPOTHESIS, GW_ROLE_GOOD},
                 {GW_VERDICT_UNDETERMINED, GW_HYPOTHESIS, GW_ROLE_WARNING}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gw_verdict verdict = sample();
        verdict.status = cases[i].status;
        verdict.certainty = cases[i].certainty;
        rendered(&verdict, &(gw_render_style){.width = 80, .colour = true});
        const char *line = strstr(gw_text_str(&page), "Verdict\033[0m  ");
        assert_non_null(line);
        line += strlen("Verdict\033[0m  ");
        assert_memory_equal(line, gw_role_begin(cases[i].role), strlen(gw_role_begin(cases[i].role)));
    }
}

GW_TEST(an_empty_verdict_is_printed)
{
    for (int status = GW_VERDICT_FAULT; status <= GW_VERDICT_UNDETERMINED; status++) {
        gw_verdict verdict = {.status = (gw_verdict_status)status, .cause = "x"};
        assert_non_null(strstr(rendered(&verdict, &(gw_render_style){0}), "exit status unknown"));
    }
}

GW_TEST(long_commands_are_cut)
{
    char script[2000], *arguments[100];
    memset(script, 'x', sizeof script - 1);
    script[sizeof script - 1] = '\0';
    script[5] = ' ';
    for (size_t i = 0; i < 100; i++)
        arguments[i] = i == 1 ? script : (char *)"it's";
    gw_verdict verdict = {.status = GW_VERDICT_CLEAN, .argv = {arguments, 100}};
    size_t first = strcspn(rendered(&verdict, &(gw_render_style){.width = 1000}), "\n");
    assert_in_range(first, 80, 250);
    assert_non_null(strstr(gw_text_str(&page), "xxx...'"));
}

GW_TEST(foreign_bytes_become_harmless)
{
    static const struct {
        const char *given, *shown, *utf8;
    } cases[] = {{"plain", "plain", "plain"},
                 {"\033[31m\007\r\n", "?[31m???", "\033[31m\007\r\n"},
                 {"gr\xC3\xBC\xC3\x9F", "gr\xC3\xBC\xC3\x9F", "gr\xC3\xBC\xC3\x9F"},
                 {"\xC2\x9B", "?", "\xC2\x9B"},                  /* a C1 control character */
                 {"a\xFF", "a?", "a\xEF\xBF\xBD"},               /* a byte that is never valid in UTF-8 */
                 {"\xC0\x80", "??", "\xEF\xBF\xBD\xEF\xBF\xBD"}, /* an overlong encoding */
                 {"\xE2\x82", "??", "\xEF\xBF\xBD\xEF\xBF\xBD"}, /* a truncated character */
                 {"\xED\xA0\x80", "???", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* an encoded surrogate */
                 {"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gw_text shown = {0}, utf8 = {0};
        gw_add_printable(&shown, cases[i].given);
        gw_add_utf8(&utf8, cases[i].given);
        assert_string_equal(gw_text_str(&shown), cases[i].shown);
        assert_string_equal(gw_text_str(&utf8), cases[i].utf8);
        gw_text_free(&shown);
        gw_text_free(&utf8);
    }
}

/* ---- one screen ---- */

static unsigned lines_in(const char *text)
{
    unsigned lines = 0;
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

/* The lists of the verdict that crowded() returns. Each list has more entries than fit on one screen. */
enum { MANY = 30 };
static char many_text[MANY][200];
static char *many[MANY];
static gw_evidence many_evidence[MANY];

static gw_verdict crowded(void)
{
    gw_verdict verdict = sample();
    for (size_t i = 0; i < MANY; i++) {
        snprintf(many_text[i], sizeof many_text[i],
                 "line %zu says something that a reader can do without, at such length that it takes two lines (and "
                 "says a little more: a third one)",
                 i);
        many[i] = many_text[i];
        many_evidence[i] = (gw_evidence){.text = many_text[i], .source = "driver"};
    }
    verdict.evidence = many_evidence;
    verdict.evidence_count = MANY;
    verdict.ruled_out = verdict.consequences = verdict.next = verdict.advice = (gw_string_list){many, MANY};
    verdict.recording = (char *)"run.gpuwhy";
    return verdict;
}

GW_TEST(too_much_becomes_one_screen)
{
    gw_verdict verdict = crowded();
    gw_text screen = {0}, all = {0};
    gw_render_text(&verdict, &(gw_render_style){.width = 80}, &screen);
    gw_render_text(&verdict, &(gw_render_style){.width = 80, .all = true}, &all);
    assert_in_range(lines_in(gw_text_str(&screen)), GW_RENDER_LINES - 2, GW_RENDER_LINES);
    const char *fixes = strstr(gw_text_str(&screen), "\nNext "), *why = strstr(gw_text_str(&screen), "\nWhy ");
    const char *details = strstr(gw_text_str(&screen), "\nDetails ");
    assert_true(fixes != NULL && why != NULL && details != NULL && fixes < why && why < details);
    unsigned more = (unsigned)strtoul(details + strlen("\nDetails  "), NULL, 10);
    assert_int_equal(more, lines_in(gw_text_str(&all)) - lines_in(gw_text_str(&screen)));
    assert_non_null(strstr(details, "more lines: gpuwhy explain --all run.gpuwhy\n"));
    assert_null(strstr(gw_text_str(&all), "more line"));
    for (size_t i = 0; i < MANY; i++) {
        char number[20];
        snprintf(number, sizeof number, "line %zu says", i);
        assert_non_null(strstr(gw_text_str(&all), number));
    }
    gw_text_free(&screen);
    gw_text_free(&all);
}

GW_TEST(every_width_and_colour_fits)
{
    for (unsigned width = 80; width < 200; width += 13) {
        gw_verdict verdict = crowded();
        rendered(&verdict, &(gw_render_style){.width = width, .colour = true});
        assert_in_range(lines_in(gw_text_str(&page)), 10, GW_RENDER_LINES);
    }
}

GW_TEST(what_decides_comes_first)
{
    gw_verdict verdict = crowded();
    many_evidence[MANY - 1].weight = GW_WEIGHT_DECIDES;
    many_evidence[0].weight = GW_WEIGHT_ASIDE;
    const char *why = strstr(rendered(&verdict, &(gw_render_style){.width = 80}), "\nWhy ");
    assert_memory_equal(why + 10, "line 29", 7);
    assert_null(strstr(why, "line 0 says"));
}

/* The last line names the command that prints the lines left out. The caller may choose this command. */
GW_TEST(the_command_for_the_rest_is_the_callers)
{
    gw_verdict verdict = crowded();
    verdict.recording = NULL;
    rendered(&verdict, &(gw_render_style){.width = 80, .again = "gpuwhy explain --all 700"});
    assert_non_null(strstr(gw_text_str(&page), "more lines: gpuwhy explain --all 700\n"));
}

GW_TEST(a_word_longer_than_a_line_loses_its_middle)
{
    gw_verdict verdict = sample();
    char word[400] = "/begin";
    gw_evidence one = {.text = word, .source = "host"};
    memset(word + 6, 'x', sizeof word - 11);
    memcpy(word + sizeof word - 5, ".so\0", 5);
    verdict.evidence = &one;
    verdict.evidence_count = 1;
    verdict.recording = NULL;
    const char *line = strstr(rendered(&verdict, &(gw_render_style){.width = 80}), "Why      ");
    assert_in_range(strcspn(line, "\n"), 70, 80);
    assert_memory_equal(line + 9, "/begin", 6);
    assert_memory_equal(line + strcspn(line, "\n") - 3, ".so", 3);
    assert_non_null(strstr(rendered(&verdict, &(gw_render_style){.width = 80, .all = true}), word));
}

/* ---- the user's line ---- */

static char host[256];
static gw_where_frame frame;
static gw_where where = {.what = "the request that was refused", .frame = &frame, .frame_count = 1};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Write `source` to a file. Return a verdict on a run that began after the file was written, with the user's frame at
 * line `line` of this file. */
static gw_verdict placed(const char *source, uint32_t line)
{
    gw_verdict verdict = sample();
    unlink(gw_test_file);
    gw_test_write(gw_test_file, source, strlen(source));
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    frame = (gw_where_frame){
        .file = gw_test_file, .text = (char *)"train.py:2 in step", .line = line, .whose = "own", .python = true};
    verdict.where = &where;
    where.sha256[0] = '\0';
    verdict.run = (gw_verdict_run){
        .host = host, .owner = geteuid(), .has_start = true, .start_realtime_ns = now_ns() + 1000000000u};
    verdict.recording = NULL;
    return verdict;
}

static void shows(const gw_verdict *verdict, unsigned width, const char *wanted, const char *unwanted)
{
    const char *text = rendered(verdict, &(gw_render_style){.width = width});
    if (wanted != NULL && strstr(text, wanted) == NULL)
        fail_msg("'%s' is not in:\n%s", wanted, text);
    if (unwanted != NULL && strstr(text, unwanted) != NULL)
        fail_msg("'%s' is in:\n%s", unwanted, text);
}

GW_TEST(the_users_line_is_shown)
{
    gw_verdict verdict = placed("def step():\n    loss = f(x)\n\tkeep(loss)\nlast()\n", 2);
    shows(&verdict, 80,
          "Where    train.py:2 in step: the request that was refused\n"
          "           1 | def step():\n"
          "         > 2 |     loss = f(x)\n"
          "           3 |     keep(loss)\n"
          "Next ",
          NULL);
    frame.line = 1;
    shows(&verdict, 80, "         > 1 | def step():\n           2 |     loss = f(x)\nNext ", NULL);
    frame.line = 4;
    shows(&verdict, 80, "           3 |     keep(loss)\n         > 4 | last()\nNext ", NULL);
    frame.line = 5; /* the file has no line 5 */
    shows(&verdict, 80, "refused\nNext ", "|");
    frame.line = 0;
    shows(&verdict, 80, "refused\nNext ", "|");
    unlink(gw_test_file);
    shows(&verdict, 80, "refused\nNext ", "|");
}

GW_TEST(the_last_line_needs_no_end)
{
    gw_verdict verdict = placed("a()\nb()", 2);
    shows(&verdict, 80, "           1 | a()\n         > 2 | b()\nNext ", NULL);
}

GW_TEST(lines_that_say_nothing_are_left_out)
{
    gw_verdict verdict = placed("    {\n        call();\n    }\n", 2);
    shows(&verdict, 80, "refused\n         > 2 | call();\nNext ", NULL);
}

GW_TEST(a_source_line_cannot_steer_a_terminal)
{
    gw_verdict verdict = placed("x = '\033[2J\xC2\x9B\xFF'\r\n", 1);
    shows(&verdict, 80,
          "> 1 | x = '?[2J"
          "?\?'\n",
          "\033");
}

GW_TEST(a_long_source_line_is_cut)
{
    char source[70000];
    memset(source, 'x', sizeof source - 1);
    source[sizeof source - 1] = '\0';
    source[60000] = '\n';
    gw_verdict verdict = placed(source, 1);
    for (unsigned width = 40; width < 300; width += 17) {
        const char *line = strstr(rendered(&verdict, &(gw_render_style){.width = width}), "         > 1 | xxx");
        assert_non_null(line);
        assert_int_equal(strcspn(line, "\n"), width);
    }
}

/* If the file was changed after the run began, the source line is not printed, because another line may have run. */
GW_TEST(a_file_that_changed_is_not_shown)
{
    gw_verdict verdict = placed("a()\nb()\n", 2);
    verdict.run.start_realtime_ns = now_ns() - 3600u * 1000000000u;
    shows(&verdict, 80, "the file has changed since", "b()");
    verdict.run.has_start = false; /* a verdict on a log or a snapshot has no start time */
    shows(&verdict, 80, NULL, "b()");
    verdict.run.has_start = true;
    verdict.run.start_realtime_ns = now_ns() + 1000000000u;
    shows(&verdict, 80, "> 2 | b()", NULL);
    verdict.run.host = (char *)"another.machine.invalid";
    shows(&verdict, 80, NULL, "b()");
    verdict.run.host = host;
}

/* With a recorded hash, the contents count and not the times. */
GW_TEST(a_file_is_known_by_its_hash)
{
    gw_verdict verdict = placed("a()\nb()\n", 2);
    verdict.run.start_realtime_ns = 1;
    gw_sha256("a()\nb()\n", 8, where.sha256);
    shows(&verdict, 80, "> 2 | b()", "has changed");
    verdict.run.start_realtime_ns = now_ns() + 1000000000u;
    where.sha256[0] ^= 1;
    shows(&verdict, 80, "the file has changed since", "b()");
}

/* Whoever names a file in a recording must have known its contents, and must be able to read it. */
GW_TEST(a_foreign_recording_shows_what_its_owner_can_read)
{
    gw_verdict verdict = placed("a()\nb()\n", 2);
    verdict.run.owner = geteuid() + 12345;
    assert_int_equal(chmod(gw_test_folder, 0711) | chmod(gw_test_file, 0644), 0);
    shows(&verdict, 80, "train.py:2", "b()"); /* no hash */
    gw_sha256("a()\nb()\n", 8, where.sha256);
    shows(&verdict, 80, "> 2 | b()", NULL);
    assert_int_equal(chmod(gw_test_file, 0600), 0);
    shows(&verdict, 80, "train.py:2", "b()");
    verdict.run.owner = geteuid();
    shows(&verdict, 80, "> 2 | b()", NULL);
}

/* The source line is not printed if the file is newer than the native program that was built from it. */
GW_TEST(a_source_newer_than_the_program_is_not_shown)
{
    gw_verdict verdict = placed("a()\nb()\n", 2);
    struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    char module[] = "/tmp/gpuwhy-out-XXXXXX";
    int fd = mkstemp(module);
    assert_true(fd >= 0);
    frame.python = false;
    frame.module = module;
    shows(&verdict, 80, "> 2 | b()", NULL);
    assert_int_equal(futimens(fd, times), 0);
    shows(&verdict, 80, "the file has changed since", "b()");
    close(fd);
    unlink(module);
    shows(&verdict, 80, "the file has changed since", "b()"); /* the program is gone, so its build time is unknown */
}

/* Render a line with the columns `begin` to `end`. */
static void shows_mark(const char *source, uint32_t begin, uint32_t end, const char *wanted, const char *unwanted)
{
    gw_verdict verdict = placed(source, 1);
    frame.column = begin;
    frame.column_end = end;
    shows(&verdict, 80, wanted, unwanted);
}

GW_TEST(the_part_that_was_running_is_marked)
{
    shows_mark("    a(f(x))\nb()\n", 6, 10,
               "         > 1 |     a(f(x))\n             |       ^^^^\n           2 | b()\n", NULL);
    shows_mark("    a(f(x))\n", 6, 10, "         > 1 | a(f(x))\n             |   ^^^^\nNext ", NULL);
    shows_mark("\ta(f(x))\n", 3, 7, "         > 1 | a(f(x))\n             |   ^^^^\nNext ", NULL);
    shows_mark("a\t= f(x)\r\n", 4, 8, "         > 1 | a    = f(x)\n             |        ^^^^\nNext ", NULL);
    shows_mark("gr\xC3\xBC\xC3\x9F = f(x)\n", 9, 13, "\n             |        ^^^^\nNext ", NULL);
    shows_mark("'\033' + f(x)\n", 6, 10, "> 1 | '?' + f(x)\n             |       ^^^^\nNext ", "\033");
}

/* Of a native frame, only the place where the call begins is known. */
GW_TEST(the_call_of_a_native_line_is_marked)
{
    gw_verdict verdict = placed("  if (\tok(\xC3\xBCx(p)) < 0)\n", 1);
    char module[] = "/proc/self/exe"; /* newer than the source? its age does not matter here */
    frame.python = false;
    frame.module = module;
    struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    assert_int_equal(utimensat(AT_FDCWD, gw_test_file, times, 0), 0);
    frame.column = 10;
    frame.column_end = 11;
    shows(&verdict, 80, "> 1 | if (    ok(\xC3\xBCx(p)) < 0)\n             |            ^\nNext ", NULL);
    frame.column = 6; /* the tab */
    frame.column_end = 7;
    shows(&verdict, 80, "\n             |     ^\nNext ", "^^");
    frame.column = 7;
    frame.column_end = 8;
    shows(&verdict, 80, "\n             |         ^\nNext ", NULL);
    frame.column = frame.column_end = 0;
    shows(&verdict, 80, "ok(", "^");
    frame.column = 70; /* beyond the end */
    frame.column_end = 71;
    shows(&verdict, 80, "ok(", "^");
}

GW_TEST(there_is_no_mark_where_it_would_be_wrong_or_useless)
{
    shows_mark("  a(x) \n", 2, 6, "> 1 | a(x) \nNext ", "^"); /* the whole line */
    shows_mark("a(x)\n", 0, 0, NULL, "^");                    /* not known */
    shows_mark("a(x)\n", 2, 200, NULL, "^");                  /* beyond the end */
    shows_mark("a(x)\n", 3, 2, NULL, "^");                    /* damaged */
    shows_mark("a(x)\n", UINT32_MAX - 1, UINT32_MAX, NULL, "^");
    shows_mark("    a(x)\n", 1, 3, NULL, "^");       /* in the indentation */
    shows_mark("'\xFC' + f(x)\n", 6, 10, NULL, "^"); /* not UTF-8: the columns count other bytes */
    shows_mark("\xEF\xBB\xBF"
               "a(f(x))\n",
               2, 6, NULL, "^"); /* a byte order mark */
}

GW_TEST(a_long_mark_is_cut)
{
    char source[600];
    memset(source, 'x', sizeof source - 1);
    source[sizeof source - 1] = '\0';
    for (unsigned width = 40; width < 130; width += 7) {
        gw_verdict verdict = placed(source, 1);
        frame.column = 20;
        frame.column_end = 500;
        rendered(&verdict, &(gw_render_style){.width = width});
        const char *line = strstr(gw_text_str(&page), "             |                     ^");
        if (line != NULL)
            assert_int_equal(strcspn(line, "\n"), width);
        assert_true(line != NULL || width < 37);
        frame.column = 200; /* not visible */
        frame.column_end = 210;
        assert_null(strchr(rendered(&verdict, &(gw_render_style){.width = width}), '^'));
    }
}

GW_TEST(only_plain_files_are_read)
{
    gw_verdict verdict = placed("a()\n", 1);
    unlink(gw_test_file);
    assert_int_equal(mkfifo(gw_test_file, 0600), 0);
    shows(&verdict, 80, NULL, "| "); /* gpuwhy must not wait for a writer to the fifo */
    unlink(gw_test_file);
    frame.file = (char *)"/dev/zero";
    shows(&verdict, 80, NULL, "| ");
    frame.file = (char *)"/tmp";
    shows(&verdict, 80, NULL, "| ");
}

GW_TEST(a_relative_name_is_one_of_the_runs_folder)
{
    gw_verdict verdict = placed("a()\n", 1);
    frame.file = gw_test_file + strlen("/tmp/");
    shows(&verdict, 80, NULL, "a()");
    verdict.run.cwd = (char *)"/tmp";
    shows(&verdict, 80, "> 1 | a()", NULL);
}

static int end(void **state)
{
    gw_text_free(&page);
    return gw_test_folder_remove(state);
}

GW_TEST_MAIN(gw_test_folder_make, end)

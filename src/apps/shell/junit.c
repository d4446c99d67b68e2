/* Writes JUnit XML. */
#include "gwi_junit.h"

#include "gw_text.h"

#include <string.h>

/* Append one character of valid UTF-8, of `bytes` bytes. XML 1.0 has no control characters except the tab and line
 * ends, and neither U+FFFE nor U+FFFF, not even escaped: they become '?'. */
static void add_character(gw_text *text, const char *c, size_t bytes)
{
    static const struct {
        char c;
        const char *escaped;
    } escapes[] = {{'&', "&amp;"}, {'<', "&lt;"},   {'>', "&gt;"},  {'"', "&quot;"},
                   {'\t', "&#9;"}, {'\n', "&#10;"}, {'\r', "&#13;"}};
    for (size_t i = 0; i < sizeof escapes / sizeof escapes[0]; i++) {
        if (*c == escapes[i].c) {
            gw_text_add_str(text, escapes[i].escaped);
            return;
        }
    }
    bool is_none = bytes == 3 && (memcmp(c, "\xef\xbf\xbe", 3) == 0 || memcmp(c, "\xef\xbf\xbf", 3) == 0);
    if (((unsigned char)*c < ' ' && bytes == 1) || is_none)
        gw_text_add(text, "?", 1);
    else
        gw_text_add(text, c, bytes);
}

static size_t character_bytes(unsigned char first)
{
    if (first < 0xc0)
        return 1;
    if (first < 0xe0)
        return 2;
    return first < 0xf0 ? 3 : 4;
}

/* Append a string as text of an element, or as the value of an attribute. */
static void add_escaped(gw_text *text, const char *string)
{
    gw_text valid = {0};
    gw_add_utf8(&valid, string);
    const char *all = gw_text_str(&valid);
    for (size_t i = 0; i < valid.bytes; i += character_bytes((unsigned char)all[i]))
        add_character(text, all + i, character_bytes((unsigned char)all[i]));
    gw_text_free(&valid);
}

static void add_attribute(gw_text *text, const char *name, const char *value)
{
    gw_text_addf(text, " %s=\"", name);
    add_escaped(text, value);
    gw_text_add_str(text, "\"");
}

void gwi_junit_add(gwi_junit *suite, const gwi_junit_case *one)
{
    static const char *const child[] = {"system-out", "failure", "skipped"};
    gw_text *text = &suite->cases;
    gw_text_add_str(text, "    <testcase");
    add_attribute(text, "classname", one->classname);
    add_attribute(text, "name", one->name);
    gw_text_addf(text, ">\n      <%s", child[one->state]);
    if (one->state != GWI_JUNIT_PASSED)
        add_attribute(text, "message", one->message);
    if (one->state == GWI_JUNIT_FAILED)
        add_attribute(text, "type", one->type);
    gw_text_add_str(text, ">");
    if (one->state != GWI_JUNIT_SKIPPED)
        add_escaped(text, one->text);
    gw_text_addf(text, "</%s>\n    </testcase>\n", child[one->state]);
    suite->counts[one->state]++;
}

gw_status gwi_junit_write(gwi_junit *suite, const char *name, const gwi_output *output, gw_error *err)
{
    gw_text text = {0};
    const size_t *counts = suite->counts;
    gw_text_add_str(&text, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite");
    add_attribute(&text, "name", name);
    gw_text_addf(&text, " tests=\"%zu\" failures=\"%zu\" errors=\"0\" skipped=\"%zu\">\n",
                 counts[GWI_JUNIT_PASSED] + counts[GWI_JUNIT_FAILED] + counts[GWI_JUNIT_SKIPPED],
                 counts[GWI_JUNIT_FAILED], counts[GWI_JUNIT_SKIPPED]);
    gw_text_addf(&text, "%s  </testsuite>\n</testsuites>\n", gw_text_str(&suite->cases));
    text.failed = text.failed || suite->cases.failed;
    gw_status st =
        text.failed ? gw_fail(err, GW_NOMEM, "write %s", output->path) : gwi_output_write(output, &text, 0, err);
    gw_text_free(&text);
    gw_text_free(&suite->cases);
    return st;
}

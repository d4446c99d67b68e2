/* Write the result of `gpuwhy doctor` as JUnit XML, which systems for continuous integration read: one test case for
 * each check. The texts come from files and the environment, so they may contain anything. */
#include "gwi_doctor_cmd.h"

#include "gw_clean.h"
#include "gw_render.h"
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

/* Append the text of a check, and what to do. */
static void add_output(gw_text *text, const gw_check *check, const char *before)
{
    add_escaped(text, before);
    add_escaped(text, check->text);
    if (check->todo != NULL) {
        gw_text_add_str(text, "\nTo do: ");
        add_escaped(text, check->todo);
    }
}

/* Append the name of a check: its id, with a number if earlier checks of its section have the same id. Texts are no
 * names, because they change with every version of a driver, and a name should stay the same. */
static void add_name(gw_text *text, const gw_checkup *checkup, size_t index)
{
    const gw_check *check = &checkup->item[index];
    gw_text name = {0}, section = {0};
    size_t number = 1;
    for (size_t i = 0; i < index; i++)
        number += strcmp(checkup->item[i].id, check->id) == 0 && strcmp(checkup->item[i].section, check->section) == 0;
    gw_text_addf(&section, "gpuwhy.doctor.%s", check->section);
    gw_text_addf(&name, number > 1 ? "%s %zu" : "%s", check->id, number);
    add_attribute(text, "classname", gw_text_str(&section));
    add_attribute(text, "name", gw_text_str(&name));
    gw_text_free(&section);
    gw_text_free(&name);
}

static void add_case(gw_text *text, const gw_checkup *checkup, size_t index)
{
    const gw_check *check = &checkup->item[index];
    gw_text_add_str(text, "    <testcase");
    add_name(text, checkup, index);
    gw_text_add_str(text, ">\n");
    switch (check->state) {
    case GW_CHECK_FAIL:
        gw_text_add_str(text, "      <failure");
        add_attribute(text, "message", check->text);
        add_attribute(text, "type", check->id);
        gw_text_add_str(text, ">");
        add_output(text, check, "");
        gw_text_add_str(text, "</failure>\n");
        break;
    case GW_CHECK_UNKNOWN: /* it was not checked */
        gw_text_add_str(text, "      <skipped");
        add_attribute(text, "message", check->text);
        gw_text_add_str(text, "/>\n");
        break;
    default:
        gw_text_add_str(text, "      <system-out>");
        add_output(text, check, check->state == GW_CHECK_WARN ? "warning: " : "");
        gw_text_add_str(text, "</system-out>\n");
    }
    gw_text_add_str(text, "    </testcase>\n");
}

gw_status gwi_doctor_write_junit(const gw_checkup *checkup, const gwi_output *output, gw_error *err)
{
    gw_text text = {0};
    gw_text_addf(&text,
                 "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
                 "  <testsuite name=\"gpuwhy doctor\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" skipped=\"%zu\">\n",
                 checkup->count, checkup->counts[GW_CHECK_FAIL], checkup->counts[GW_CHECK_UNKNOWN]);
    for (size_t i = 0; i < checkup->count; i++)
        add_case(&text, checkup, i);
    gw_text_add_str(&text, "  </testsuite>\n</testsuites>\n");
    gw_status st = gwi_output_write(output, &text, 0, err);
    gw_text_free(&text);
    return st;
}

/* Reports the last output of the program as evidence, if nothing else shows why the program ended. */
#include "gwi_output.h"

#include "gw_text.h"

#include <stdio.h>
#include <string.h>

enum { LINES_SAID_MAX = 3, LINE_SAID_BYTES = 160 };

/* Return how many bytes of the text were read from stderr. The text after these bytes was read from the Python
 * interpreter. */
static size_t stderr_bytes(const gw_stderr_facts *facts)
{
    return facts->inside_pid != 0 ? facts->inside_at : facts->text_bytes;
}

bool gwi_said_nothing(const gwi_case *c)
{
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    return gw_model_fact(c->model, GW_FACT_STDERR_WITH_STDOUT) != NULL && facts->bytes == 0 && facts->inside_pid == 0;
}

/* False for empty lines and for gpuwhy's own lines. The text contains gpuwhy's lines if the program and gpuwhy write to
 * the same file. */
static bool is_worth_saying(const char *line, size_t bytes)
{
    static const char ours[] = "gpuwhy: ";
    return bytes > 0 && (bytes < sizeof ours - 1 || !gw_begins(line, ours));
}

/* Return the start of the line that ends at `end`. A carriage return also begins a new line, because progress bars
 * overwrite their line. */
static size_t line_before(const char *text, size_t end)
{
    while (end > 0 && text[end - 1] != '\n' && text[end - 1] != '\r')
        end--;
    return end;
}

void gwi_say_last_words(const gwi_case *c, gwi_finding *finding)
{
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    const gw_pair *not_recorded = gw_model_fact(c->model, GW_FACT_STDERR_NOT_RECORDED);
    bool both = gw_model_fact(c->model, GW_FACT_STDERR_WITH_STDOUT) != NULL;
    size_t from[LINES_SAID_MAX], bytes[LINES_SAID_MAX], count = 0;
    for (size_t end = stderr_bytes(facts); end > 0 && count < LINES_SAID_MAX;) {
        size_t line = line_before(facts->text, end), start = line;
        while (start < end && (facts->text[start] == ' ' || facts->text[start] == '\t'))
            start++;
        if (is_worth_saying(facts->text + start, end - start)) {
            from[count] = start;
            bytes[count++] = end - start < LINE_SAID_BYTES ? end - start : LINE_SAID_BYTES;
        }
        end = line > 0 ? line - 1 : 0;
    }
    if (count == 0 && not_recorded != NULL)
        gwi_evidence(finding, GWI_NO_TIME, "stderr", "the program's output was not recorded: %s", not_recorded->value);
    for (size_t i = count; i-- > 0;)
        gwi_evidence(finding, GWI_NO_TIME, both ? "output" : "stderr", "%s%.*s", i + 1 == count ? "last output: " : "",
                     (int)bytes[i], facts->text + from[i]);
}

static bool is_inside(const gw_stderr_facts *facts, const char *text)
{
    static const char raised[] = "raised at ";
    size_t bytes = facts->text_bytes - facts->inside_at;
    if (gw_begins(text, raised))
        text += sizeof raised - 1;
    size_t wanted = strlen(text) < 80 ? strlen(text) : 80;
    for (size_t at = 0; at + wanted <= bytes && wanted > 0; at++) {
        if (memcmp(facts->text + facts->inside_at + at, text, wanted) == 0)
            return true;
    }
    return false;
}

void gwi_name_inside(const gwi_case *c, gwi_finding *finding)
{
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    for (size_t i = 0; facts->inside_pid != 0 && i < finding->evidence_count; i++) {
        gw_evidence *evidence = &finding->evidence[i];
        if (strcmp(evidence->source, "stderr") == 0 && is_inside(facts, evidence->text))
            evidence->source = "python";
    }
}

bool gwi_exception_is_uncertain(const gwi_case *c)
{
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    return facts->inside_pid != 0 && !facts->inside_from_top;
}

/* Quotes the program's output. This is the only file that shows its text. */
#include "gwi_output.h"

#include "gw_logs.h"
#include "gw_text.h"

#include <stdio.h>
#include <string.h>

enum { LINES_SAID_MAX = 3, LINE_SAID_BYTES = 160 };

bool gwi_said_nothing(const gwi_case *c)
{
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    return gw_model_fact(c->model, GW_FACT_STDERR_WITH_STDOUT) != NULL && facts->bytes == 0 && facts->inside_pid == 0;
}

void gwi_say_last_words(const gwi_case *c, gwi_finding *finding)
{
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    const gw_pair *not_recorded = gw_model_fact(c->model, GW_FACT_STDERR_NOT_RECORDED);
    bool both = gw_model_fact(c->model, GW_FACT_STDERR_WITH_STDOUT) != NULL;
    char quote[GW_QUOTE_MAX];
    const char *line[LINES_SAID_MAX];
    size_t bytes[LINES_SAID_MAX], count = 0, end = SIZE_MAX;
    while (end > 0 && count < LINES_SAID_MAX) {
        line[count] = gw_stderr_line_before(facts, &end, &bytes[count]);
        count += bytes[count] > 0;
    }
    if (count == 0 && not_recorded != NULL)
        gwi_evidence(finding, GWI_NO_TIME, "stderr", "the program's output was not recorded: %s", not_recorded->value);
    for (size_t i = count; i-- > 0;)
        gwi_evidence(finding, GWI_NO_TIME, both ? "output" : "stderr", "%s%s", i + 1 == count ? "last output: " : "",
                     gw_quote(quote, line[i], bytes[i], LINE_SAID_BYTES));
}

const char *gwi_source_of(const gwi_case *c, const gw_log_find *find)
{
    return gw_stderr_is_inside(&c->model->stderr_facts, find) ? "python" : "stderr";
}

static const char *quote_of(char out[GW_QUOTE_MAX], const gw_stderr_line *line, size_t bytes_max)
{
    return gw_quote(out, line->find == NULL ? "" : line->find->text, SIZE_MAX, bytes_max);
}

void gwi_say_line(const gwi_case *c, gwi_finding *finding, const gw_stderr_line *line, const char *intro)
{
    char quote[GW_QUOTE_MAX];
    if (line->find != NULL)
        gwi_evidence(finding, line->t_ns, gwi_source_of(c, line->find), "%s%s", intro,
                     quote_of(quote, line, GW_QUOTE_MAX));
}

void gwi_say_line_count(const gwi_case *c, gwi_finding *finding, const gw_stderr_line *line)
{
    char quote[GW_QUOTE_MAX];
    if (line->find != NULL)
        gwi_measure(finding, line->t_ns, gwi_source_of(c, line->find), (double)line->count, "count", "%s",
                    quote_of(quote, line, GW_QUOTE_MAX));
}

void gwi_line_follows(gwi_finding *finding, const gw_stderr_line *line)
{
    char quote[GW_QUOTE_MAX];
    if (line->find != NULL)
        gwi_consequence(finding, "%.3f s: %s", (double)line->t_ns / 1e9, quote_of(quote, line, GW_QUOTE_MAX));
}

void gwi_quote_line(gw_text *text, const gw_stderr_line *line)
{
    char quote[GW_QUOTE_MAX];
    gw_text_add_str(text, quote_of(quote, line, 200));
}

bool gwi_exception_is_uncertain(const gwi_case *c)
{
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    return facts->inside_pid != 0 && !facts->inside_from_top;
}

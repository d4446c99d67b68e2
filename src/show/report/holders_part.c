/* Leaks that the verdict lists, and the places that held the most memory at the failure or at the peak. */
#include "gwi_sections.h"

#include "gwi_escape.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 30, FRAMES_MAX = 24, TEXT_CHARS_MAX = 90, CALLER_CHARS_MAX = 50 };

static void stack_html(gwi_part *at, const gw_stack *stack)
{
    char shown[GW_PLACE_TEXT_MAX];
    gw_text_add_str(at->page, "<ol class=\"stack\">");
    for (size_t i = 0; i < stack->count && i < FRAMES_MAX; i++) {
        gw_text_add_str(at->page, i == stack->user ? "<li class=\"user\">" : "<li>");
        gwi_html_cut(at->page, gw_frame_text(at->model->sites, &stack->frame[i], shown), TEXT_CHARS_MAX);
        gw_text_add_str(at->page, "</li>");
    }
    gw_text_add_str(at->page, "</ol>");
}

void gwi_site_html(gwi_part *at, uint32_t site)
{
    gw_text text = {0};
    const gw_stack *stack = gw_sites_stack(at->model->sites, site);
    bool has_more = stack != NULL && stack->count > 1;
    (void)gwi_site_text(at->model, site, &text);
    gw_text_add_str(at->page, has_more ? "<details><summary><code>" : "<code>");
    gwi_html_cut(at->page, gw_text_str(&text), TEXT_CHARS_MAX);
    gw_text_add_str(at->page, "</code>");
    if (stack != NULL && stack->user < stack->count && gw_stack_caller(stack) != NULL) {
        char caller[GW_PLACE_TEXT_MAX];
        gw_text_add_str(at->page, " <span class=\"dim\">called at ");
        gwi_html_cut(at->page, gw_frame_text(at->model->sites, gw_stack_caller(stack), caller), CALLER_CHARS_MAX);
        gw_text_add_str(at->page, "</span>");
    }
    gw_text_add_str(at->page, has_more ? "</summary>" : "");
    if (has_more)
        stack_html(at, stack);
    gw_text_add_str(at->page, has_more ? "</details>" : "");
    gw_text_free(&text);
}

/* ---- leaks ---- */

static void leak_row(gwi_part *at, const gw_verdict_leak *leak)
{
    gw_text_add_str(at->page, "<tr><td class=\"n\">");
    if (leak->bytes > 0)
        gwi_bytes(at->page, leak->bytes);
    gw_text_addf(at->page, "</td><td class=\"n\">%llu of %llu</td><td>", (unsigned long long)leak->left,
                 (unsigned long long)leak->made);
    gwi_html(at->page, leak->kind);
    gw_text_add_str(at->page, "</td><td>");
    gwi_html(at->page, leak->call);
    gw_text_add_str(at->page, "</td><td><code>");
    if (leak->where != NULL && leak->where->user < leak->where->frame_count)
        gwi_html_cut(at->page, leak->where->frame[leak->where->user].text, TEXT_CHARS_MAX);
    else
        gw_text_add_str(at->page, "unknown place");
    gw_text_add_str(at->page, "</code></td></tr>\n");
}

/* Append a paragraph that ends with the reason why frees may be missing in the recording. */
static void add_why(gwi_part *at, const char *begin)
{
    gw_text_addf(at->page, "<p>%s", begin);
    gwi_html(at->page, at->run->verdict->incomplete);
    gw_text_add_str(at->page, ".</p>\n");
}

static void no_leaks(gwi_part *at)
{
    const gw_verdict *verdict = at->run->verdict;
    if (verdict->cause != NULL && strcmp(verdict->cause, "gpu-oom-leak") == 0)
        gw_text_add_str(at->page, "<p>The verdict says what was kept; the tables below say by "
                                  "which places.</p>\n");
    else if (verdict->status != GW_VERDICT_CLEAN)
        gw_text_add_str(at->page, "<p>Unknown: only a run that ended well shows what was never freed.</p>\n");
    else if (at->run->path == NULL)
        gw_text_add_str(at->page, "<p>Unknown: a memory snapshot does not show what is freed later.</p>\n");
    else if (verdict->incomplete != NULL)
        add_why(at, "Unknown: no leak was found, but ");
    else
        gw_text_add_str(at->page, "<p>No leak was found.</p>\n");
}

static void leaks(gwi_part *at)
{
    const gw_verdict *verdict = at->run->verdict;
    gw_text_add_str(at->page, "<h4>Leaks</h4>\n");
    if (verdict->leak_count == 0) {
        no_leaks(at);
        return;
    }
    if (verdict->incomplete != NULL)
        add_why(at, "Some of these may have been freed: ");
    gw_text_add_str(
        at->page, "<div class=\"wide\"><table id=\"leaks-table\"><tr><th>Never freed</th><th>Objects</th><th>Kind</th>"
                  "<th>Call</th><th>Place</th></tr>\n");
    for (size_t i = 0; i < verdict->leak_count && i < ROWS_MAX; i++)
        leak_row(at, &verdict->leaks[i]);
    gw_text_add_str(at->page, "</table></div>\n");
    if (verdict->leak_count > ROWS_MAX)
        gw_text_addf(at->page, "<p>%zu more.</p>\n", verdict->leak_count - ROWS_MAX);
}

/* ---- the largest holders ---- */

typedef struct holder {
    char *text; /* owned; the place and its caller; NULL: not merged yet */
    uint32_t site;
    uint8_t cls;
    uint64_t bytes, count, t_first_ns, t_last_ns;
    bool has_time;
} holder;

static int compare_keys(const void *a, const void *b)
{
    const holder *left = a, *right = b;
    if (left->site != right->site)
        return left->site < right->site ? -1 : 1;
    return (left->cls > right->cls) - (left->cls < right->cls);
}

static int compare_bytes(const void *a, const void *b)
{
    const holder *left = a, *right = b;
    int order = (left->bytes < right->bytes) - (left->bytes > right->bytes);
    return order != 0 ? order : compare_keys(a, b);
}

static void join(holder *into, const holder *from)
{
    into->bytes = gwi_sum(into->bytes, from->bytes);
    into->count += from->count;
    if (from->has_time && (!into->has_time || from->t_first_ns < into->t_first_ns))
        into->t_first_ns = from->t_first_ns;
    if (from->has_time && (!into->has_time || from->t_last_ns > into->t_last_ns))
        into->t_last_ns = from->t_last_ns;
    into->has_time = into->has_time || from->has_time;
}

/* Sum the blocks by place and class, the largest sum first. The caller frees the list. */
static holder *sum_up(const gw_live *live, size_t count, size_t *ret_count)
{
    holder *list = malloc((count + 1) * sizeof *list);
    size_t kept = 0;
    for (size_t i = 0; list != NULL && i < count; i++)
        list[i] =
            (holder){NULL, live[i].site, live[i].cls, live[i].bytes, 1, live[i].t_ns, live[i].t_ns, live[i].has_time};
    if (list != NULL)
        qsort(list, count, sizeof *list, compare_keys);
    for (size_t i = 0; list != NULL && i < count; i++) {
        if (kept > 0 && compare_keys(&list[kept - 1], &list[i]) == 0)
            join(&list[kept - 1], &list[i]);
        else
            list[kept++] = list[i];
    }
    if (list != NULL)
        qsort(list, kept, sizeof *list, compare_bytes);
    *ret_count = kept;
    return list;
}

static char *text_of(gwi_part *at, uint32_t site)
{
    char caller[GW_PLACE_TEXT_MAX];
    gw_text text = {0};
    const gw_stack *stack = gw_sites_stack(at->model->sites, site);
    (void)gwi_site_text(at->model, site, &text);
    if (stack != NULL && stack->user < stack->count && gw_stack_caller(stack) != NULL)
        gw_text_addf(&text, "\n%s", gw_frame_text(at->model->sites, gw_stack_caller(stack), caller));
    char *copy = text.failed ? NULL : strdup(gw_text_str(&text));
    gw_text_free(&text);
    return copy;
}

/* Merge the places whose lines are the same, among the largest ones: their stacks differ only further out. Returns the
 * new count. */
static size_t merge_lines(gwi_part *at, holder *list, size_t count)
{
    enum { MERGED_MAX = 256 };
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        size_t k = kept;
        char *text = i < MERGED_MAX ? text_of(at, list[i].site) : NULL;
        at->failed = at->failed || (i < MERGED_MAX && text == NULL);
        for (k = 0; text != NULL && k < kept; k++)
            if (list[k].cls == list[i].cls && list[k].text != NULL && strcmp(list[k].text, text) == 0)
                break;
        if (text != NULL && k < kept) {
            join(&list[k], &list[i]);
            free(text);
            continue;
        }
        list[kept] = list[i];
        list[kept++].text = text;
    }
    qsort(list, kept, sizeof *list, compare_bytes);
    return kept;
}

static void holder_row(gwi_part *at, const holder *one)
{
    gw_text_add_str(at->page, "<tr><td class=\"n\">");
    gwi_bytes(at->page, one->bytes);
    gw_text_addf(at->page, "</td><td class=\"n\">%llu</td><td>%s</td><td class=\"n\">", (unsigned long long)one->count,
                 gw_class_text((gw_class)one->cls));
    if (one->has_time) {
        gwi_time(at->page, one->t_first_ns);
        if (one->t_last_ns > one->t_first_ns) {
            gw_text_add_str(at->page, " to ");
            gwi_time(at->page, one->t_last_ns);
        }
    } else {
        gw_text_add_str(at->page, "unknown");
    }
    gw_text_add_str(at->page, "</td><td>");
    gwi_site_html(at, one->site);
    gw_text_add_str(at->page, "</td></tr>\n");
}

static void holders_table(gwi_part *at, const char *title, const gw_live *live, size_t count)
{
    size_t kept;
    holder *list = sum_up(live, count, &kept);
    if (list == NULL) {
        at->failed = true;
        return;
    }
    kept = merge_lines(at, list, kept);
    gw_text_addf(at->page,
                 "<h4>%s</h4>\n<div class=\"wide\"><table class=\"holders\"><tr><th>Memory</th><th>Blocks</th>"
                 "<th>Kind</th><th>Requested at</th><th>Place</th></tr>\n",
                 title);
    for (size_t i = 0; i < kept && i < ROWS_MAX; i++)
        holder_row(at, &list[i]);
    gw_text_add_str(at->page, "</table></div>\n");
    if (kept > ROWS_MAX)
        gw_text_addf(at->page, "<p>%zu smaller places are not listed.</p>\n", kept - ROWS_MAX);
    for (size_t i = 0; i < kept; i++)
        free(list[i].text);
    free(list);
}

/* What the framework's allocator held, at its own peak. */
static void allocator_peak(gwi_part *at, const gw_allocator_report *report)
{
    if (report->held_count == 0)
        return;
    gw_text_add_str(at->page,
                    "<h4>At the peak of the framework's allocator</h4>\n<div class=\"wide\"><table><tr><th>Memory</th>"
                    "<th>Blocks</th><th>Place</th></tr>\n");
    for (size_t i = 0; i < report->held_count && i < GW_HELD_MAX && i < ROWS_MAX; i++) {
        gw_text_add_str(at->page, "<tr><td class=\"n\">");
        gwi_bytes(at->page, report->held[i].bytes);
        gw_text_addf(at->page, "</td><td class=\"n\">%llu</td><td>", (unsigned long long)report->held[i].count);
        gwi_site_html(at, report->held[i].site);
        gw_text_add_str(at->page, "</td></tr>\n");
    }
    gw_text_add_str(at->page, "</table></div>\n");
}

static void arrays(gwi_part *at)
{
    const gw_arrays *arrays = &at->model->arrays;
    if (!arrays->seen || arrays->kind_count == 0)
        return;
    gw_text_add_str(at->page,
                    "<h4>Live arrays at the end, by type and shape</h4>\n<table><tr><th>Memory</th><th>Arrays</th>"
                    "<th>Type</th></tr>\n");
    for (size_t i = 0; i < arrays->kind_count && i < GW_ARRAY_KINDS_MAX; i++) {
        gw_text_add_str(at->page, "<tr><td class=\"n\">");
        gwi_bytes(at->page, gwi_product(arrays->kind[i].bytes, arrays->kind[i].count));
        gw_text_addf(at->page, "</td><td class=\"n\">%llu</td><td><code>", (unsigned long long)arrays->kind[i].count);
        gwi_html(at->page, arrays->kind[i].name);
        gw_text_add_str(at->page, "</code></td></tr>\n");
    }
    gw_text_add_str(at->page, "</table>\n");
}

/* Returns false if the blocks of the moment are not known. */
static bool at_moment(gwi_part *at, const gwi_moment *moment)
{
    const gw_snapshot *snapshot =
        moment->failure == NULL ? NULL : gw_model_snapshot(at->model, moment->failure->snapshot);
    gw_live *live = moment->report == NULL ? NULL : gwi_report_live(at, moment->report);
    if (live != NULL)
        holders_table(at,
                      moment->is_refusal ? "Largest holders at the failure, in the framework's allocator"
                                         : "Largest holders in the framework's allocator",
                      live, moment->report->live_count);
    bool any = live != NULL || (snapshot != NULL && snapshot->live != NULL);
    free(live);
    if (snapshot != NULL && snapshot->live != NULL)
        holders_table(at, "Largest holders at the failure, by request to the driver", snapshot->live,
                      snapshot->live_count);
    if (moment->report != NULL)
        allocator_peak(at, moment->report);
    return any;
}

void gwi_holders_part(gwi_part *at)
{
    gwi_moment moment;
    bool has_moment = gwi_moment_find(at, &moment);
    gwi_section_begin(at, "holders", "Leaks and largest holders");
    leaks(at);
    bool is_known = has_moment && at_moment(at, &moment);
    for (int device = 0; !is_known && device < GW_MODEL_DEVICE_PLACES; device++) {
        const gwi_device_course *course = &at->course->device[device];
        char name[GW_DEVICE_TEXT_MAX];
        gw_text title = {0};
        gw_text_addf(&title, "Largest holders at the peak on %s", gw_device_text(name, device));
        if (course->peak != NULL)
            holders_table(at, gw_text_str(&title), course->peak, course->peak_count);
        gw_text_free(&title);
    }
    arrays(at);
    gwi_section_end(at);
}

/* Resolves call sites to places in the program, for evidence lines and for the verdict's place. */
#include "gwi_output.h"

#include "gw_sites.h"
#include "gw_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- places as text ---- */

static const gw_stack *stack_of(const gwi_case *c, uint32_t site)
{
    const gw_stack *stack = gw_sites_stack(c->model->sites, site);
    return stack == NULL || stack->user == stack->count ? NULL : stack;
}

static const char *borrowed_text(const gw_stack *stack)
{
    bool borrowed = (stack->flags & GW_SITE_PYTHON_BORROWED) != 0 && stack->frame[stack->user].python;
    return borrowed ? " (the last line of the main thread: this thread runs no Python)" : "";
}

char *gwi_place(const gwi_case *c, uint32_t site, char out[GWI_PLACE_TEXT_MAX])
{
    char inner[GW_PLACE_TEXT_MAX], outer[GW_PLACE_TEXT_MAX];
    const gw_stack *stack = stack_of(c, site);
    out[0] = '\0';
    if (stack == NULL)
        return out;
    const gw_frame *caller = gw_stack_caller(stack);
    gw_frame_text(c->model->sites, &stack->frame[stack->user], inner);
    snprintf(out, GWI_PLACE_TEXT_MAX, "%.250s%s%.250s%s", inner, caller == NULL ? "" : ", called at ",
             caller == NULL ? "" : gw_frame_text(c->model->sites, caller, outer), borrowed_text(stack));
    return out;
}

char *gwi_at(const gwi_case *c, uint32_t site, char out[GWI_PLACE_TEXT_MAX])
{
    char text[GW_PLACE_TEXT_MAX];
    const gw_stack *stack = stack_of(c, site);
    out[0] = '\0';
    if (stack != NULL)
        snprintf(out, GWI_PLACE_TEXT_MAX, " at %.250s%s",
                 gw_frame_text(c->model->sites, &stack->frame[stack->user], text), borrowed_text(stack));
    return out;
}

/* True if the frame belongs to Python's own code that forks. A forked child inherits its parent's stack, so the frames
 * around this one show the place of the fork. In a C program, this does not work: the frame of the function that called
 * fork() shows the line of a later call. */
static bool is_forking(const gw_frame *frame)
{
    static const struct {
        const char *file, *function;
    } rows[] = {{"multiprocessing/popen_fork.py", "_launch"}, {"concurrent/futures/process.py", "_spawn_process"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t wanted = strlen(rows[i].file), bytes = frame->file == NULL ? 0 : strlen(frame->file);
        if (frame->python && bytes >= wanted && strcmp(frame->file + bytes - wanted, rows[i].file) == 0 &&
            frame->function != NULL && strstr(frame->function, rows[i].function) != NULL)
            return true;
    }
    return false;
}

char *gwi_fork_place(const gwi_case *c, uint32_t site, char out[GWI_PLACE_TEXT_MAX])
{
    const gw_stack *stack = gw_sites_stack(c->model->sites, site);
    bool forked = false;
    out[0] = '\0';
    for (size_t i = 0; stack != NULL && i < stack->count; i++) {
        const gw_frame *frame = &stack->frame[i];
        if (forked && frame->whose <= GW_WHOSE_USER) {
            char text[GW_PLACE_TEXT_MAX];
            snprintf(out, GWI_PLACE_TEXT_MAX, "%s", gw_frame_text(c->model->sites, frame, text));
            break;
        }
        forked = forked || is_forking(frame);
    }
    return out;
}

void gwi_where(gwi_finding *finding, uint32_t site, const char *what)
{
    finding->where = (gwi_wanted_place){.by = GWI_WHERE_CALL, .site = site, .what = what};
}

void gwi_where_in_second(gwi_finding *finding, const char *what)
{
    finding->where = (gwi_wanted_place){.by = GWI_WHERE_SECOND_RUN, .what = what};
}

void gwi_where_raised(gwi_finding *finding)
{
    finding->where = (gwi_wanted_place){.by = GWI_WHERE_TRACEBACK};
}

/* ---- the place that holds most ---- */

typedef struct holding {
    uint32_t site;
    uint64_t bytes, count;
} holding;

static int by_site(const void *left, const void *right)
{
    const holding *a = left, *b = right;
    return a->site < b->site ? -1 : a->site > b->site;
}

static int by_bytes(const void *left, const void *right)
{
    const holding *a = left, *b = right;
    return a->bytes > b->bytes ? -1 : a->bytes < b->bytes;
}

/* Merge neighbouring entries with the same site. Returns the new number of entries. */
static size_t add_up(holding *list, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && list[kept - 1].site == list[i].site) {
            list[kept - 1].bytes += list[i].bytes;
            list[kept - 1].count += list[i].count;
        } else {
            list[kept++] = list[i];
        }
    }
    return kept;
}

/* Merge entries whose sites have equal text into the first of them. The merged entries keep 0 bytes. */
static void join_alike(const gwi_case *c, holding *list, size_t count)
{
    char one[GWI_PLACE_TEXT_MAX], other[GWI_PLACE_TEXT_MAX];
    for (size_t i = 0; i < count; i++) {
        if (list[i].bytes == 0)
            continue;
        gwi_place(c, list[i].site, one);
        for (size_t k = i + 1; k < count; k++) {
            if (list[k].bytes == 0 || strcmp(one, gwi_place(c, list[k].site, other)) != 0)
                continue;
            list[i].bytes += list[k].bytes;
            list[i].count += list[k].count;
            list[k].bytes = 0;
        }
    }
}

typedef struct place_holder {
    uint32_t site;
    uint64_t bytes, count; /* sum and number of the blocks allocated at `site` */
    uint64_t all_bytes;    /* sum of all blocks, including those of other sites */
} place_holder;

/* Find the place that allocated the largest share of these live blocks, in bytes. Returns false if no block has a known
 * site, or if there is no memory. */
static bool find_holder(const gwi_case *c, const gw_live *live, size_t count, place_holder *ret_holder)
{
    enum { COMPARED_MAX = 64 };
    holding *list = count == 0 ? NULL : malloc(count * sizeof *list);
    size_t sites = 0;
    *ret_holder = (place_holder){0};
    if (list == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        ret_holder->all_bytes += live[i].bytes;
        if (live[i].site != 0)
            list[sites++] = (holding){live[i].site, live[i].bytes, 1};
    }
    qsort(list, sites, sizeof *list, by_site);
    sites = add_up(list, sites);
    qsort(list, sites, sizeof *list, by_bytes);
    join_alike(c, list, sites < COMPARED_MAX ? sites : COMPARED_MAX);
    for (size_t i = 0; i < sites && i < COMPARED_MAX; i++) {
        if (list[i].bytes <= ret_holder->bytes || stack_of(c, list[i].site) == NULL)
            continue;
        ret_holder->site = list[i].site;
        ret_holder->bytes = list[i].bytes;
        ret_holder->count = list[i].count;
    }
    free(list);
    return ret_holder->site != 0;
}

bool gwi_say_holder(const gwi_case *c, gwi_finding *finding, uint64_t t_ns, const char *source, const gw_live *live,
                    size_t count, const char *of_what)
{
    place_holder holder;
    char bytes[GW_BYTES_TEXT_MAX], place[GWI_PLACE_TEXT_MAX];
    if (!find_holder(c, live, count, &holder))
        return false;
    gwi_measure(finding, t_ns, source, (double)holder.bytes, "bytes",
                "%.0f %% of %s, %s in %" PRIu64 " block%s, was allocated at %s",
                (double)holder.bytes * 100 / (double)holder.all_bytes, of_what, gw_bytes_text(bytes, holder.bytes),
                holder.count, GWI_PLURAL(holder.count), gwi_place(c, holder.site, place));
    gwi_where(finding, holder.site, "the largest part of this memory was allocated here");
    return true;
}

uint32_t gwi_request_site(const gwi_case *c)
{
    if (c->memory.has_pool)
        return 0; /* the driver refused a region of the pool, perhaps earlier: the exception has the place */
    if (c->oom_last != NULL && c->oom_last->site != 0)
        return c->oom_last->site;
    if (c->memory.report != NULL && c->memory.report->wanted_site != 0)
        return c->memory.report->wanted_site;
    return c->oom == NULL ? 0 : c->oom->site;
}

/* ---- the verdict's place ---- */

static const char *const whose_words[] = {[GW_WHOSE_OWN] = "own",         [GW_WHOSE_USER] = "user",
                                          [GW_WHOSE_PACKAGE] = "package", [GW_WHOSE_FRAMEWORK] = "framework",
                                          [GW_WHOSE_RUNTIME] = "runtime", [GW_WHOSE_NOBODY] = NULL};

static bool copy_frame(gw_sites *sites, const gw_frame *from, gw_where_frame *to)
{
    char text[GW_PLACE_TEXT_MAX];
    to->address = from->address;
    to->line = from->line;
    to->column = from->column;
    to->column_end = from->column_end;
    to->python = from->python;
    to->inlined = from->inlined;
    to->whose = whose_words[from->whose];
    return gw_str_copy(from->function, &to->function) && gw_str_copy(from->file, &to->file) &&
           gw_str_copy(from->module, &to->module) && gw_str_copy(gw_frame_text(sites, from, text), &to->text);
}

static bool add_notes(const gw_stack *stack, gw_string_list *notes)
{
    bool good = true;
#define GW_X(name, value, text)                                                                                        \
    if (good && (stack->flags & GW_SITE_##name) != 0)                                                                  \
        good = gwi_list_add(notes, text);
    GW_SITE_FLAGS(GW_X)
#undef GW_X
    if (good && stack->unplaced)
        good = gwi_list_add(notes, "Python and native frames could not be merged");
    return good;
}

gw_where *gwi_where_copy(const gw_where *from)
{
    gw_where *where = calloc(1, sizeof *where);
    bool good = where != NULL;
    if (!good)
        return NULL;
    *where = (gw_where){.what = from->what, .user = from->user};
    memcpy(where->sha256, from->sha256, sizeof where->sha256);
    where->frame = calloc(from->frame_count + 1, sizeof *where->frame);
    good = where->frame != NULL;
    for (size_t i = 0; i < from->frame_count && good; i++) {
        gw_where_frame *to = &where->frame[where->frame_count++];
        *to = from->frame[i];
        to->function = to->file = to->module = to->text = NULL;
        good = gw_str_copy(from->frame[i].function, &to->function) && gw_str_copy(from->frame[i].file, &to->file) &&
               gw_str_copy(from->frame[i].module, &to->module) && gw_str_copy(from->frame[i].text, &to->text);
    }
    for (size_t i = 0; i < from->notes.count && good; i++)
        good = gwi_list_add(&where->notes, from->notes.item[i]);
    if (good)
        return where;
    gwi_where_free(where);
    return NULL;
}

static gw_where *where_of(gw_sites *sites, const gw_stack *stack, const char *what)
{
    gw_where *where = calloc(1, sizeof *where);
    if (where == NULL)
        return NULL;
    where->what = what;
    where->user = stack->user;
    where->frame = calloc(stack->count + 1, sizeof *where->frame);
    bool good = where->frame != NULL && add_notes(stack, &where->notes);
    for (size_t i = 0; i < stack->count && good; i++)
        good = copy_frame(sites, &stack->frame[i], &where->frame[where->frame_count++]);
    if (good)
        return where;
    gwi_where_free(where);
    return NULL;
}

bool gwi_where_at(const gwi_case *c, uint32_t site, const char *what, gw_where **ret_where)
{
    const gw_stack *stack = stack_of(c, site);
    *ret_where = stack == NULL ? NULL : where_of(c->model->sites, stack, what);
    return stack == NULL || *ret_where != NULL;
}

static const char *whose_word(const char *text)
{
    for (size_t i = 0; i < sizeof whose_words / sizeof whose_words[0]; i++)
        if (text != NULL && whose_words[i] != NULL && strcmp(text, whose_words[i]) == 0)
            return whose_words[i];
    return NULL;
}

/* Copy the stack that the second run (--blame) found. Its frames are stored as names, so the recording of the second
 * run is not needed. */
static gw_where *where_in_second(const gw_blame *blame, const char *what)
{
    gw_where *where = calloc(1, sizeof *where);
    if (where == NULL)
        return NULL;
    where->what = what;
    where->user = blame->stack_user;
    where->frame = calloc(blame->stack_count + 1, sizeof *where->frame);
    bool good = where->frame != NULL;
    for (size_t i = 0; i < GW_BLAME_NOTES_MAX && blame->note[i] != NULL && good; i++)
        good = gwi_list_add(&where->notes, blame->note[i]);
    for (size_t i = 0; i < blame->stack_count && good; i++) {
        const gw_blame_frame *from = &blame->stack[i];
        gw_where_frame *to = &where->frame[where->frame_count++];
        *to = (gw_where_frame){.address = from->address,
                               .line = from->line,
                               .whose = whose_word(from->whose),
                               .python = from->python,
                               .inlined = from->inlined};
        good = gw_str_copy(from->function, &to->function) && gw_str_copy(from->file, &to->file) &&
               gw_str_copy(from->module, &to->module) && gw_str_copy(from->text == NULL ? "?" : from->text, &to->text);
    }
    if (good)
        return where;
    gwi_where_free(where);
    return NULL;
}

/* Return the place of an exception on stderr (NULL: of the one that ended the run). *ret_where is NULL if its traceback
 * has no line of the program itself. Returns false if there is no memory. */
static bool where_raised(const gwi_case *c, const char *cause, const struct gw_log_find *exception,
                         gw_where **ret_where)
{
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    const struct gw_log_find *of = exception != NULL ? exception : facts->exception.find;
    return gwi_where_in_text(facts->log, of, cause, true, ret_where);
}

/* True if the exception that ended the program is about the GPU or its memory. */
static bool was_raised_for_gpu(const gwi_case *c)
{
    return c->exception == GW_EXCEPTION_OOM || c->exception == GW_EXCEPTION_GPU;
}

static const char *state_text(unsigned state)
{
    static const char *const texts[] = {
#define GW_X(name, value, text) [value] = text,
        GW_SYMBOL_STATES(GW_X)
#undef GW_X
    };
    return state < sizeof texts / sizeof texts[0] ? texts[state] : "has no symbol there";
}

static bool reason_is(gw_verdict *verdict, const char *reason)
{
    verdict->where_reason = strdup(reason);
    return verdict->where_reason != NULL;
}

/* True if no frame of the stack belongs to the program or to a package that it uses. The backward pass, for example,
 * runs in a thread of its own. */
static bool is_none_of_program(const gw_stack *stack)
{
    return stack == NULL || stack->frame[stack->user].whose >= GW_WHOSE_FRAMEWORK;
}

bool gwi_take_where(const gwi_case *c, const gwi_finding *finding, gw_verdict *verdict)
{
    gw_sites *sites = c->model->sites;
    const gwi_wanted_place *wanted = &finding->where;
    const gw_stack *stack = gw_sites_stack(sites, wanted->site);
    if (wanted->by == GWI_WHERE_NONE)
        return reason_is(verdict,
                         verdict->status == GW_VERDICT_FAULT ? "no single call is at fault" : "nothing is at fault");
    if (wanted->by == GWI_WHERE_SECOND_RUN) {
        verdict->where = where_in_second(&c->model->faults.blame, wanted->what);
        return verdict->where != NULL && gw_str_copy(c->model->faults.blame.where_reason, &verdict->where_reason);
    }
    if (wanted->by == GWI_WHERE_TRACEBACK) {
        return where_raised(c, verdict->cause, wanted->exception, &verdict->where) &&
               (verdict->where != NULL || reason_is(verdict, "the traceback names no line of the program itself"));
    }
    if (is_none_of_program(stack_of(c, wanted->site)) && was_raised_for_gpu(c)) {
        bool good = where_raised(c, verdict->cause, NULL, &verdict->where);
        if (verdict->where != NULL || !good)
            return good;
    }
    if (gw_sites_count(sites) == 0)
        return reason_is(verdict, "the recording contains no call sites");
    if (stack == NULL)
        return reason_is(verdict, "the site of that call is unknown");
    if (stack->user == stack->count)
        return reason_is(verdict, (stack->flags & GW_SITE_PYTHON_UNKNOWN) != 0
                                      ? "the Python frames of that call could not be read"
                                      : "none of the frames of that call belongs to the program itself");
    verdict->where = where_of(sites, stack, wanted->what);
    const gw_frame *user = &stack->frame[stack->user];
    if (verdict->where == NULL || user->line != 0 || user->python)
        return verdict->where != NULL;
    char reason[512];
    snprintf(reason, sizeof reason, "no line: %.300s %s", user->module == NULL ? "the file" : user->module,
             state_text(user->state));
    return reason_is(verdict, reason);
}

/* Finds the kernels that may be at fault when a fault is reported late.
 *
 * The recording does not show which file contains a kernel. A heuristic guesses whether the kernel belongs to the user
 * or to a library. Code in the same file usually launches it: the runtime's stub for the kernel, a library's own
 * dispatcher, Triton's small launcher, or a Python binding of the driver. So the file of the innermost frame outside
 * the runtime and the driver decides. If no launch has a call site, the owner is unknown.
 *
 * The heuristic may mistake a library's kernel for the user's:
 * - The library is not on the list below: another vendor, another file name, linked statically, or templates (CUTLASS,
 *   Thrust, CUB).
 * - A framework compiles the kernel at run time and uses a generic launcher. (CuPy's kernels are recognised by name.)
 *
 * It may mistake a user's kernel for a library's if a library on the list launches it:
 * - an inline extension that uses a launcher in libtorch
 * - a callback or plug-in of TensorRT, XLA or cuFFT
 * - a graph that a library replays
 *
 * If several files launch one kernel, the first site with a known file decides. The owner only sorts the suspects and
 * is never evidence. */
#include "gwi_culprit.h"
#include "gwi_suspects.h"

#include "gw_sites.h"
#include "gw_text.h"

#include <ctype.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- owners of kernels ---- */

static bool fits_any(const char *name, const char *const *patterns, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fnmatch(patterns[i], name, 0) == 0)
            return true;
    return false;
}

static bool is_between(const char *file)
{
    static const char *const patterns[] = {"libgpuwhy*", "libcuda.so*", "libcudart*", "libc.so*", "ld-*", "\\[*"};
    return fits_any(file, patterns, sizeof patterns / sizeof patterns[0]);
}

static bool is_library(const char *file)
{
    static const char *const patterns[] = {
        "libcublas*", "libcudnn*",       "libcufft*",  "libcurand*",  "libcusolver*",   "libcusparse*", "libcutensor*",
        "libnccl*",   "libnpp*",         "libnvjpeg*", "libnvinfer*", "libcudss*",      "libcupti*",    "libmagma*",
        "libtorch*",  "libc10*",         "libaten*",   "libcaffe2*",  "libtensorflow*", "xla_*",        "libjax*",
        "libpaddle*", "libonnxruntime*", "libmxnet*",  "libcudf*",    "librmm*",        "libcuml*",     "libraft*"};
    return fits_any(file, patterns, sizeof patterns / sizeof patterns[0]);
}

/* The guessed owner of a kernel. OF_LIBRARY: CUDA's own libraries and those of frameworks. */
typedef enum kernel_owner { OF_USER, OF_UNKNOWN, OF_LIBRARY } kernel_owner;

static kernel_owner owner_of_site(const gwi_case *c, uint32_t site)
{
    const gw_stack *stack = gw_sites_stack(c->model->sites, site);
    for (size_t i = 0; stack != NULL && i < stack->count; i++) {
        const gw_frame *frame = &stack->frame[i];
        const char *file = frame->module == NULL ? NULL : gw_path_last(frame->module);
        if (file == NULL || is_between(file))
            continue;
        return is_library(file) ? OF_LIBRARY : OF_USER;
    }
    return OF_UNKNOWN;
}

static bool is_same(const char *a, const char *b)
{
    return a != NULL && b != NULL && strcmp(a, b) == 0;
}

static bool is_its_launch(const gw_launch_site *it, uint32_t pid, const char *kernel)
{
    return it->pid == pid && is_same(it->kernel, kernel);
}

static kernel_owner kernel_owner_of(const gwi_case *c, uint32_t pid, const char *kernel)
{
    kernel_owner owner = OF_UNKNOWN;
    if (kernel != NULL && gw_begins(kernel, "cupy_")) /* a kernel of CuPy, which it compiles at run time */
        return OF_LIBRARY;
    for (size_t i = 0; kernel != NULL && i < c->model->launch_site_count && owner == OF_UNKNOWN; i++)
        if (is_its_launch(&c->model->launch_site[i], pid, kernel))
            owner = owner_of_site(c, c->model->launch_site[i].site);
    return owner;
}

/* ---- places of launches ---- */

size_t gwi_launch_places(const gwi_case *c, uint32_t pid, const char *kernel, uint32_t out[GWI_LAUNCH_PLACES_MAX])
{
    char text[GWI_PLACE_TEXT_MAX], other[GWI_PLACE_TEXT_MAX];
    size_t count = 0;
    for (size_t i = 0; kernel != NULL && i < c->model->launch_site_count && count < GWI_LAUNCH_PLACES_MAX; i++) {
        const gw_launch_site *it = &c->model->launch_site[i];
        if (!is_its_launch(it, pid, kernel) || gwi_at(c, it->site, text)[0] == '\0')
            continue;
        bool known = false;
        for (size_t k = 0; k < count && !known; k++)
            known = strcmp(text, gwi_at(c, out[k], other)) == 0;
        if (!known)
            out[count++] = it->site;
    }
    return count;
}

static const char *without_at(const char *text)
{
    return gw_begins(text, " at ") ? text + 4 : text;
}

char *gwi_launched_text(char out[GWI_LAUNCHED_TEXT_MAX], const gwi_case *c, uint32_t pid, const char *kernel)
{
    enum { SHOWN_MAX = 3 };
    uint32_t site[GWI_LAUNCH_PLACES_MAX];
    char at[GWI_PLACE_TEXT_MAX];
    size_t used, count = gwi_launch_places(c, pid, kernel, site);
    out[0] = '\0';
    if (count == 0)
        return out;
    if (count == 1)
        used = (size_t)snprintf(out, GWI_LAUNCHED_TEXT_MAX, "first launched at ");
    else
        used = (size_t)snprintf(out, GWI_LAUNCHED_TEXT_MAX,
                                "launched at %s%zu places: ", count == GWI_LAUNCH_PLACES_MAX ? "at least " : "", count);
    for (size_t i = 0; i < count && i < SHOWN_MAX; i++)
        used += (size_t)snprintf(out + used, GWI_LAUNCHED_TEXT_MAX - used, "%s%.400s", i == 0 ? "" : ", ",
                                 count == 1 ? gwi_place(c, site[i], at) : without_at(gwi_at(c, site[i], at)));
    if (count > SHOWN_MAX)
        snprintf(out + used, GWI_LAUNCHED_TEXT_MAX - used, ", ...");
    return out;
}

/* ---- the list of suspects ---- */

typedef struct suspect {
    const char *kernel;       /* mangled; NULL: not known */
    const gw_ring_call *last; /* newest launch that nothing has waited for */
    uint64_t launches;
    int rank; /* suspects are reported in ascending order of this number */
} suspect;

enum { SUSPECTS_MAX = 64 };
typedef struct suspect_list {
    suspect item[SUSPECTS_MAX];
    size_t count;
    bool beyond;              /* there were more kernels than SUSPECTS_MAX */
    uint64_t launches;        /* number of launches, of any kernel, that nothing has waited for */
    const gw_ring_call *last; /* the newest launch of any kernel, even if it has ended */
} suspect_list;

static suspect *suspect_of(suspect_list *list, const gw_ring_call *call)
{
    for (size_t i = 0; i < list->count; i++)
        if (is_same(list->item[i].kernel, call->kernel) || (list->item[i].kernel == NULL && call->kernel == NULL))
            return &list->item[i];
    if (list->count == SUSPECTS_MAX) {
        list->beyond = true;
        return NULL;
    }
    list->item[list->count] = (suspect){.kernel = call->kernel};
    return &list->item[list->count++];
}

static void take_launch(suspect_list *list, const gw_ring_call *call)
{
    suspect *it = suspect_of(list, call);
    if (it == NULL)
        return;
    it->launches++;
    it->last = it->last == NULL || call->t_ns >= it->last->t_ns ? call : it->last;
}

static void collect(const gwi_case *c, uint64_t t_ns, suspect_list *list)
{
    *list = (suspect_list){0};
    for (size_t i = 0; i < c->model->thread_count; i++) {
        const gw_thread *thread = &c->model->thread[i];
        for (size_t k = 0; c->process != NULL && thread->pid == c->process->pid && k < thread->ring_count; k++) {
            const gw_ring_call *call = &thread->ring[k];
            if ((!call->is_launch && !call->is_graph_launch) || call->captured || call->t_ns > t_ns)
                continue;
            list->last = list->last == NULL || call->t_ns >= list->last->t_ns ? call : list->last;
            if (!gwi_is_open_launch(call, t_ns))
                continue;
            list->launches++;
            take_launch(list, call);
        }
    }
    /* if nothing else can be at fault, suspect the newest launch although it has ended */
    if (list->launches == 0 && list->last != NULL)
        take_launch(list, list->last);
}

/* True if the kernel is called `name`, or if its mangled name contains the length of `name` and then `name`, as in
 * "_Z6gatherPf". */
static bool has_function(const char *kernel, const char *name)
{
    char part[144];
    if (kernel == NULL)
        return false;
    snprintf(part, sizeof part, "%zu%s", strlen(name), name);
    return strcmp(kernel, name) == 0 || (gw_begins(kernel, "_Z") && strstr(kernel, part) != NULL);
}

/* Find the kernel that the text of the failed assertion names. Returns NULL if this name matches no kernel of the list,
 * or several. */
static const char *asserting_kernel(const gwi_case *c, const gw_failure *sticky, const suspect_list *list)
{
    enum { DEVICE_ASSERT = 710 };
    const gw_stderr_facts *facts = &c->model->stderr_facts;
    const char *found = NULL;
    const char *function = gw_stderr_field(facts, &facts->device_assert, GW_SAYS_DEVICE_ASSERT, "function");
    if (sticky->result != DEVICE_ASSERT || function == NULL)
        return NULL;
    for (size_t i = 0; i < list->count; i++) {
        if (!has_function(list->item[i].kernel, function) || list->item[i].last->is_graph_launch)
            continue;
        if (found != NULL)
            return NULL;
        found = list->item[i].kernel;
    }
    return found;
}

/* ---- the most likely kernel ---- */

static bool has_graph_launch(const suspect_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->item[i].last->is_graph_launch)
            return true;
    return false;
}

static const char *suspect_kernel(const gwi_case *c, const gw_failure *sticky, const suspect_list *list,
                                  const char **ret_why)
{
    const char *kernel = gwi_kernel_at_fault(c, sticky);
    if (kernel != NULL) {
        *ret_why = "where the kernel at fault was first launched";
        return kernel;
    }
    kernel = asserting_kernel(c, sticky, list);
    if (kernel != NULL) {
        *ret_why = "where the kernel that the assertion names was first launched";
        return kernel;
    }
    uint64_t synced_ns = c->process == NULL ? 0 : c->process->synced_at_ns;
    if (c->process == NULL || list->launches == 0 || list->count != 1 || list->beyond || has_graph_launch(list) ||
        !gwi_window_is_whole(c, synced_ns))
        return NULL;
    *ret_why = synced_ns == 0 ? "where the only kernel of the program was first launched"
                              : "where the only kernel since the last good synchronisation was first launched";
    return list->item[0].kernel;
}

const char *gwi_suspect_kernel(const gwi_case *c, const gw_failure *sticky, const char **ret_why)
{
    suspect_list list;
    collect(c, sticky->t_ns, &list);
    return suspect_kernel(c, sticky, &list, ret_why);
}

/* ---- the report ---- */

static bool comes_before(const suspect *a, const suspect *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->last->t_ns > b->last->t_ns;
}

static void sort_suspects(const gwi_case *c, suspect_list *list, const char *named)
{
    for (size_t i = 0; i < list->count; i++) {
        suspect it = list->item[i];
        it.rank = is_same(it.kernel, named) ? -1 : (int)kernel_owner_of(c, c->process->pid, it.kernel);
        size_t at = i;
        for (; at > 0 && comes_before(&it, &list->item[at - 1]); at--)
            list->item[at] = list->item[at - 1];
        list->item[at] = it;
    }
}

static void say_suspect(const gwi_case *c, gwi_finding *finding, const suspect_list *list, const suspect *it)
{
    char stream[GWI_STREAM_TEXT_MAX], call[GWI_CALL_TEXT_MAX], kernel[GWI_KERNEL_TEXT_MAX];
    char launched[GWI_LAUNCHED_TEXT_MAX], times[48] = "";
    bool is_last = it->last == list->last;
    if (it->launches > 1)
        snprintf(times, sizeof times, is_last ? ", one of %" PRIu64 " launches" : " %" PRIu64 " times", it->launches);
    gwi_launched_text(launched, c, c->process->pid, it->kernel);
    gwi_evidence(finding, it->last->t_ns, "driver", "%s%s%s%s%s on %s (%s)%s%s%s", is_last ? "last launch: " : "",
                 it->kernel != NULL ? gwi_kernel_text(kernel, it->kernel) : "an unnamed kernel",
                 is_last ? "" : " launched", it->last->is_graph_launch ? " from a graph" : "", is_last ? "" : times,
                 gwi_stream_text(stream, it->last->stream), gwi_call_text(call, it->last->fn_name),
                 is_last ? times : "", launched[0] == '\0' ? "" : "; ", launched);
}

static void say_others(gwi_finding *finding, const suspect_list *list, size_t first)
{
    enum { NAMED_MAX = 4 };
    uint64_t launches = 0;
    gw_text names = {0};
    for (size_t i = first; i < list->count; i++) {
        char kernel[GWI_KERNEL_TEXT_MAX];
        const char *name = list->item[i].kernel;
        launches += list->item[i].launches;
        if (i - first < NAMED_MAX)
            gw_text_addf(&names, "%s%.80s", i == first ? "" : ", ",
                         name == NULL ? "an unnamed kernel" : gwi_kernel_text(kernel, name));
    }
    size_t others = list->count - first;
    gwi_measure(finding, GWI_NO_TIME, "driver", (double)launches, "count",
                "and %s%zu other kernels since the last good synchronisation, in %" PRIu64 " launches: %s%s",
                list->beyond ? "at least " : "", others, launches, gw_text_str(&names),
                others > NAMED_MAX || list->beyond ? ", ..." : "");
    finding->failed = finding->failed || names.failed;
    gw_text_free(&names);
}

void gwi_say_suspects(const gwi_case *c, gwi_finding *finding, const gw_failure *sticky)
{
    enum { LINES_MAX = 3 };
    suspect_list list;
    const char *why = NULL;
    if (c->process == NULL)
        return;
    collect(c, sticky->t_ns, &list);
    const char *named = suspect_kernel(c, sticky, &list, &why);
    sort_suspects(c, &list, named);
    bool named_is_there = named == NULL || (list.count > 0 && is_same(list.item[0].kernel, named));
    size_t shown = list.count <= LINES_MAX && !list.beyond ? list.count : LINES_MAX - 1;
    for (size_t i = 0; i < shown; i++)
        say_suspect(c, finding, &list, &list.item[i]);
    if (shown < list.count)
        say_others(finding, &list, shown);
    char kernel[GWI_KERNEL_TEXT_MAX], launched[GWI_LAUNCHED_TEXT_MAX];
    if (!named_is_there && gwi_launched_text(launched, c, c->process->pid, named)[0] != '\0')
        gwi_evidence(finding, GWI_NO_TIME, "driver", "%s was %s", gwi_kernel_text(kernel, named), launched);
}

/* Tests the conversion of call sites to stacks, with stacks that this program records of itself and with invented
 * ones. */
#define _GNU_SOURCE
#include "gw_sites.h"
#include "gw_test_folder.h"
#include "gw_test_random.h"
#include "gwi_inner.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unwind.h>

enum { PID = 100, SOFT_MS = 20000, HARD_MS = 60000 };

/* ---- feeding ---- */

static gw_sites *sites; /* of the running test */

static gw_error err; /* of the last failure */

static int begin(void **state)
{
    sites = gw_sites_new();
    return sites == NULL;
}

static int end(void **state)
{
    gw_sites_free(sites);
    return 0;
}

static void begin_again(void)
{
    end(NULL);
    assert_int_equal(begin(NULL), 0);
}

static void feed(gw_item item)
{
    assert_true(gw_sites_feed(sites, &item));
}

static void feed_event(gw_event_kind kind, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, const char *text)
{
    gw_item item = {.kind = GW_ITEM_EVENT, .pid = PID};
    item.event = (gw_event){.pid = PID, .kind = (uint8_t)kind, .arg = {a0, a1, a2, a3}, .text = text};
    item.event.text_bytes = text == NULL ? 0 : (uint32_t)strlen(text);
    feed(item);
}

static void feed_meta(const char *key, const char *value)
{
    feed((gw_item){.kind = GW_ITEM_META, .pair = {key, value}});
}

static void feed_process(uint64_t start, const char *exe, uint64_t pid_namespace)
{
    feed((gw_item){.kind = GW_ITEM_PROCESS,
                   .pid = PID,
                   .process = {.start_realtime_ns = start, .exe = exe, .pid_namespace = pid_namespace}});
}

static void feed_site(uint32_t id, const uint64_t *frame, uint32_t count, unsigned flags)
{
    feed_event(GW_EV_SITE, id, count, flags, 0, NULL);
    for (uint32_t i = 0; i < count; i += 3)
        feed_event(GW_EV_SITE_FRAMES, id | (uint64_t)i << 32, frame[i], i + 1 < count ? frame[i + 1] : 0,
                   i + 2 < count ? frame[i + 2] : 0, NULL);
}

static void feed_symbol(const char *path, uint64_t address, const char *function, const char *file, uint32_t line)
{
    gw_symbol_frame frame = {function, file, line, 0};
    feed((gw_item){.kind = GW_ITEM_SYMBOL, .symbol = {path, 0, address, GW_SYMBOL_LINE, &frame, 1}});
}

static const gw_stack *stack_of(uint32_t id)
{
    return gw_sites_stack(sites, gw_sites_number(sites, PID, id));
}

/* ---- this program ---- */

static uint64_t build_id_of(const struct dl_phdr_info *info)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *head = &info->dlpi_phdr[i];
        const char *at = (const char *)(info->dlpi_addr + head->p_vaddr), *end = at + head->p_memsz;
        while (head->p_type == PT_NOTE && at + sizeof(ElfW(Nhdr)) < end) {
            ElfW(Nhdr) note;
            memcpy(&note, at, sizeof note);
            const char *data = at + sizeof note + (note.n_namesz + 3) / 4 * 4;
            uint64_t id;
            memcpy(&id, data, sizeof id);
            if (note.n_type == NT_GNU_BUILD_ID)
                return id;
            at = data + (note.n_descsz + 3) / 4 * 4;
        }
    }
    return 0;
}

static const char *instead; /* path to report instead of this program's path; NULL: none */

static int feed_mapping(struct dl_phdr_info *info, size_t bytes, void *user)
{
    char self[4096] = "";
    if (info->dlpi_name[0] == '\0' && readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *head = &info->dlpi_phdr[i];
        const char *path = info->dlpi_name[0] != '\0' ? info->dlpi_name : instead != NULL ? instead : self;
        if (head->p_type == PT_LOAD && (head->p_flags & PF_X) != 0)
            feed_event(GW_EV_MAPPED, info->dlpi_addr + head->p_vaddr, head->p_memsz, info->dlpi_addr, build_id_of(info),
                       path);
    }
    return 0;
}

static void *stack_now[64];
static int stack_depth;
static unsigned line_inner, line_middle, line_outer, line_named;

/* Record one frame. backtrace() is not used, because some sanitizers replace it and add a frame of their own. */
static _Unwind_Reason_Code take_frame(struct _Unwind_Context *context, void *user)
{
    if (stack_depth == 64 || _Unwind_GetIP(context) == 0)
        return _URC_END_OF_STACK;
    stack_now[stack_depth++] = (void *)(uintptr_t)_Unwind_GetIP(context);
    return _URC_NO_REASON;
}

static inline __attribute__((always_inline)) void innermost(void)
{
    stack_depth = 0;
    _Unwind_Backtrace(take_frame, NULL), line_inner = __LINE__;
}

static inline __attribute__((always_inline)) void middle(void)
{
    innermost(), line_middle = __LINE__;
}

__attribute__((noinline)) static void load_batch(void)
{
    middle(), line_outer = __LINE__;
    stack_depth += 0;
}

__attribute__((noinline)) static void train(void)
{
    load_batch(), line_named = __LINE__;
    stack_now[63] = NULL; /* prevents a tail call */
}

static void this_program(void)
{
    uint64_t frame[64];
    begin_again();
    train();
    for (int i = 0; i < stack_depth; i++)
        frame[i] = (uintptr_t)stack_now[i];
    feed_process(1, "/somewhere/else", 0);
    dl_iterate_phdr(feed_mapping, NULL);
    feed_site(1, frame, (uint32_t)stack_depth, 0);
}

static const gw_stack *resolved(void)
{
    assert_int_equal(gw_sites_resolve(sites, SOFT_MS, HARD_MS, &err), GW_OK);
    const gw_stack *stack = stack_of(1);
    assert_non_null(stack);
    return stack;
}

static void expect_frame(const gw_frame *frame, const char *function, const char *file, unsigned line, bool inlined)
{
    assert_string_equal(frame->function == NULL ? "?" : frame->function, function);
    if (file != NULL)
        assert_non_null(strstr(frame->file == NULL ? "?" : frame->file, file));
    assert_int_equal(frame->line, line);
    assert_int_equal(frame->inlined, inlined);
}

GW_TEST_WITH(functions_lines_and_inlined_frames, begin, end)
{
    this_program();
    const gw_stack *stack = resolved();
    assert_true(stack->count >= 5);
    expect_frame(&stack->frame[0], "innermost", "sites_test.c", line_inner, true);
    expect_frame(&stack->frame[1], "middle", "sites_test.c", line_middle, true);
    expect_frame(&stack->frame[2], "load_batch", "sites_test.c", line_outer, false);
    expect_frame(&stack->frame[3], "train", "sites_test.c", line_named, false);
    assert_int_equal(stack->frame[stack->count - 1].whose, GW_WHOSE_RUNTIME); /* _start */
    assert_int_equal(stack->user, 0);
    size_t count;
    const gw_symbol *symbols = gw_sites_symbols(sites, &count);
    for (size_t i = 0; i < count; i++)
        assert_int_not_equal(symbols[i].state, GW_SYMBOL_NOT_ASKED);
}

/* Names that were found on one machine are enough to show the same stack on another machine. */
GW_TEST_WITH(names_survive_the_machine, begin, end)
{
    this_program();
    const gw_stack *stack = resolved();
    size_t count;
    const gw_symbol *symbols = gw_sites_symbols(sites, &count);
    gw_sites *here = sites;
    sites = NULL;
    instead = "/not/on/this/machine";
    this_program();
    instead = NULL;
    for (size_t i = 0; i < count; i++) {
        bool own = strcmp(symbols[i].path, stack->frame[0].module) == 0;
        gw_item item = {.kind = GW_ITEM_SYMBOL,
                        .symbol = {own ? "/not/on/this/machine" : symbols[i].path, symbols[i].build_id,
                                   symbols[i].address, symbols[i].state, symbols[i].frame, symbols[i].count}};
        feed(item);
    }
    const gw_stack *same = resolved();
    assert_int_equal(same->count, stack->count);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(same->frame[i].function, stack->frame[i].function);
    gw_sites_free(here);
}

static char *self;
static long self_bytes;

static void copy_self(const char *to, long flip_at, unsigned char flip, long keep_bytes)
{
    if (flip_at >= 0)
        self[flip_at] = (char)(self[flip_at] ^ flip);
    gw_test_write(to, self, (size_t)keep_bytes);
    if (flip_at >= 0)
        self[flip_at] = (char)(self[flip_at] ^ flip);
}

static int make_folder(void **state)
{
    struct stat status;
    FILE *from = fopen("/proc/self/exe", "rb");
    if (gw_test_folder_make(state) != 0 || from == NULL || fstat(fileno(from), &status) != 0)
        return -1;
    self_bytes = status.st_size;
    self = malloc((size_t)self_bytes);
    bool good = self != NULL && fread(self, 1, (size_t)self_bytes, from) == (size_t)self_bytes;
    fclose(from);
    return good ? 0 : -1;
}

static int remove_folder(void **state)
{
    free(self);
    return gw_test_folder_remove(state);
}

GW_TEST_WITH(another_file_in_its_place_is_not_used, begin, end)
{
    instead = "/usr/bin/env"; /* another program, so its build id differs */
    this_program();
    const gw_stack *stack = resolved();
    assert_null(stack->frame[0].function);
    assert_int_equal(stack->frame[0].state, GW_SYMBOL_CHANGED);
    instead = "/not/there";
    this_program();
    stack = resolved();
    assert_int_equal(stack->frame[0].state, GW_SYMBOL_MISSING);
    char text[GW_PLACE_TEXT_MAX];
    assert_ptr_equal(strstr(gw_frame_text(sites, &stack->frame[0], text), "there+0x"), text);
    instead = "/dev/zero"; /* a device is never read */
    this_program();
    stack = resolved();
    assert_int_equal(stack->frame[0].state, GW_SYMBOL_CHANGED);
    instead = NULL;
}

/* The lookup must end for every damaged file, whether it finds names or not. */
GW_TEST_WITH(damaged_files_end_in_an_answer, begin, end)
{
    enum { FLIPS = 40, CUTS = 8 };
    unsigned right = 0;
    instead = gw_test_file;
    for (int i = 0; i < FLIPS + CUTS; i++) {
        uint64_t random = gw_test_random();
        /* A quarter of the flips are in the file's first 64 bytes, and a quarter in the tables at its end. */
        long at = (long)(random % (i % 4 == 0 ? 64 : (uint64_t)self_bytes));
        at = i % 4 == 1 ? self_bytes - 1 - at % 4096 : at;
        copy_self(gw_test_file, i < FLIPS ? at : -1, (unsigned char)(1u << (random >> 40) % 8),
                  i < FLIPS ? self_bytes : at);
        this_program();
        assert_int_equal(gw_sites_resolve(sites, 500, 2000, &err), GW_OK);
        const gw_stack *stack = stack_of(1);
        assert_non_null(stack);
        assert_true(stack->count > 0);
        right += stack->frame[0].function != NULL && strcmp(stack->frame[0].function, "innermost") == 0;
    }
    instead = NULL;
    assert_true(right > 0); /* most flips do not change data that is read */
    assert_true(right < FLIPS + CUTS);
}

/* ---- invented stacks ---- */

static const char python_path[] = "/usr/bin/python3.11",
                  torch_path[] = "/v/lib/python3.11/site-packages/torch/lib/t.so";
enum { PYTHON_AT = 0x10000, TORCH_AT = 0x20000, SIZE = 0x1000 };
enum { IN_EVAL = 0x10, IN_CALL = 0x20, IN_TAIL = 0x30, IN_COLD = 0x40, IN_TORCH = 0x50, IN_DARK = 0x60 };
#define PYTHON(offset)     ((uint64_t)PYTHON_AT + (offset) + 1)
#define TORCH(offset)      ((uint64_t)TORCH_AT + (offset) + 1)
#define FRAME(code, entry) (GW_FRAME_OF_CODE(code, 0) | ((entry) ? GW_FRAME_ENTRY : 0))

static int a_python_program(void **state)
{
    if (begin(state) != 0)
        return -1;
    feed_meta("argv", "python");
    feed_meta("argv", "./train.py");
    feed_meta("cwd", "/project");
    feed_process(1, python_path, 0);
    feed_event(GW_EV_MAPPED, PYTHON_AT, SIZE, PYTHON_AT, 0, python_path);
    feed_event(GW_EV_MAPPED, TORCH_AT, SIZE, TORCH_AT, 0, torch_path);
    feed_symbol(python_path, IN_EVAL, "_PyEval_EvalFrameDefault", NULL, 0);
    feed_symbol(python_path, IN_COLD, "_PyEval_EvalFrameDefault.cold", NULL, 0);
    feed_symbol(python_path, IN_TAIL, "_TAIL_CALL_CALL", NULL, 0);
    feed_symbol(python_path, IN_CALL, "cfunction_call", NULL, 0);
    feed_symbol(torch_path, IN_TORCH, "THPModule_empty", NULL, 0);
    feed_event(GW_EV_PYTHON_CODE, 1, 10, 0x030B, 0, "load_batch\n/project/data.py");
    feed_event(GW_EV_PYTHON_CODE, 2, 20, 0x030B, 0, "train\n/project/train.py");
    feed_event(GW_EV_PYTHON_CODE, 3, 30, 0x030B, 0,
               "Module.__call__\n/v/lib/python3.11/site-packages/torch/nn/modules/module.py");
    feed_event(GW_EV_PYTHON_CODE, 4, 40, 0x030B, 0, "run\n/usr/lib/python3.11/threading.py");
    feed_event(GW_EV_PYTHON_CODE, 5, 50, 0x030B, 0, "call\n/tmp/torchinductor_me/e2/ce2nwacekn4.py");
    return 0;
}

static void expect_stack(const uint64_t *frame, uint32_t count, unsigned flags, const char *wanted, const char *user)
{
    static uint32_t id;
    char found[1024] = "";
    feed_site(++id, frame, count, flags);
    uint32_t number = gw_sites_number(sites, PID, id);
    const gw_stack *stack = gw_sites_stack(sites, number);
    assert_non_null(stack);
    for (size_t i = 0; i < stack->count; i++) {
        strcat(found, i == 0 ? "" : " ");
        strcat(found, stack->frame[i].function == NULL ? "?" : stack->frame[i].function);
    }
    assert_string_equal(found, wanted);
    assert_string_equal(stack->user == stack->count ? "-" : stack->frame[stack->user].function, user);
}

GW_TEST_WITH(python_frames_take_the_place_of_the_evaluation_loop, a_python_program, end)
{
    const uint64_t plain[] = {TORCH(IN_TORCH), PYTHON(IN_CALL), PYTHON(IN_EVAL), FRAME(1, false), FRAME(2, true)};
    expect_stack(plain, 5, 0, "THPModule_empty cfunction_call load_batch train", "load_batch");
    /* The native stack enters Python twice, and the native frame between the entries must stay there. The compiler
     * moved a part of the evaluation loop out of its function. */
    const uint64_t nested[] = {TORCH(IN_TORCH), PYTHON(IN_EVAL), PYTHON(IN_CALL), PYTHON(IN_COLD),
                               FRAME(3, false), FRAME(1, true),  FRAME(2, true)};
    expect_stack(nested, 7, 0, "THPModule_empty Module.__call__ load_batch cfunction_call train", "load_batch");
    const uint64_t tail[] = {TORCH(IN_TORCH), PYTHON(IN_TAIL), PYTHON(IN_EVAL), PYTHON(IN_CALL), FRAME(2, true)};
    expect_stack(tail, 5, 0, "THPModule_empty train cfunction_call", "train");
    /* the native stack has a frame of the evaluation loop, but no Python frames were recorded */
    const uint64_t unknown[] = {TORCH(IN_TORCH), PYTHON(IN_EVAL)};
    expect_stack(unknown, 2, GW_SITE_PYTHON_UNKNOWN, "THPModule_empty _PyEval_EvalFrameDefault", "THPModule_empty");
    /* code that torch.compile generated is not the program's */
    const uint64_t compiled[] = {TORCH(IN_TORCH), PYTHON(IN_EVAL), FRAME(5, false), FRAME(2, true)};
    expect_stack(compiled, 4, 0, "THPModule_empty call train", "train");
}

GW_TEST_WITH(python_frames_without_a_place, a_python_program, end)
{
    const uint64_t stripped[] = {TORCH(IN_TORCH), PYTHON(IN_DARK), PYTHON(IN_DARK), FRAME(1, false), FRAME(2, true)};
    expect_stack(stripped, 5, 0, "THPModule_empty load_batch train ? ?", "load_batch");
    const uint64_t cut[] = {TORCH(IN_TORCH), PYTHON(IN_CALL), FRAME(1, false), FRAME(2, true)};
    expect_stack(cut, 4, GW_SITE_NATIVE_CUT, "THPModule_empty cfunction_call load_batch train", "load_batch");
}

GW_TEST_WITH(a_thread_without_python_borrows, a_python_program, end)
{
    const uint64_t lender[] = {TORCH(IN_TORCH), PYTHON(IN_EVAL), FRAME(3, false), FRAME(2, true)};
    const uint64_t borrower[] = {TORCH(IN_TORCH)};
    feed_site(501, lender, 4, 0);
    feed_event(GW_EV_SITE, 502, 1, GW_SITE_PYTHON_BORROWED, 501, NULL);
    feed_event(GW_EV_SITE_FRAMES, 502, borrower[0], 0, 0, NULL);
    const gw_stack *stack = stack_of(502);
    assert_int_equal(stack->count, 3);
    assert_int_equal(stack->flags, GW_SITE_PYTHON_BORROWED);
    assert_string_equal(stack->frame[stack->user].function, "train");
    /* a site that borrows from itself gets no borrowed frames */
    feed_event(GW_EV_SITE, 503, 1, GW_SITE_PYTHON_BORROWED, 503, NULL);
    feed_event(GW_EV_SITE_FRAMES, 503, borrower[0], 0, 0, NULL);
    assert_int_equal(stack_of(503)->count, 1);
}

/* Frames of PyTorch's own stacks have line numbers instead of instructions. These stacks have their own ids. */
GW_TEST_WITH(frameworks_stacks, a_python_program, end)
{
    uint32_t code = GW_SITE_FRAMEWORK_CODE_FIRST + 1, id = GW_SITE_FRAMEWORK_FIRST;
    feed_event(GW_EV_PYTHON_CODE, code, 0, 0, 0, "step\n/project/model.py");
    const uint64_t frame[] = {GW_FRAME_OF_CODE(code, 77), FRAME(2, false)};
    feed_site(id, frame, 2, 0);
    uint32_t number = gw_sites_number(sites, PID, id);
    char text[GW_PLACE_TEXT_MAX];
    const gw_stack *stack = gw_sites_stack(sites, number);
    assert_true(stack != NULL && stack->user < stack->count);
    assert_string_equal(gw_frame_text(sites, &stack->frame[stack->user], text), "model.py:77 in step");
    assert_int_not_equal(number, gw_sites_number(sites, PID, 1));
    /* PyTorch also names native frames. They are never the user's frame. */
    feed_event(GW_EV_PYTHON_CODE, code + 1, 0, 0, 0, "c10::Allocator::raw_allocate\n??");
    feed_event(GW_EV_PYTHON_CODE, code + 2, 0, 0, 0, "THPModule_empty\n/pytorch/torch/csrc/Module.cpp");
    feed_event(GW_EV_PYTHON_CODE, code + 3, 0, 0, 0, "??\n");
    const uint64_t mixed[] = {GW_FRAME_OF_CODE(code + 1, 0), GW_FRAME_OF_CODE(code + 3, -1),
                              GW_FRAME_OF_CODE(code + 2, 9), GW_FRAME_OF_CODE(code, 78)};
    feed_site(id + 1, mixed, 4, 0);
    stack = stack_of(id + 1);
    assert_string_equal(gw_frame_text(sites, &stack->frame[stack->user], text), "model.py:78 in step");
    assert_false(stack->frame[0].python);
    assert_int_equal(stack->frame[2].whose, GW_WHOSE_FRAMEWORK);
}

/* Stacks that were read from outside the process have their own ids, which are different from those of the hook and of
 * a framework. */
GW_TEST_WITH(stacks_from_outside, a_python_program, end)
{
    uint32_t code = GW_SITE_OUTSIDE_CODE_FIRST + 1, id = GW_SITE_OUTSIDE_FIRST + 1;
    feed_event(GW_EV_PYTHON_CODE, code, 41, 0x030B, 0, "take\n/project/locks.py");
    feed_event(GW_EV_PYTHON_CODE, GW_SITE_FRAMEWORK_CODE_FIRST + 1, 0, 0, 0, "step\n/project/model.py");
    const uint64_t mine[] = {GW_FRAME_OF_CODE(code, 0)},
                   framework[] = {GW_FRAME_OF_CODE(GW_SITE_FRAMEWORK_CODE_FIRST + 1, 7)};
    feed_site(id, mine, 1, 0);
    feed_site(GW_SITE_FRAMEWORK_FIRST + 1, framework, 1, 0);
    assert_string_equal(stack_of(id)->frame[0].function, "take");
    assert_string_equal(stack_of(GW_SITE_FRAMEWORK_FIRST + 1)->frame[0].function, "step");
    assert_int_not_equal(gw_sites_number(sites, PID, id), gw_sites_number(sites, PID, 1));
}

GW_TEST_WITH(the_users_frame, a_python_program, end)
{
    const uint64_t inside[] = {PYTHON(IN_EVAL), FRAME(4, false), FRAME(3, false), FRAME(2, true)};
    expect_stack(inside, 4, 0, "run Module.__call__ train", "train");
    const uint64_t none[] = {PYTHON(IN_EVAL), FRAME(4, true)};
    expect_stack(none, 2, 0, "run", "-");
    const uint64_t package[] = {PYTHON(IN_EVAL), FRAME(4, false), FRAME(3, true)};
    expect_stack(package, 3, 0, "run Module.__call__", "Module.__call__");
}

GW_TEST_WITH(a_file_mapped_in_anothers_place_counts_from_then_on, a_python_program, end)
{
    const uint64_t frame[] = {TORCH(IN_TORCH)};
    feed_site(1, frame, 1, 0);
    feed_event(GW_EV_MAPPED, TORCH_AT, SIZE, TORCH_AT, 0, "/opt/new.so");
    feed_symbol("/opt/new.so", IN_TORCH, "renewed", NULL, 0);
    feed_site(2, frame, 1, 0);
    assert_string_equal(stack_of(1)->frame[0].function, "THPModule_empty");
    assert_string_equal(stack_of(2)->frame[0].function, "renewed");
    /* A process that is reported twice keeps its sites. Another program with the same pid starts without sites. */
    uint32_t before = gw_sites_number(sites, PID, 1);
    feed_process(1, python_path, 0);
    assert_int_equal(gw_sites_number(sites, PID, 1), before);
    feed_process(2, "/bin/other", 0);
    assert_int_not_equal(gw_sites_number(sites, PID, 1), before);
    assert_null(stack_of(1));
}

GW_TEST_WITH(nonsense_is_passed_over, begin, end)
{
    assert_int_equal(gw_sites_number(sites, PID, 0), 0);
    assert_int_equal(gw_sites_number(sites, PID, UINT32_MAX), 0);
    feed_event(GW_EV_SITE, 1, UINT64_MAX, 0, 0, NULL);
    feed_event(GW_EV_SITE, UINT64_MAX, 1, 0, 0, NULL);
    feed_event(GW_EV_SITE_FRAMES, UINT64_MAX, 1, 2, 3, NULL);
    feed_event(GW_EV_MAPPED, UINT64_MAX, UINT64_MAX, 0, 0, "x");
    feed_event(GW_EV_MAPPED, 0, 1, 0, 0, NULL);
    feed_event(GW_EV_PYTHON_CODE, UINT64_MAX, 0, 0, 0, "f\nx.py");
    feed_event(GW_EV_PYTHON_CODE, 1, UINT64_MAX, UINT64_MAX, UINT64_MAX, "no newline");
    feed_event(GW_EV_PYTHON_LINES, 1, UINT64_MAX, UINT64_MAX, 0, "zz");
    feed_event(GW_EV_PYTHON_LINES, 1, 0, 1, 0, "zz");
    feed_event(GW_EV_FORK, PID, 0, 0, 0, NULL);
    const uint64_t frame[] = {0, UINT64_MAX, FRAME(77, true), 5};
    feed_site(2, frame, 4, UINT32_MAX);
    assert_non_null(stack_of(2));
    assert_null(stack_of(1));
    assert_null(gw_sites_stack(sites, 12345));
    assert_int_equal(gw_sites_resolve(sites, 100, 1000, &err), GW_OK);
}

/* Feed two damaged SYMBOL items for one address: they have a name, but the state NOT_ASKED. The first name must be
 * kept, and freed only once. */
GW_TEST_WITH(a_name_is_kept_once, begin, end)
{
    for (int i = 0; i < 2; i++) {
        gw_symbol_frame frame = {i == 0 ? "first" : "second", NULL, 0, 0};
        feed((gw_item){.kind = GW_ITEM_SYMBOL, .symbol = {"/opt/a.so", 0, 16, GW_SYMBOL_NOT_ASKED, &frame, 1}});
    }
    feed_event(GW_EV_MAPPED, 4096, 4096, 4096, 0, "/opt/a.so");
    const uint64_t frame[] = {4096 + 17};
    feed_site(1, frame, 1, 0);
    const gw_stack *stack = stack_of(1);
    assert_string_equal(stack->frame[0].function, "first");
}

/* ---- names ---- */

GW_TEST(names_are_readable)
{
    static const char *const names[][2] = {
        {"load_batch", "load_batch"},
        {"_ZN6Loader4nextEi", "Loader::next"},
        {"_ZNK6Loader4sizeEv", "Loader::size"},
        {"_ZN12_GLOBAL__N_14stepEv.cold", "(anonymous namespace)::step"},
        {"_Z3addIfET_S0_S0_", "add<float>"},
        {"_ZN1AclEi", "A::operator()"},
        {"_ZN1AlsERKS_", "A::operator<<"},
        {"_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()"},
        {"_ZNSt6vectorIfSaIfEE6resizeEm", "std::vector<float, std::allocator<float> >::resize"},
        {"_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"},
        {"_ZN43_$LT$a..B$u20$as$u20$core..fmt..Display$GT$3fmt17h0123456789abcdefE",
         "<a::B as core::fmt::Display>::fmt"},
        {"_Znwm", "operator new"},
        {"_ZN1AcvbEv", "A::operator bool"},
        {"_Zgarbage", "_Zgarbage"},
        {"", ""},
    };
    char *probe = gwi_demangle("_Z3addii");
    bool works = probe != NULL && strcmp(probe, "add") == 0;
    free(probe);
    if (!works) {
        print_message("skipped: no libstdc++.so.6 here\n");
        skip();
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *name = gwi_demangle(names[i][0]);
        assert_string_equal(name, names[i][1]);
        free(name);
    }
}

/* Processes of two containers may have the same pid. A site of one must not get the place of the other. */
GW_TEST_WITH(equal_pids_in_two_namespaces, begin, end)
{
    feed_process(1, python_path, 4026531836);
    uint32_t first = gw_sites_number(sites, PID, 1);
    assert_int_not_equal(first, 0);
    feed_process(2, python_path, 4026531836); /* exec() */
    uint32_t second = gw_sites_number(sites, PID, 1);
    assert_true(second != 0 && second != first);
    feed_process(3, python_path, 4026532800);
    assert_int_equal(gw_sites_number(sites, PID, 1), 0);
    feed_site(2, (const uint64_t[]){1, 2}, 2, 0);
    feed_process(4, python_path, 4026532800);
    assert_int_equal(gw_sites_number(sites, PID, 2), 0);
}

GW_TEST_MAIN(make_folder, remove_folder)

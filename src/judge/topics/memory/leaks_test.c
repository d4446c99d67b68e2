/* Tests leaks of runs that end well. Objects of every kind that are never freed must be listed with their place.
 * Objects that live until exit by design must not. */
#include "gw_unit_test.h"
#include "verdict_testlib.h"

static void judge(void)
{
    gw_error err;
    judge_close();
    gw_feed_exit(&feed, 0, 0);
    gw_model *model = gw_feed_finish(&feed);
    assert_int_equal(gw_model_name_sites(model, 100, 1000, &err), GW_OK);
    assert_int_equal(gw_judge(model, &verdict, &err), GW_OK);
    gw_model_free(model);
    assert_int_equal(verdict->status, GW_VERDICT_CLEAN);
}

static bool advised(const char *part)
{
    return list_has(&verdict->advice, part);
}

/* The calls that create and free a kind of object. `a1` is the object's size in bytes, or 0 if the event has no
 * size. */
typedef struct row {
    const char *kind, *make, *end;
    gw_event_kind made, ended;
    uint64_t a1, a2, bytes;
    const char *said;
} row;

static const row rows[] = {
    {"stream", "cuStreamCreate", "cuStreamDestroy_v2", GW_EV_STREAM_CREATE, GW_EV_STREAM_DESTROY, 0, 0, 0,
     "300 streams created at make.py:5 in make, 300 of them never destroyed"},
    {"event", "cuEventCreate", "cuEventDestroy_v2", GW_EV_EVENT_CREATE, GW_EV_EVENT_DESTROY, 0, 0, 0, "300 events"},
    {"context", "cuCtxCreate_v2", "cuCtxDestroy_v2", GW_EV_CTX_CREATE, GW_EV_CTX_DESTROY, 0, 0, 0, "300 contexts"},
    {"module", "cuModuleLoadData", "cuModuleUnload", GW_EV_MODULE_LOAD, GW_EV_MODULE_UNLOAD, 0, 0, 0,
     "300 of them never unloaded"},
    {"library", "cuLibraryLoadData", "cuLibraryUnload", GW_EV_LIBRARY_LOAD, GW_EV_LIBRARY_UNLOAD, 0, 0, 0,
     "300 library handles"},
    {"graph", "cuGraphCreate", "cuGraphDestroy", GW_EV_GRAPH_CREATE, GW_EV_GRAPH_DESTROY, 0, 0, 0, "300 graphs"},
    {"executable graph", "cuGraphInstantiateWithFlags", "cuGraphExecDestroy", GW_EV_GRAPH_EXEC_CREATE,
     GW_EV_GRAPH_EXEC_DESTROY, 0, 0, 0, "300 executable graphs"},
    {"memory pool", "cuMemPoolCreate", "cuMemPoolDestroy", GW_EV_POOL_CREATE, GW_EV_POOL_DESTROY, 0, 0, 0,
     "300 memory pools"},
    {"plain", "cuMemAlloc_v2", "cuMemFree_v2", GW_EV_ALLOC, GW_EV_FREE, 1u << 20, GW_SPACE_DEVICE, 1u << 20,
     "300.00 MiB in 300 blocks of 1.00 MiB by cuMemAlloc at make.py:5 in make"},
    {"array", "cuArrayCreate_v2", "cuArrayDestroy", GW_EV_ALLOC, GW_EV_FREE, 1u << 20, GW_SPACE_ARRAY, 1u << 20,
     "300 blocks"},
    {"mipmapped array", "cuMipmappedArrayCreate", "cuMipmappedArrayDestroy", GW_EV_ALLOC, GW_EV_FREE, 1u << 20,
     GW_SPACE_MIPMAP, 1u << 20, "300 blocks"},
    {"stream-ordered", "cuMemAllocAsync", "cuMemFreeAsync", GW_EV_ALLOC_ASYNC, GW_EV_FREE_ASYNC, 1u << 20, 0, 1u << 20,
     "300 blocks"},
    {"virtual memory management", "cuMemCreate", "cuMemRelease", GW_EV_VMM_CREATE, GW_EV_VMM_RELEASE, 1u << 20, 0,
     1u << 20, "300 blocks"},
    {"address reservation", "cuMemAddressReserve", "cuMemAddressFree", GW_EV_VMM_RESERVE, GW_EV_VMM_UNRESERVE, 1u << 20,
     0, 1u << 20, "300 address reservations of 1.00 MiB"},
    {"pinned host", "cuMemHostAlloc", "cuMemFreeHost", GW_EV_HOST_ALLOC, GW_EV_HOST_FREE, 1u << 20, 0, 1u << 20,
     "300 of them (300.00 MiB) never freed"},
    {"registered host", "cuMemHostRegister_v2", "cuMemHostUnregister", GW_EV_HOST_REGISTER, GW_EV_HOST_UNREGISTER,
     1u << 20, 0, 1u << 20, "never unregistered"},
    {"imported", "cuIpcOpenMemHandle_v2", "cuIpcCloseMemHandle", GW_EV_IPC_OPEN, GW_EV_IPC_CLOSE, 0, 0, 0,
     "300 imported blocks"},
    {"external memory", "cuImportExternalMemory", "cuDestroyExternalMemory", GW_EV_EXT_IMPORT, GW_EV_EXT_DESTROY,
     1u << 20, 0, 1u << 20, "300 external memory objects"},
};
enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

static uint64_t make(const row *r, uint64_t i)
{
    uint64_t key = ((uint64_t)(r - rows) << 32) + 0x100000 + i * 0x200000;
    bool is_context = r->made == GW_EV_CTX_CREATE;
    gw_feed_call(&feed, r->make, r->made, 0, key, r->a1, r->a2, is_context ? GW_CONTEXT_PLAIN : 0);
    return key;
}

static void end(const row *r, uint64_t key)
{
    gw_feed_call(&feed, r->end, r->ended, 0, key, 0, r->a2, 0);
}

/* In each round, create one object of every kind and free all of them, except the object of the kind `kept`. If `kept`
 * is NULL, free all. */
static void work(const row *kept, uint64_t rounds)
{
    uint32_t site = gw_feed_site(&feed, "make make.py 5"), other = gw_feed_site(&feed, "other make.py 9");
    for (uint64_t i = 0; i < rounds; i++) {
        for (size_t k = 0; k < ROW_COUNT; k++) {
            feed.site = &rows[k] == kept ? site : other;
            uint64_t key = make(&rows[k], i);
            if (&rows[k] != kept)
                end(&rows[k], key);
        }
    }
    feed.site = 0;
}

GW_TEST(test_each_kind_is_listed_with_its_place)
{
    for (size_t k = 0; k < ROW_COUNT; k++) {
        gw_feed_open(&feed, 16 * gib);
        work(&rows[k], 300);
        judge();
        if (verdict->leak_count != 1)
            fail_msg("%s: %zu leaks", rows[k].kind, verdict->leak_count);
        const gw_verdict_leak *leak = &verdict->leaks[0];
        assert_string_equal(leak->kind, rows[k].kind);
        assert_string_equal(leak->call, rows[k].make);
        assert_int_equal(leak->pid, GW_FEED_PID);
        assert_int_equal(leak->made, 300);
        assert_int_equal(leak->left, 300);
        assert_int_equal(leak->bytes, 300 * rows[k].bytes);
        assert_true(leak->t_first_ns < leak->t_last_ns);
        assert_non_null(leak->where);
        assert_string_equal(leak->where->frame[leak->where->user].text, "make.py:5 in make");
        if (!advised(rows[k].said))
            fail_msg("%s: not said: %s", rows[k].kind, rows[k].said);
    }
}

/* At each of 70 places, create streams that are never destroyed. The last place creates the most. */
GW_TEST(test_many_leaks_are_counted)
{
    enum { PLACES = 70, ROUNDS = 200 };
    uint32_t site[PLACES];
    gw_feed_open(&feed, 16 * gib);
    for (unsigned k = 0; k < PLACES; k++) {
        char frame[64];
        snprintf(frame, sizeof frame, "make%u make.py %u", k, k + 1);
        site[k] = gw_feed_site(&feed, frame);
    }
    for (uint64_t i = 0; i < ROUNDS; i++) {
        for (unsigned k = 0; k < PLACES; k++) {
            feed.site = site[k];
            for (unsigned n = 0; n < (k + 1 == PLACES ? 2 : 1); n++)
                gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, (i * PLACES + k) * 2 + n + 1, 0, 0, 0);
        }
    }
    feed.site = 0;
    judge();
    assert_int_equal(verdict->leak_count, 64);
    assert_int_equal(verdict->leaks[0].left, 2 * ROUNDS);
    assert_true(advised("6 smaller possible leaks of pid 100 are not listed"));
    assert_false(advised("lost"));
}

/* The events that are missing may have been frees. */
GW_TEST(test_a_leak_is_doubtful_if_events_were_lost)
{
    gw_feed_open(&feed, 16 * gib);
    work(&rows[0], 300);
    lose(5, 0);
    judge();
    assert_int_equal(verdict->leak_count, 1);
    assert_true(advised("5 events of pid 100 were lost, so what looks like a leak may have been freed"));
}

GW_TEST(test_what_is_given_back_is_none)
{
    gw_feed_open(&feed, 16 * gib);
    work(NULL, 300);
    judge();
    assert_int_equal(verdict->leak_count, 0);
    assert_false(advised("leak"));
}

/* The program creates many objects at its start, or fills a cache. Then it works in rounds, and each round frees all
 * objects that it created. */
GW_TEST(test_what_lives_until_exit_by_design_is_none)
{
    gw_feed_open(&feed, 16 * gib);
    for (uint64_t i = 0; i < 2000; i++) {
        for (size_t k = 0; k < ROW_COUNT; k++) {
            if (rows[k].made != GW_EV_ALLOC && rows[k].made != GW_EV_ALLOC_ASYNC && rows[k].made != GW_EV_VMM_CREATE)
                make(&rows[k], i);
        }
    }
    work(NULL, 12000);
    judge();
    assert_int_equal(verdict->leak_count, 0);
    assert_false(advised("leak"));
}

/* The program creates objects at its start, then works for a long time without creating more. Only this time shows that
 * their number no longer grows. */
GW_TEST(test_a_start_before_much_work_is_none)
{
    gw_feed_open(&feed, 16 * gib);
    for (uint64_t i = 0; i < 300; i++)
        make(&rows[0], i);
    for (int i = 0; i < 100; i++) {
        gw_feed_wait(&feed, 100000000);
        gw_feed_launch(&feed, 0xf00, 0);
        gw_feed_sync(&feed);
    }
    judge();
    assert_int_equal(verdict->leak_count, 0);
}

/* Libraries keep a few objects of each kind, so a few objects are not a leak. */
GW_TEST(test_a_few_are_none)
{
    gw_feed_open(&feed, 16 * gib);
    work(&rows[0], 31);
    judge();
    assert_int_equal(verdict->leak_count, 0);
}

/* Each round resets the context, which frees its objects. So at any time, only the objects of one round are live. */
GW_TEST(test_contexts_that_take_all_along_are_the_end_of_it)
{
    gw_feed_open(&feed, 16 * gib);
    for (uint64_t round = 0; round < 40; round++) {
        for (uint64_t i = 0; i < 40; i++) {
            gw_feed_alloc(&feed, mib);
            gw_feed_free(&feed, gw_feed_alloc(&feed, mib));
            gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, 0x100000 + i * 64, 0, 0, 0);
        }
        gw_feed_call(&feed, "cuDevicePrimaryCtxReset_v2", GW_EV_CTX_RESET, 0, 0, 0, 0, 0);
        gw_feed_call(&feed, "cuDevicePrimaryCtxRetain", GW_EV_CTX_CREATE, 0, 0xc0de, 0, 0, GW_CONTEXT_PRIMARY);
    }
    judge();
    assert_int_equal(verdict->leak_count, 0);
}

/* Opening the same memory twice returns the same address. The program must close it twice, and does. */
GW_TEST(test_memory_opened_twice_is_closed_twice)
{
    gw_feed_open(&feed, 16 * gib);
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t address = 0x7000000 + i * mib;
        for (int k = 0; k < 4; k++)
            gw_feed_call(&feed, k < 2 ? "cuIpcOpenMemHandle_v2" : "cuIpcCloseMemHandle",
                         k < 2 ? GW_EV_IPC_OPEN : GW_EV_IPC_CLOSE, 0, address, 0, 0, 0);
    }
    assert_int_equal(gw_model_process(feed.model, GW_FEED_PID)->usage[0].class_count[GW_CLASS_IMPORT], 0);
    assert_int_equal(gw_model_process(feed.model, GW_FEED_PID)->unknown_frees, 0);
    judge();
    assert_int_equal(verdict->leak_count, 0);
}

/* A loop that allocates one block per step at one place. It frees blocks as the fields specify, and uses other memory,
 * too. */
typedef struct window {
    const char *name;
    int steps, length; /* length: free the oldest block if more blocks than this are kept; 0: never */
    int freed_of;      /* n: free the block of every n-th step immediately; 0: none */
    int cleared_every; /* n: free all kept blocks after every n-th step; 0: never */
    uint64_t left;     /* number of blocks listed as a leak; 0: no leak */
} window;

static const window windows[] = {
    {"a window of 10 in 20 steps", 20, 10, 0, 0, 0},
    {"a window of 12, full in the last eighth", 13, 12, 0, 0, 0},
    {"a window of 16 that is just full", 16, 16, 0, 0, 0},
    {"a long window", 150, 100, 0, 0, 0},
    {"a queue that is emptied now and then", 100, 0, 0, 48, 0},
    {"a leak", 20, 0, 0, 0, 20},
    {"a leak of every other block", 20, 0, 2, 0, 10},
    {"a leak of two of three blocks", 30, 0, 3, 0, 20},
};

static void take_and_give(const window *it)
{
    enum { STEPS_MAX = 150 };
    uint64_t kept[STEPS_MAX];
    int first = 0, count = 0;
    uint32_t site = gw_feed_site(&feed, "put queue.c 7");
    for (int i = 0; i < it->steps; i++) {
        gw_feed_free(&feed, gw_feed_alloc(&feed, 3 * mib));
        feed.site = site;
        uint64_t block = gw_feed_alloc(&feed, 32 * mib);
        feed.site = 0;
        gw_feed_launch(&feed, 0xf00, 0);
        gw_feed_sync(&feed);
        if (it->freed_of != 0 && i % it->freed_of == 0)
            gw_feed_free(&feed, block);
        else
            kept[count++] = block;
        if (it->length != 0 && count - first > it->length)
            gw_feed_free(&feed, kept[first++]);
        while (it->cleared_every != 0 && (i + 1) % it->cleared_every == 0 && first < count)
            gw_feed_free(&feed, kept[first++]);
    }
}

GW_TEST(test_a_window_is_no_leak)
{
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        gw_feed_open(&feed, 16 * gib);
        take_and_give(&windows[i]);
        judge();
        uint64_t left = verdict->leak_count == 0 ? 0 : verdict->leaks[0].left;
        if (verdict->leak_count > 1 || left != windows[i].left)
            fail_msg("%s: %zu leaks, %llu left", windows[i].name, verdict->leak_count, (unsigned long long)left);
    }
}

static const row *row_of(const char *kind)
{
    size_t k = 0;
    while (strcmp(rows[k].kind, kind) != 0)
        k++;
    return &rows[k];
}

/* Load layers: for each layer, stage its weights and copy them into memory mapped at reserved addresses. */
static void load_mapped(uint64_t layers)
{
    uint32_t site = gw_feed_site(&feed, "load net.c 20"), staging = gw_feed_site(&feed, "stage net.c 4");
    for (uint64_t i = 0; i < layers; i++) {
        feed.site = staging;
        uint64_t block = gw_feed_alloc(&feed, 4 * mib);
        feed.site = site;
        make(row_of("address reservation"), i);
        make(row_of("virtual memory management"), i);
        gw_feed_copy(&feed, mib);
        feed.site = 0;
        gw_feed_free(&feed, block);
    }
}

/* Map and unmap memory at the place that loads the layers, as a training step may do. */
static void map_for_a_step(uint64_t key)
{
    const row *mapped[] = {row_of("address reservation"), row_of("virtual memory management")};
    feed.site = gw_feed_site(&feed, "load net.c 20");
    for (int k = 0; k < 2; k++)
        end(mapped[k], make(mapped[k], key));
    feed.site = 0;
}

static void train(int steps, bool reserves)
{
    uint32_t site = gw_feed_site(&feed, "step net.c 40"), reserved = gw_feed_site(&feed, "view net.c 50");
    for (int i = 0; i < steps; i++) {
        feed.site = site;
        uint64_t batch = gw_feed_alloc(&feed, 8 * mib);
        feed.site = reserved;
        if (reserves)
            make(row_of("address reservation"), (uint64_t)(1000 + i));
        feed.site = 0;
        gw_feed_launch(&feed, 0xf00, 0);
        gw_feed_launch(&feed, 0xf01, 0);
        gw_feed_sync(&feed);
        gw_feed_free(&feed, batch);
        map_for_a_step((uint64_t)(5000 + i));
    }
}

GW_TEST(test_a_mapped_model_is_no_leak)
{
    gw_feed_open(&feed, 16 * gib);
    load_mapped(60);
    train(5, false);
    judge();
    assert_int_equal(verdict->leak_count, 0);
    gw_feed_open(&feed, 16 * gib);
    load_mapped(60);
    train(70, true);
    judge();
    assert_int_equal(verdict->leak_count, 1);
    assert_int_equal(verdict->leaks[0].left, 70);
    assert_string_equal(verdict->leaks[0].where->frame[verdict->leaks[0].where->user].text, "net.c:50 in view");
}

/* Load layers that have two weights each. Each weight is copied and used by one launch. */
static void load_layers(int layers)
{
    uint32_t first = gw_feed_site(&feed, "load net.c 20"), second = gw_feed_site(&feed, "load net.c 21");
    for (int i = 0; i < 2 * layers; i++) {
        feed.site = 0;
        uint64_t staging = gw_feed_alloc(&feed, 2 * mib);
        feed.site = i % 2 == 0 ? first : second;
        gw_feed_alloc(&feed, i % 2 == 0 ? 8 * mib : 4 * mib);
        gw_feed_copy(&feed, mib);
        gw_feed_launch(&feed, 0xf00 + (uint64_t)(i % 2), 0);
        gw_feed_free(&feed, staging);
    }
    feed.site = 0;
}

/* Run iterations that fill a cache of the program itself, and free nothing. */
static void warm_up(int steps)
{
    static const uint64_t sizes[] = {2, 4, 19, 2, 18, 15, 10, 20, 7, 16, 18, 12, 17, 11, 10};
    uint32_t site[3] = {gw_feed_site(&feed, "grow cache.c 7"), gw_feed_site(&feed, "grow cache.c 8"),
                        gw_feed_site(&feed, "grow cache.c 9")};
    for (int i = 0; i < 3 * steps; i++) {
        feed.site = site[i % 3];
        gw_feed_alloc(&feed, sizes[i % 15] * mib);
        for (int k = 0; k < 5 && i % 3 == 2; k++)
            gw_feed_launch(&feed, 0xf05, 0);
    }
    feed.site = 0;
}

/* The program allocates blocks and waits for the GPU after each one. They are no leak if it then works without further
 * requests for memory. */
GW_TEST(test_a_model_before_work_without_requests_is_none)
{
    for (int works = 0; works < 2; works++) {
        gw_feed_open(&feed, 16 * gib);
        for (uint64_t i = 0; i < 100; i++) {
            feed.site = gw_feed_site(&feed, "load net.c 20");
            make(row_of("address reservation"), i);
            gw_feed_alloc(&feed, 8 * mib);
            feed.site = 0;
            gw_feed_sync(&feed);
        }
        for (int i = 0; works && i < 20; i++) {
            gw_feed_launch(&feed, 0xf00, 0);
            gw_feed_sync(&feed);
        }
        judge();
        assert_int_equal(verdict->leak_count, works ? 0 : 1);
    }
}

GW_TEST(test_what_was_over_before_the_last_iterations_is_none)
{
    for (int again = 0; again < 2; again++) {
        gw_feed_open(&feed, 16 * gib);
        load_layers(60);
        warm_up(5);
        if (again)
            load_layers(60); /* the recording ends while layers are still loaded */
        judge();
        assert_int_equal(verdict->leak_count, again ? 2 : 0);
    }
}

/* ---- what was not freed, and --leaks strict ---- */

static void open_feed(bool is_strict)
{
    gw_feed_open(&feed, 16 * gib);
    if (is_strict)
        gw_feed_meta(&feed, GW_META_LEAKS, "strict");
    feed.site = gw_feed_site(&feed, "main main.c 5");
}

/* One block is too little for a leak, unless the run is strict. */
GW_TEST(test_one_block_is_a_leak_only_if_strict)
{
    for (int strict = 0; strict < 2; strict++) {
        for (int repaired = 0; repaired < 2; repaired++) {
            open_feed(strict);
            uint64_t block = gw_feed_alloc(&feed, gib);
            gw_feed_launch(&feed, 0xf00, 0);
            gw_feed_sync(&feed);
            if (repaired)
                gw_feed_free(&feed, block);
            judge();
            assert_null(verdict->unfreed.unknown_because);
            assert_int_equal(verdict->unfreed.is_strict, strict);
            assert_int_equal(verdict->unfreed.bytes, repaired ? 0 : gib);
            assert_int_equal(verdict->unfreed.place_count, repaired ? 0 : 1);
            assert_int_equal(verdict->leak_count, strict && !repaired ? 1 : 0);
            assert_int_equal(advised("leak: 1.00 GiB in 1 block of 1.00 GiB by cuMemAlloc at main.c:5 in main, never"),
                             strict && !repaired);
            assert_int_equal(advised("1.00 GiB was not freed before"), !strict && !repaired);
        }
    }
    assert_string_equal(verdict->headline, "no fault found");
}

/* What a context took along was not freed by the program. */
GW_TEST(test_the_end_of_a_context_frees_nothing)
{
    open_feed(true);
    gw_feed_alloc(&feed, 64 * mib);
    gw_feed_call(&feed, "cuDevicePrimaryCtxReset_v2", GW_EV_CTX_RESET, 0, 0, 0, 0, 0);
    judge();
    assert_int_equal(verdict->unfreed.bytes, 64 * mib);
    assert_int_equal(verdict->leak_count, 1);
}

GW_TEST(test_unfreed_is_unknown_if_events_were_lost)
{
    open_feed(true);
    gw_feed_free(&feed, gw_feed_alloc(&feed, 64 * mib));
    lose(5, 0);
    judge();
    assert_string_equal(verdict->unfreed.unknown_because, "5 events were lost because a buffer was full");
    assert_ptr_equal(verdict->unfreed.unknown_because, verdict->incomplete);
    assert_int_equal(verdict->leak_count, 0);
}

static void phase(const char *name)
{
    gw_feed_text_call(&feed, "", GW_EV_PHASE, 0, 0, 0, 0, name);
}

/* A loop whose turns are phases, and that frees everything after the last one. */
typedef struct turns {
    const char *name; /* of a turn, with its number */
    int kept_from;    /* the turns from this one on keep memory until the end */
    int kept_to;      /* up to this one */
    bool is_closed;   /* the last phase ends before the memory is freed */
    uint64_t grown;   /* 0: no growth */
} turns;

static const turns loops[] = {
    {"fold %d", 1, 3, true, 2 * 64 * mib},
    {"fold %d", 1, 3, false, 64 * mib},
    {"fold %d", 1, 1, true, 0},
    {"fold %d", 4, 4, true, 0},
    {"In [%d]", 1, 3, true, 0},
    {"fold", 2, 2, true, 64 * mib},
    {"fold %d of the run", 1, 3, true, 0},
};

GW_TEST(test_turns_that_keep_memory_grow)
{
    for (size_t i = 0; i < sizeof loops / sizeof loops[0]; i++) {
        const turns *it = &loops[i];
        uint64_t kept[3];
        int count = 0;
        open_feed(true);
        for (int turn = 1; turn <= 3; turn++) {
            char name[64];
            snprintf(name, sizeof name, "%.*s%.0d%s", (int)strcspn(it->name, "%"), it->name,
                     strchr(it->name, '%') == NULL ? 0 : turn,
                     strchr(it->name, '%') == NULL ? "" : strchr(it->name, '%') + 2);
            phase(name);
            gw_feed_free(&feed, gw_feed_alloc(&feed, gib));
            if (turn >= it->kept_from && turn <= it->kept_to)
                kept[count++] = gw_feed_alloc(&feed, 64 * mib);
        }
        if (it->is_closed)
            phase("");
        while (count > 0)
            gw_feed_free(&feed, kept[--count]);
        judge();
        assert_int_equal(verdict->unfreed.bytes, 0);
        uint64_t grown = verdict->unfreed.turns_count == 0 ? 0 : verdict->unfreed.turns[0].bytes;
        if (verdict->unfreed.turns_count > 1 || grown != it->grown)
            fail_msg("%s, %zu: grown by %llu", it->name, i, (unsigned long long)grown);
        assert_int_equal(advised("more after turn 3"), it->grown != 0);
        assert_int_equal(verdict->leak_count, 0);
    }
}

GW_TEST_MAIN(NULL, NULL)

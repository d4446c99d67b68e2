/* Test <gpuwhy/scope.hpp> on the virtual GPU, with and without exceptions. Prints what fails and exits 1. */
#include <gpuwhy/scope.hpp>

#include <cstdio>
#include <cstring>
#include <thread>
#include <type_traits>

using namespace gpuscope;

static int failed;

#define EXPECT(what)                                                                                                   \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            std::printf("%s:%d: %s\n", __FILE__, __LINE__, #what);                                                     \
            failed = 1;                                                                                                \
        }                                                                                                              \
    } while (0)

static const size_t MiB = 1 << 20;
static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry step(.param .u64 p)\n{\nret;\n}\n";

static_assert(!std::is_copy_constructible<scope>::value && !std::is_copy_assignable<scope>::value, "move-only");
static_assert(!std::is_copy_constructible<memory>::value && !std::is_copy_assignable<memory>::value, "move-only");
static_assert(!std::is_copy_constructible<ordered_memory>::value &&
                  std::is_nothrow_move_constructible<ordered_memory>::value &&
                  std::is_nothrow_move_assignable<ordered_memory>::value &&
                  std::is_nothrow_move_assignable<stream>::value,
              "move-only");
static_assert(!std::is_copy_constructible<stream>::value && !std::is_copy_constructible<event>::value, "move-only");
static_assert(std::is_nothrow_move_constructible<scope>::value && std::is_nothrow_move_assignable<scope>::value, "");
static_assert(std::is_nothrow_move_constructible<memory>::value && std::is_nothrow_move_assignable<memory>::value, "");

/* Bytes of device memory that the scope owns now. */
static uint64_t live(const scope &of)
{
    gs_memory now;
    return gs_memory_of(of.get(), &now) == GS_OK ? now.live_bytes : UINT64_MAX;
}

static gs_status early_return(const scope &in)
{
    memory block;
    memory second;
    GS_RETURN_IF_FAILED(block.alloc(in, 2 * MiB));
    GS_RETURN_IF_FAILED(second.alloc(in, (size_t)1 << 50));
    return GS_OK;
}

static void objects_release(void)
{
    scope outer;
    report end;
    EXPECT(outer.open() == GS_OK && outer);
    EXPECT(outer.open() == GS_MISUSE);
    {
        memory block;
        pinned_memory pinned;
        stream work;
        event done;
        module code;
        CUfunction step = nullptr;
        EXPECT(block.alloc(outer, 3 * MiB) == GS_OK && block.bytes() == 3 * MiB && block.as<float>() != nullptr);
        EXPECT(pinned.alloc(outer, MiB) == GS_OK && pinned.as<char>() != nullptr);
        EXPECT(work.create(outer) == GS_OK && done.create(outer, true) == GS_OK);
        EXPECT(code.load(outer, ptx) == GS_OK && code.kernel(outer, "step", &step) == GS_OK);
        CUdeviceptr address = block.get();
        EXPECT(GS_LAUNCH(step, gs_dim(1, 1, 1), gs_dim(32, 1, 1), 0, work.get(), &address) == GS_OK);
        EXPECT(done.record(work) == GS_OK && done.wait() == GS_OK && work.wait() == GS_OK);
        EXPECT(live(outer) == 3 * MiB);
        EXPECT(block.alloc(outer, 5 * MiB) == GS_OK && live(outer) == 5 * MiB); /* releases the old block */
    }
    EXPECT(live(outer) == 0);
    EXPECT(early_return(outer) == GS_NO_MEMORY && live(outer) == 0);
    gs_forgive(outer.get());
    EXPECT(outer.end(&end) == GS_OK && !outer && end && end->held_count == 0 && end->has_failure == 0);
    EXPECT(outer.end() == GS_OK);  /* nothing to end */
    EXPECT(outer.open() == GS_OK); /* may be opened again */
}

static void moves_pass_the_resource_on(void)
{
    scope first;
    EXPECT(first.open() == GS_OK);
    scope second(std::move(first));
    EXPECT(!first && second);
    memory a, b;
    EXPECT(a.alloc(second, MiB) == GS_OK && b.alloc(second, 2 * MiB) == GS_OK);
    CUdeviceptr address = a.get();
    b = std::move(a);
    EXPECT(!a && a.bytes() == 0 && b.get() == address && live(second) == MiB);
    memory c(std::move(b));
    EXPECT(!b && c.get() == address);
    EXPECT(c.close() == GS_OK && !c && c.close() == GS_OK && live(second) == 0);
    first = std::move(second);
    EXPECT(first && !second);
}

static void any_order_of_destruction(void)
{
    memory late, later;
    stream work;
    scope kept;
    report end;
    {
        scope outer, inner;
        EXPECT(outer.open() == GS_OK && inner.begin(outer) == GS_OK);
        EXPECT(late.alloc(inner, MiB) == GS_OK && later.alloc(outer, MiB) == GS_OK && work.create(inner) == GS_OK);
        EXPECT(inner.end(&end) == GS_OK && end->held_count == 2);
        EXPECT(!late && late.get() == 0 && !work && later);
        EXPECT(kept.begin(outer) == GS_OK && late.alloc(kept, MiB) == GS_OK && late);
    } /* ends the outer scope, and with it the one that is kept */
    EXPECT(!kept && !late && !later && late.close() == GS_OK && kept.end() == GS_OK);
    EXPECT(kept.begin(kept) == GS_MISUSE);
    EXPECT(late.alloc(kept, MiB) == GS_MISUSE && !late); /* not open */
}

static void ordered_memory_is_freed_in_order(void)
{
    scope outer;
    report end;
    EXPECT(outer.open() == GS_OK);
    {
        stream work, other, none;
        ordered_memory block, second;
        EXPECT(block.alloc(outer, MiB, none) == GS_MISUSE && !block);
        EXPECT(work.create(outer) == GS_OK && other.create(outer) == GS_OK);
        EXPECT(block.alloc(outer, 3 * MiB, work) == GS_OK && block.bytes() == 3 * MiB && block.as<char>() != nullptr);
        EXPECT(gs_fill(block.get(), 1, block.bytes(), work.get()) == GS_OK);
        EXPECT(live(outer) == 3 * MiB);
        EXPECT(block.alloc(outer, 5 * MiB, work) == GS_OK && live(outer) == 5 * MiB); /* frees the old block */
        CUdeviceptr address = block.get();
        second = std::move(block);
        EXPECT(!block && block.get() == 0 && block.bytes() == 0 && second.get() == address);
        EXPECT(second.free(none) == GS_MISUSE && second.get() == address);
        EXPECT(second.free(other) == GS_OK && !second && second.close() == GS_OK && live(outer) == 0);
        EXPECT(second.free(other) == GS_OK); /* nothing to free */
        EXPECT(block.alloc(outer, (size_t)1 << 50, work) == GS_NO_MEMORY && !block && block.get() == 0);
        gs_forgive(outer.get());
        stream moved(std::move(work));
        EXPECT(block.alloc(outer, MiB, moved) == GS_OK && second.alloc(outer, MiB, moved) == GS_OK && !work);
        work = std::move(moved); /* still the stream of both */
        EXPECT(block.close() == GS_OK && live(outer) == MiB);
    }
    EXPECT(live(outer) == 0);
    EXPECT(outer.end(&end) == GS_OK && end->held_count == 0 && end->has_failure == 0);
}

/* The memory outlives its stream, the stream's scope, or its own scope. */
static void ordered_memory_outlives_its_stream(void)
{
    ordered_memory late, block;
    report end;
    {
        scope outer, inner;
        stream work;
        EXPECT(outer.open() == GS_OK && inner.begin(outer) == GS_OK);
        EXPECT(work.create(outer) == GS_OK && block.alloc(outer, MiB, work) == GS_OK);
        EXPECT(gs_fill(block.get(), 1, MiB, work.get()) == GS_OK);
        EXPECT(work.close() == GS_OK && block && live(outer) == MiB);
        EXPECT(block.close() == GS_OK && live(outer) == 0);
        EXPECT(work.create(inner) == GS_OK && block.alloc(outer, MiB, work) == GS_OK);
        EXPECT(inner.end(&end) == GS_OK && end->held_count == 1 && !work && block); /* the stream was held */
        EXPECT(block.close() == GS_OK && live(outer) == 0);
        EXPECT(work.create(outer) == GS_OK && late.alloc(outer, MiB, work) == GS_OK);
        EXPECT(outer.end(&end) == GS_OK && end->has_failure == 0 && end->held_count == 2);
    }
    EXPECT(!late && late.get() == 0 && late.close() == GS_OK);
}

static void threads_enter(void)
{
    scope outer;
    memory block;
    EXPECT(outer.open() == GS_OK);
    std::thread other([&] {
        EXPECT(block.alloc(outer, MiB) == GS_MISUSE);
        entry stay;
        EXPECT(stay.enter(outer) == GS_OK && stay.enter(outer) == GS_MISUSE);
        EXPECT(block.alloc(outer, MiB) == GS_OK);
        std::thread third([&] { EXPECT(outer.end() == GS_BUSY && outer); });
        third.join();
    });
    other.join();
    EXPECT(block && live(outer) == MiB);
}

static void reports_name_the_place(void)
{
    scope outer;
    memory *block = new memory;
    report end;
    EXPECT(outer.open() == GS_OK);
    int line = __LINE__ + 1;
    EXPECT(block->alloc(outer, MiB) == GS_OK);
    EXPECT(outer.end(&end) == GS_OK && end->entry_count == 1);
    EXPECT(std::strstr(end->entries[0].file, "scope_test.cpp") != nullptr && end->entries[0].line == line);
    delete block; /* after the end of its scope */
}

#ifdef GPUSCOPE_HAS_EXCEPTIONS
static void exceptions_unwind(void)
{
    scope outer;
    EXPECT(outer.open() == GS_OK);
    try {
        memory block;
        require(block.alloc(outer, MiB), outer);
        require(block.alloc(outer, (size_t)1 << 50), outer);
        EXPECT(!"thrown");
    } catch (const error &caught) {
        EXPECT(caught.status() == GS_NO_MEMORY && std::strstr(caught.what(), "cuMemAlloc_v2: ") != nullptr);
    }
    EXPECT(live(outer) == 0);
}
#endif

int main()
{
    objects_release();
    moves_pass_the_resource_on();
    any_order_of_destruction();
    ordered_memory_is_freed_in_order();
    ordered_memory_outlives_its_stream();
    threads_enter();
    reports_name_the_place();
#ifdef GPUSCOPE_HAS_EXCEPTIONS
    exceptions_unwind();
    std::puts("with exceptions");
#else
    std::puts("without exceptions");
#endif
    return failed;
}

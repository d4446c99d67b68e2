/* Tests verdicts on kernel faults when there is a GPU core dump or a second run, in addition to the call that reported
 * the fault. */
#include "gw_unit_test.h"
#include "verdict_testlib.h"

enum { STREAM = 0x5151, GOOD = 0xf1f1, BAD = 0xf2f2, ABORT = 6 };

static const char found_late[] = "exception=14\nname=WARP_ILLEGAL_ADDRESS\nresult=700\ndevice=0\nsm=124\ncount=1\n"
                                 "pc=0x7f0000a90\nkernel=_Z8scribblePfm\nfunction=_Z8scribblePfm\noffset=144\n"
                                 "file=/home/user/train/crash.cu\nline=4\n";
static const char waiting[] = "exception=12\nname=WARP_ASSERT\nresult=710\ndevice=0\nsm=3\ncount=7\nblock=1,2,0\n"
                              "thread=5,0,0\ngrid_dim=4,4,1\nblock_dim=32,1,1\npc=0x7f0000a90\nkernel=_Z8scribblePfm\n"
                              "function=_Z8scribblePfm\noffset=320\n";
static const char file_read[] = "path=/tmp/run.100.cudacore\nbytes=4096\nkept=1\nfaults=1\nbeyond=0\nskip_abort=0\n";

/* Open a program that launched two kernels since the last good synchronisation. */
static void open_program(void)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_text_call(&feed, "cuModuleGetFunction", GW_EV_FUNCTION, GOOD, 0x77, GW_OWNER_MODULE, 0, "_Z4finePf");
    gw_feed_text_call(&feed, "cuModuleGetFunction", GW_EV_FUNCTION, BAD, 0x77, GW_OWNER_MODULE, 0, "_Z8scribblePfm");
    gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, STREAM, 0, 0, 0);
    for (int i = 0; i < 3; i++)
        gw_feed_launch(&feed, GOOD, STREAM);
    gw_feed_sync(&feed);
    gw_feed_launch(&feed, BAD, STREAM);
    gw_feed_launch(&feed, GOOD, STREAM);
    gw_feed_launch(&feed, GOOD, STREAM);
    gw_feed_wait(&feed, 20000000);
}

static bool says(const char *part)
{
    return why_has(verdict, part) || list_has(&verdict->next, part);
}

static bool has_alternative(const char *cause)
{
    return certainty_of_alternative(verdict, cause) != GW_CERTAINTY_NONE;
}

/* ---- streams ---- */

/* Run the faulty kernel on `bad_stream`, then launch other work on STREAM and wait for STREAM. If `joined`, STREAM
 * first waits for `bad_stream`. */
static void fault_beside(uint64_t bad_stream, bool joined)
{
    enum { OTHER = 0x6161, EVENT = 0xe0, NON_BLOCKING = 1 };
    gw_feed_open(&feed, 16 * gib);
    gw_feed_text_call(&feed, "cuModuleGetFunction", GW_EV_FUNCTION, GOOD, 0x77, GW_OWNER_MODULE, 0, "_Z4finePf");
    gw_feed_text_call(&feed, "cuModuleGetFunction", GW_EV_FUNCTION, BAD, 0x77, GW_OWNER_MODULE, 0, "_Z8scribblePfm");
    gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, STREAM, NON_BLOCKING, 0, 0);
    gw_feed_call(&feed, "cuStreamCreate", GW_EV_STREAM_CREATE, 0, OTHER, NON_BLOCKING, 0, 0);
    gw_feed_launch(&feed, BAD, bad_stream);
    if (joined) {
        gw_feed_hot(&feed, "cuEventRecord", GW_COUNT_EVENT_RECORD, EVENT, bad_stream);
        gw_feed_hot(&feed, "cuStreamWaitEvent", GW_COUNT_STREAM_WAIT, EVENT, STREAM);
    }
    gw_feed_launch(&feed, GOOD, STREAM);
    gw_feed_hot(&feed, "cuStreamSynchronize", GW_COUNT_SYNC, STREAM, 0);
    gw_feed_launch(&feed, GOOD, OTHER);
    lose_context(700);
    expect_cause("illegal-address", GW_ESTABLISHED);
}

GW_TEST(test_a_launch_before_a_wait_for_another_stream)
{
    fault_beside(0x6161, false);
    assert_true(says("scribble launched on stream 0x6161"));
    assert_true(says("not of all streams: 2 launches may still have been running, 1 of them from before it"));
    fault_beside(0x6161, true); /* the awaited stream had waited for the bad stream */
    assert_false(says("scribble launched"));
    assert_true(says("(1 launch)"));
    fault_beside(STREAM, false); /* the awaited stream is the bad stream */
    assert_false(says("scribble launched"));
    assert_true(says("(1 launch)"));
}

/* ---- dumps ---- */

/* The driver ended the process after writing a dump, so no call could report the error. The SIGABRT must not count as a
 * crash of the host. */
GW_TEST(test_dump_and_abort)
{
    open_program();
    gw_feed_inside(&feed, "cuCtxSynchronize");
    gw_feed_fact(&feed, "gpucore.file", file_read);
    gw_feed_fact(&feed, "gpucore.fault", found_late);
    gw_feed_exit(&feed, -1, ABORT);
    expect_cause("illegal-address", GW_ESTABLISHED);
    assert_non_null(strstr(verdict->headline, "kernel scribble accessed an illegal address at crash.cu:4"));
    assert_true(says("WARP_ILLEGAL_ADDRESS in kernel scribble, 0x90 bytes after its start"));
    assert_true(says("block unknown"));
    assert_true(says("launched once since the last good synchronisation: this launch is at fault"));
    assert_true(says("was inside cuCtxSynchronize"));
    assert_true(says("/tmp/run.100.cudacore"));
    assert_true(says("Check kernel scribble, /home/user/train/crash.cu:4"));
    assert_true(list_has(&verdict->ruled_out, "the 2 other launches"));
    assert_false(has_alternative("host-crash-of-process"));
    assert_int_equal(verdict->signal, ABORT);
}

GW_TEST(test_dump_of_an_assertion)
{
    open_program();
    gw_feed_fact(&feed, "gpucore.file", file_read);
    gw_feed_fact(&feed, "gpucore.fault", waiting);
    gw_feed_exit(&feed, -1, ABORT);
    expect_cause("device-assert-index",
                 GW_ESTABLISHED); /* only the dump proves the assertion: the program printed no text */
    assert_true(says("block (1,2,0), thread (5,0,0) of a grid of (4,4,1) blocks of (32,1,1) threads; 7 threads"));
    assert_true(says("its code has no line information"));
}

/* With skip_abort, the driver does not end the process, and a call also reports the fault. */
GW_TEST(test_dump_beside_a_call)
{
    open_program();
    gw_feed_call(&feed, "cuCtxSynchronize", GW_EV_SYNC, 700, 0, 0, 0, 0);
    gw_feed_fact(&feed, "gpucore.file", "path=/tmp/x\nbytes=1\nkept=1\nfaults=1\nskip_abort=1\n");
    gw_feed_fact(&feed, "gpucore.fault", found_late);
    expect_failure("illegal-address", GW_ESTABLISHED);
    assert_true(says("cuCtxSynchronize returned 700"));
    assert_true(says("do not trust"));
    assert_non_null(strstr(verdict->headline, "kernel scribble"));
}

/* A dump with another exception does not name the kernel of the reported fault. */
GW_TEST(test_dump_of_another_exception)
{
    open_program();
    gw_feed_call(&feed, "cuCtxSynchronize", GW_EV_SYNC, 716, 0, 0, 0, 0);
    gw_feed_fact(&feed, "gpucore.file", file_read);
    gw_feed_fact(&feed, "gpucore.fault", found_late);
    expect_failure("misaligned-access", GW_ESTABLISHED);
    assert_non_null(strstr(verdict->headline, "a kernel made"));
    assert_true(says("the dump shows another exception (700"));
}

GW_TEST(test_dump_that_cannot_be_read)
{
    open_program();
    gw_feed_fact(&feed, "gpucore.file", "path=/tmp/x\nbytes=77\nkept=1\nrefused=/tmp/x: not an ELF file\n");
    gw_feed_exit(&feed, -1, ABORT);
    expect_cause("kernel-fault-other", GW_SUPPORTED); /* a dump proves a fault, but not its kind */
    assert_true(says("could not be read: /tmp/x: not an ELF file"));
}

/* The program aborts by itself. Dumps are enabled, but the driver wrote none. */
GW_TEST(test_abort_without_dump)
{
    open_program();
    gw_feed_sync(&feed);
    gw_feed_meta(&feed, "option.core", "1");
    gw_feed_exit(&feed, -1, ABORT);
    expect_cause("host-crash-of-process", GW_ESTABLISHED);
}

/* The user requested a dump. It contains no exception, and the program continued. */
GW_TEST(test_dump_without_exception)
{
    open_program();
    gw_feed_sync(&feed);
    gw_feed_fact(&feed, "gpucore.file", "path=/tmp/x\nbytes=77\nkept=1\nfaults=0\n");
    gw_feed_exit(&feed, 0, 0);
    judge_open();
    assert_null(verdict->cause);
    assert_int_equal(verdict->status, GW_VERDICT_CLEAN);
}

/* No content of a recording may cause an invalid read. */
GW_TEST(test_hostile_facts)
{
    static const char *const values[] = {
        "",
        "exception",
        "exception=",
        "exception=14",
        "exception=-1\nresult=700",
        "exception=99999999999999999999\nresult=700",
        "exception=14\nresult=70000",
        "exception=4294967295\nresult=700\ndevice=4000000000\nsm=x\nblock=1,2\nthread=,,\ngrid_dim=0,0,0\nline=9e9",
        "exception=14\nresult=700\nkernel=\nfunction=\nfile=\n\n\n=\n=x\nname",
        "end=in-launch",
        "end=in-launch\nresult=99999\nstream=z\ntid=-1\nt_ns=1e99"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        open_program();
        gw_feed_fact(&feed, "gpucore.fault", values[i]);
        gw_feed_fact(&feed, "gpucore.file", values[i]);
        gw_feed_fact(&feed, "blame", values[i]);
        gw_feed_call(&feed, "cuCtxSynchronize", GW_EV_SYNC, 700, 0, 0, 0, 0);
        gw_feed_exit(&feed, -1, ABORT);
        expect_cause("illegal-address", GW_ESTABLISHED);
    }
}

/* The program did not check a failed allocation, and the kernel used its NULL pointer. The verdict is about the
 * allocation, with or without a dump. */
GW_TEST(test_dump_after_an_unchecked_allocation)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_text_call(&feed, "cuModuleGetFunction", GW_EV_FUNCTION, BAD, 0x77, GW_OWNER_MODULE, 0, "_Z8scribblePfm");
    gw_feed_alloc(&feed, 12 * gib);
    gw_feed_no_room(&feed, 8 * gib, 3 * gib, 16 * gib);
    gw_feed_launch(&feed, BAD, STREAM);
    gw_feed_wait(&feed, 20000000);
    gw_feed_fact(&feed, "gpucore.file", file_read);
    gw_feed_fact(&feed, "gpucore.fault", found_late);
    gw_feed_exit(&feed, -1, ABORT);
    expect_cause("gpu-oom-capacity", GW_ESTABLISHED);
    assert_int_equal(verdict->alternative_count, 0);
}

/* ---- CUDA_LAUNCH_BLOCKING ---- */

GW_TEST(test_own_report)
{
    open_program();
    gw_feed_meta(&feed, "env.CUDA_LAUNCH_BLOCKING", "1");
    gw_feed_call(&feed, "cuLaunchKernel", GW_EV_LAUNCH, 700, BAD, 1, 1, STREAM);
    expect_failure("illegal-address", GW_ESTABLISHED);
    assert_non_null(
        strstr(verdict->headline, "kernel scribble accessed an illegal address; its own launch reported it"));
    assert_true(says("after 6 launches of thread"));
    assert_false(says("--blame"));
}

/* Without CUDA_LAUNCH_BLOCKING, a launch may report the fault of another kernel. */
GW_TEST(test_launch_that_reports_another)
{
    open_program();
    gw_feed_call(&feed, "cuLaunchKernel", GW_EV_LAUNCH, 700, GOOD, 1, 1, STREAM);
    expect_failure("illegal-address", GW_ESTABLISHED);
    assert_non_null(strstr(verdict->headline, "a kernel accessed"));
    assert_null(strstr(verdict->headline, "innocent"));
    assert_true(says("--core"));
    assert_true(says("--blame"));
}

/* ---- the second run ---- */

static void fail_and_blame(const char *blame)
{
    open_program();
    gw_feed_call(&feed, "cuMemAlloc_v2", GW_EV_ALLOC, 700, 0, mib, 0, 0);
    gw_feed_exit(&feed, 1, 0);
    gw_feed_fact(&feed, "blame", blame);
    expect_cause("illegal-address", GW_ESTABLISHED);
}

GW_TEST(test_blame_in_launch)
{
    fail_and_blame("end=in-launch\nrecording=/tmp/b.gpuwhy\nended=exit status 1\nresult=700\ncall=cuLaunchKernel\n"
                   "kernel=_Z8scribblePfm\nstream=0x5151\ntid=4242\nthread=python\norder=312\nt_ns=1500000000\n"
                   "frame=File \"train.py\", line 12, in step\n");
    assert_non_null(strstr(verdict->headline, "kernel scribble accessed"));
    assert_true(says("cuLaunchKernel of scribble on stream 0x5151 returned 700"));
    assert_true(says("after 312 launches of thread 4242 (python)"));
    assert_true(says("train.py\", line 12"));
    assert_true(says("/tmp/b.gpuwhy"));
}

/* The verdict's place is the launch that the second run found, not the call that reported the fault. If the stack of
 * the second run is invalid, the verdict has no place. */
GW_TEST(test_blame_place)
{
    fail_and_blame("end=in-launch\nresult=700\ncall=cuLaunchKernel\nkernel=_Z8scribblePfm\nuser=1\n"
                   "stack.0=native\truntime\t0\t0x5a\tffi_call\t\t/usr/lib/libffi.so.8\tffi_call (libffi.so.8)\n"
                   "stack.1=python\town\t12\t0x0\tstep\t/x/train.py\t\ttrain.py:12 in step\n"
                   "stack.2=inlined\n"
                   "note.0=cut\nwhere_reason=no line\n");
    assert_non_null(verdict->where);
    assert_non_null(strstr(verdict->where->what, "the launch at fault"));
    assert_int_equal(verdict->where->frame_count, 3);
    assert_int_equal(verdict->where->user, 1);
    assert_string_equal(verdict->where->frame[0].module, "/usr/lib/libffi.so.8");
    assert_int_equal(verdict->where->frame[0].address, 0x5a);
    assert_string_equal(verdict->where->frame[1].text, "train.py:12 in step");
    assert_string_equal(verdict->where->frame[1].whose, "own");
    assert_int_equal(verdict->where->frame[1].line, 12);
    assert_true(verdict->where->frame[1].python);
    assert_null(verdict->where->frame[1].module);
    assert_true(verdict->where->frame[2].inlined);
    assert_null(verdict->where->frame[2].function);
    assert_int_equal(verdict->where->notes.count, 1);
    assert_string_equal(verdict->where_reason, "no line");
    static const char *const without[] = {
        "end=in-launch\nresult=700\nuser=0\n", /* no frame */
        "end=in-launch\nresult=700\nuser=7\nstack.0=python\town\t1\t0\tf\tg\t\th\n",
        "end=in-launch\nresult=716\nuser=0\nstack.0=python\town\t1\t0\tf\tg\t\th\n", /* another fault */
        "end=elsewhere\nresult=700\nuser=0\nstack.0=python\town\t1\t0\tf\tg\t\th\n",
        "end=in-launch\nresult=700\nuser=0\nstack.0=\n"};
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++) {
        fail_and_blame(without[i]);
        assert_null(verdict->where); /* the call that reported the fault has no site, either */
    }
}

GW_TEST(test_blame_without_fault)
{
    fail_and_blame("end=no-fault\nrecording=/tmp/b.gpuwhy\nended=exit status 0\n");
    assert_non_null(strstr(verdict->headline, "a kernel accessed"));
    assert_true(says("did not occur again (exit status 0)"));
    assert_true(says("hypothesis"));
}

GW_TEST(test_blame_with_another_result)
{
    fail_and_blame("end=in-launch\nended=exit status 1\nresult=716\ncall=cuLaunchKernel\nkernel=_Z4finePf\n");
    assert_non_null(strstr(verdict->headline, "a kernel accessed")); /* another fault: no kernel is named */
    assert_true(says("two faults"));
}

GW_TEST(test_blame_elsewhere)
{
    fail_and_blame("end=elsewhere\nended=exit status 1\nresult=700\ncall=cuCtxSynchronize\nkernel=_Z4finePf\n");
    assert_true(says("no launch reported an error itself"));
    assert_true(says("of fine on the default stream, is probably at fault"));
    assert_non_null(strstr(verdict->headline, "a kernel accessed")); /* only a proved kernel is in the headline */
}

/* ---- a window with missing calls ---- */

GW_TEST(test_window_before_the_ring)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_text_call(&feed, "cuModuleGetFunction", GW_EV_FUNCTION, GOOD, 0x77, GW_OWNER_MODULE, 0, "_Z4finePf");
    gw_feed_launch(&feed, GOOD, STREAM);
    gw_feed_sync(&feed);
    for (int i = 0; i < GW_RING_ENTRIES + 500; i++)
        gw_feed_launch(&feed, GOOD, STREAM);
    lose_context(700);
    expect_cause("illegal-address", GW_ESTABLISHED);
    assert_true(says("the recording does not contain the first 500 calls that thread"));
    assert_true(says("last launch: fine on") && says("one of 2048 launches"));
}

/* Error 717 means that an address was computed wrongly. It is neither a trap nor an assertion, unlike 718. */
GW_TEST(test_wrong_address_space)
{
    open_program();
    lose_context(717);
    expect_cause("illegal-address", GW_ESTABLISHED);
    assert_true(says("CUDA_ERROR_INVALID_ADDRESS_SPACE"));
    assert_true(says("the address was computed wrongly"));
    assert_true(says("compute-sanitizer --tool memcheck"));
    assert_false(says("trap and assert"));
    open_program();
    lose_context(718);
    expect_cause("kernel-fault-other", GW_ESTABLISHED);
}

GW_TEST(test_nothing_was_waited_for)
{
    gw_feed_open(&feed, 16 * gib);
    gw_feed_text_call(&feed, "cuModuleGetFunction", GW_EV_FUNCTION, GOOD, 0x77, GW_OWNER_MODULE, 0, "_Z4finePf");
    gw_feed_launch(&feed, GOOD, STREAM);
    lose_context(700);
    expect_cause("illegal-address", GW_ESTABLISHED);
    assert_true(says("no synchronisation had succeeded so far"));
}

GW_TEST_MAIN(NULL, NULL)

/* Fuzz the memory snapshots and Flight Recorder dumps that PyTorch saves, as pickle and as JSON, and dumps of py-spy,
 * as text and as JSON: read one, build the model and judge it. */
#include "gw_torch.h"
#include "gw_verdict.h"
#include "inputs.h"
#include "seeds.h"

static void write_seed(const char *folder, const char *name, const char *seed, size_t bytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        return;
    if (fwrite(seed, 1, bytes, file) != bytes || fclose(file) != 0)
        abort();
    gw_model *model;
    gw_error err;
    if (gw_torch_snapshot_model(path, &model, &err) != GW_OK) {
        fprintf(stderr, "the seed is refused: %s\n", err.text);
        abort();
    }
    gw_model_free(model);
}

static void write_json_seeds(const char *folder)
{
    static const char flight[] =
        "{\"entries\":[{\"collective_seq_id\":2,\"input_dtypes\":[\"Float\"],\"input_sizes\":[[3,4]],\"is_p2p\":false,"
        "\"output_sizes\":[[3,4]],\"pg_id\":0,\"process_group\":[\"0\",\"d\"],\"profiling_name\":\"nccl:all_reduce\","
        "\"state\":\"scheduled\",\"time_created_ns\":7}],\"pg_config\":{\"0\":{\"desc\":\"d\",\"name\":\"0\",\"ranks\":"
        "\"[0, 1]\"}},\"pg_status\":{\"0\":{\"last_enqueued_collective\":\"3\"}},\"version\":\"2.10\"}";
    static const char stacks[] =
        "[{\"pid\":47,\"thread_id\":9,\"thread_name\":\"MainThread\",\"os_thread_id\":47,\"active\":false,\"frames\":"
        "[{\"name\":\"read\",\"filename\":\"/a.py\",\"line\":4,\"locals\":[{\"name\":\"i\",\"repr\":\"0\"}]}]}]";
    write_seed(folder, "flight_1.json", flight, sizeof flight - 1);
    write_seed(folder, "rank1.json", stacks, sizeof stacks - 1);
}

/* Write a snapshot with one segment, one block, and one trace entry with a stack, and a dump with two calls. */
static void write_seeds(const char *folder)
{
    static const char snapshot[] =
        "\x80\x02}(X\x08\0\0\0segments](}(X\x0a\0\0\0total_sizeM\0\x02X\x06\0\0\0blocks]}("
        "X\x04\0\0\0sizeM\0\x02X\x05\0\0\0stateX\x10\0\0\0active_allocatedX\x06\0\0\0frames]q\0}("
        "X\x08\0\0\0filenameX\x01\0\0\0fX\x04\0\0\0nameX\x01\0\0\0nX\x04\0\0\0lineK\x05uaua"
        "ueX\x0d\0\0\0device_traces]](}(X\x06\0\0\0actionX\x05\0\0\0allocX\x04\0\0\0addrK\x00"
        "X\x04\0\0\0sizeM\0\x02X\x06\0\0\0framesh\0X\x07\0\0\0time_usK\x07ueau.";
    static const char flight[] =
        "\200\002}q\000(X\007\000\000\000versionq\001X\004\000\000\0002.10q\002X\011\000\000\000pg_config"
        "q\003}q\004X\001\000\000\0000q\005}q\006(X\004\000\000\000nameq\007h\005X\004\000\000\000descq\010"
        "X\001\000\000\000dq\011X\005\000\000\000ranksq\012X\006\000\000\000[0, 1]q\013usX\011\000\000\000"
        "pg_statusq\014}q\015h\005}q\016X\030\000\000\000last_enqueued_collectiveq\017K\003ssX\007\000\000"
        "\000entriesq\020]q\021(}q\022(X\006\000\000\000framesq\023]q\024}q\025(h\007X\001\000\000\000fq\026"
        "X\010\000\000\000filenameq\027X\004\000\000\000t.pyq\030X\004\000\000\000lineq\031K\005uaX\005\000"
        "\000\000pg_idq\032K\000X\015\000\000\000process_groupq\033h\005h\011\206q\034X\021\000\000\000co"
        "llective_seq_idq\035K\002X\016\000\000\000profiling_nameq\036X\017\000\000\000nccl:all_reduceq\037"
        "X\017\000\000\000time_created_nsq K\007X\013\000\000\000input_sizesq!]q\"]q#(K\003K\004eaX\014\000"
        "\000\000input_dtypesq$]q%X\005\000\000\000Floatq&aX\014\000\000\000output_sizesq']q(]q)(K\003K\004"
        "eaX\005\000\000\000stateq*X\011\000\000\000scheduledq+X\006\000\000\000is_p2pq,\211u}q-(h\032K\000"
        "h\033h\034h\035K\003h\036X\016\000\000\000nccl:broadcastq.h*X\011\000\000\000completedq/h,\211ue"
        "u.";
    write_seed(folder, "snapshot.pickle", snapshot, sizeof snapshot - 1);
    write_seed(folder, "flight_0", flight, sizeof flight - 1);
    write_json_seeds(folder);
    static const char text[] =
        "Process 47: python a.py\nPython v3.11.7 (/usr/bin/python3)\n\nThread 47 (idle): \"MainThread\"\n"
        "    clock_nanosleep (libc.so.6)\n    read (a.py:4)\n        Arguments:\n            path: \"x\"\n"
        "Thread 0x7F1 (active+gil)\n    Condition.wait (threading.py:327)\n";
    write_seed(folder, "rank0.txt", text, sizeof text - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    int fd = fuzz_file(data, bytes);
    char path[64];
    gw_error err = {""};
    gw_model *model;
    gw_verdict *verdict;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    gw_status st = gw_torch_snapshot_model(path, &model, &err);
    if (st != GW_OK) {
        if (strncmp(err.text, path, strlen(path)) != 0 || strchr(err.text, '\n') != NULL)
            abort(); /* an error must be one line that begins with the file's name */
        return 0;
    }
    if (gw_judge(model, &verdict, &err) == GW_OK) {
        if (verdict->certainty == GW_ESTABLISHED)
            abort();
        gw_verdict_free(verdict);
    }
    gw_model_free(model);
    return 0;
}

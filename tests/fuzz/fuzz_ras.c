/* Fuzz answers of NCCL's RAS, text and JSON. */
#include "gw_ras.h"
#include "seeds.h"

static void write_seeds(const char *folder)
{
    static const char *const seeds[] = {
        "NCCL version 2.28.9 compiled with CUDA 13.0\n\nJob summary\n===========\n\n"
        "    0         1         1         4         4         4   RUNNING  MISMATCH\n\n"
        "#0-0 (27a079b828ff1a75) INCOMPLETE\n  Missing communicator data from 1 rank\n"
        "  Rank 3 -- GPU 3 managed by process 14 on node 10.0.0.1\n\n"
        "#0-0 (27a079b828ff1a75) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n"
        "  2 ranks have launched up to operation 51\n"
        "  Rank 1 has not launched any operations -- GPU 1 managed by process 12 on node 10.0.0.1\n",
        "{\"nccl_version\": \"2.28.9\", \"communicators\": [{\"hash\": \"0x1f\", \"size\": 2, \"ranks\": [{\"rank\": "
        "0, "
        "\"host\": \"h\", \"pid\": 7, \"collective_counts\": {\"AllReduce\": 5}}], \"missing_ranks\": [{\"rank\": 1, "
        "\"pid\": 8, \"status\": {\"unresponsive\": true, \"considered_dead\": false}}]}], \"ras\": "
        "{\"timeouts_count\": 1}}"};
    write_texts(folder, seeds, sizeof seeds / sizeof seeds[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    gw_ras ras;
    gw_error err = {""};
    gw_status st = gw_ras_read("answer", (const char *)data, bytes, &ras, &err);
    if (st != GW_OK) {
        if (strncmp(err.text, "answer: ", 8) != 0 || strchr(err.text, '\n') != NULL)
            abort(); /* an error must be one line that begins with the name */
        return 0;
    }
    for (size_t i = 0; i < ras.comm_count; i++)
        for (size_t k = 1; k < ras.comm[i].rank_count; k++)
            if (ras.comm[i].rank[k].rank <= ras.comm[i].rank[k - 1].rank)
                abort();
    if (!gw_ras_same(&ras, &ras))
        abort();
    gw_ras_free(&ras);
    return 0;
}

/* Fuzz the memory snapshots that PyTorch saves: read a snapshot, build the model and judge it. */
#include "gw_torch.h"
#include "gw_verdict.h"
#include "inputs.h"
#include "seeds.h"

/* Write a seed with one segment, one block, and one trace entry with a stack. */
static void write_seeds(const char *folder)
{
    static const char seed[] =
        "\x80\x02}(X\x08\0\0\0segments](}(X\x0a\0\0\0total_sizeM\0\x02X\x06\0\0\0blocks]}("
        "X\x04\0\0\0sizeM\0\x02X\x05\0\0\0stateX\x10\0\0\0active_allocatedX\x06\0\0\0frames]q\0}("
        "X\x08\0\0\0filenameX\x01\0\0\0fX\x04\0\0\0nameX\x01\0\0\0nX\x04\0\0\0lineK\x05uaua"
        "ueX\x0d\0\0\0device_traces]](}(X\x06\0\0\0actionX\x05\0\0\0allocX\x04\0\0\0addrK\x00"
        "X\x04\0\0\0sizeM\0\x02X\x06\0\0\0framesh\0X\x07\0\0\0time_usK\x07ueau.";
    char path[4096];
    snprintf(path, sizeof path, "%s/snapshot.pickle", folder);
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        return;
    if (fwrite(seed, 1, sizeof seed - 1, file) != sizeof seed - 1 || fclose(file) != 0)
        abort();
    gw_model *model;
    gw_error err;
    if (gw_torch_snapshot_model(path, &model, &err) != GW_OK) {
        fprintf(stderr, "the seed is refused: %s\n", err.text);
        abort();
    }
    gw_model_free(model);
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

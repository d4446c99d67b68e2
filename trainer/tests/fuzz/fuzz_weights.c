/* Fuzz the files with weights that the trainer (trainer/) reads. */
#include "seeds.h"
#include "weights.h"

#include <string.h>

/* A model for files with weights. Its layers are called as those of the seed. */
static struct model weights_model(void)
{
    static struct layer layers[] = {
        {.kind = LAYER_INPUT, .out = {1, 1, 1}},
        {.kind = LAYER_BATCHNORM, .out = {1, 1, 1}, .title = "n", .weight_count = 1, .bias_at = 64, .bias_count = 1},
        {.kind = LAYER_LINEAR, .in = {1, 1, 1}, .out = {2, 1, 1}, .title = "fc", .weight_at = 128, .weight_count = 2}};
    return (struct model){.name = "m", .layers = layers, .layer_count = sizeof layers / sizeof *layers};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct bytes file = {(uint8_t *)data, bytes};
    struct model fixed = weights_model();
    float parameters[192], statistics[64];
    struct reason reason = {0};
    if (!weights_parse("w", &file, &fixed, bytes % 2 == 0 ? NULL : "fc", parameters, statistics, &reason) &&
        reason.text[0] == '\0')
        abort();
    return 0;
}

/* ---- seeds ---- */

/* A file that weights_model() accepts, with all types that can be read, and with an escape. */
static void write_seeds(const char *folder)
{
    static const char head[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                               "\"n.weight\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                               "\"\\u006e.bias\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[4,6]},"
                               "\"n.running_mean\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[6,8]},"
                               "\"n.running_var\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]},"
                               "\"fc.weight\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[12,20]},"
                               "\"n.num_batches_tracked\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[20,28]}} ";
    uint8_t file[8 + sizeof head - 1 + 28] = {(uint8_t)(sizeof head - 1), (uint8_t)((sizeof head - 1) >> 8)};
    memcpy(file + 8, head, sizeof head - 1);
    struct bytes bytes = {file, sizeof file};
    struct model fixed = weights_model();
    float parameters[192], statistics[64];
    struct reason reason;
    if (!weights_parse("seed", &bytes, &fixed, NULL, parameters, statistics, &reason))
        abort();
    FILE *out = open_seed(folder, 0);
    if (out == NULL)
        return;
    fwrite(file, 1, sizeof file, out);
    fclose(out);
}

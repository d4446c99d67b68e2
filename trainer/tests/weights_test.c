/* Test files with weights: valid and damaged safetensors files, and their tensors in a model. */
#include "safetensors.h"
#include "weights.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct reason reason;
static uint8_t file_data[4096];
static struct bytes file;

/* Make a file of a head and `bytes` bytes of data with the values 0, 1, 2, ... */
static void make_file(const char *head, size_t bytes)
{
    size_t head_bytes = strlen(head);
    assert_true(8 + head_bytes + bytes <= sizeof file_data);
    memset(file_data, 0, 8);
    file_data[0] = (uint8_t)head_bytes;
    file_data[1] = (uint8_t)(head_bytes >> 8);
    memcpy(file_data + 8, head, head_bytes);
    for (size_t i = 0; i < bytes; i++)
        file_data[8 + head_bytes + i] = (uint8_t)i;
    file = (struct bytes){file_data, 8 + head_bytes + bytes};
    reason = (struct reason){0};
}

static void expect_reason(const char *why)
{
    if (strstr(reason.text, why) == NULL)
        fail_msg("expected '%s', but the reason is '%s'", why, reason.text);
}

static void refused(const char *head, size_t bytes, const char *why)
{
    struct safetensors is = {0};
    make_file(head, bytes);
    assert_false(safetensors_parse("f", &file, &is, &reason));
    assert_null(is.tensors);
    expect_reason(why);
}

static void accepts(const char *head, size_t bytes, size_t count)
{
    struct safetensors is = {0};
    make_file(head, bytes);
    if (!safetensors_parse("f", &file, &is, &reason))
        fail_msg("%s: %s", head, reason.text);
    assert_int_equal(is.count, count);
    safetensors_clear(&is);
}

#define A(shape, first, last) "{\"dtype\":\"F32\",\"shape\":[" shape "],\"data_offsets\":[" #first "," #last "]}"

static void reads_tensors(void **state)
{
    (void)state;
    struct safetensors is;
    make_file(" { \"b\" : { \"data_offsets\" : [ 24 , 26 ] , \"dtype\" : \"BF16\" , \"shape\" : [ ] } ,\n"
              "\"__metadata__\":{\"format\":\"pt\",\"x\":\"\\n\\u0041\"},\"\\u00e9\\\"\":" A("2,3", 0, 24) "}  ",
              26);
    assert_true(safetensors_parse("f", &file, &is, &reason));
    assert_int_equal(is.count, 2);
    assert_string_equal(is.tensors[0].name, "\xC3\xA9\"");
    assert_int_equal(is.tensors[0].dim_count, 2);
    assert_int_equal(tensor_count(&is.tensors[0]), 6);
    assert_int_equal(is.tensors[0].data[23], 23);
    const struct tensor *b = safetensors_find(&is, "b");
    assert_non_null(b);
    assert_int_equal(tensor_count(b), 1);
    assert_int_equal(b->data[0], 24);
    assert_null(safetensors_find(&is, "c"));
    safetensors_clear(&is);
}

static void accepts_unusual_files(void **state)
{
    (void)state;
    accepts("{}", 0, 0);
    accepts("{\"__metadata__\":{}}", 0, 0);
    accepts("{\"a\":" A("0", 0, 0) "}", 0, 1);
    accepts("{\"a\":" A("1", 0, 4) ",\"b\":" A("7,0", 4, 4) "}", 4, 2);
    accepts("{\"a\":" A("7,0", 0, 0) ",\"b\":" A("1", 0, 4) "}", 4, 2);
    accepts("{\"\\ud83d\\ude00\":" A("1", 0, 4) "}", 4, 1);
    accepts("{\"a\":{\"dtype\":\"F4\",\"shape\":[2,3],\"data_offsets\":[0,3]}}", 3, 1);
}

static void refuses_damaged_fronts(void **state)
{
    (void)state;
    struct safetensors is = {0};
    make_file("{}", 0);
    file.count = 7;
    assert_false(safetensors_parse("f", &file, &is, &reason));
    expect_reason("f: 7 bytes, but the size of the head alone has 8");
    file.count = 9;
    assert_false(safetensors_parse("f", &file, &is, &reason));
    expect_reason("f: byte 0: a head of 2 bytes in a file of 9");
    file_data[7] = 0xFF;
    assert_false(safetensors_parse("f", &file, &is, &reason));
    expect_reason("at most 100000000 are allowed");
}

static void refuses_damaged_json(void **state)
{
    (void)state;
    refused("", 0, "f: byte 8: expected '{'");
    refused("{", 0, "f: byte 9: expected '\"'");
    refused("{}{", 0, "f: byte 10: something follows the JSON object");
    refused("{\"a\":" A("1", 0, 4), 4, "expected '}'");
    refused("{\"a\":" A("1", 0, 4) ",}", 4, "expected '\"'");
    refused("{\"a", 0, "f: byte 11: the head ends inside a string");
    refused("{\"a\\", 0, "an unknown escape sequence");
    refused("{\"a\\x\"", 0, "f: byte 12: an unknown escape sequence");
    refused("{\"a\\u12", 0, "four hexadecimal digits");
    refused("{\"a\\u0000\":1}", 0, "a zero character");
    refused("{\"\\ud83d\":1}", 0, "half of a surrogate pair");
    refused("{\"\\ud83d\\u0041\":1}", 0, "half of a surrogate pair");
    refused("{\"\\ude00\":1}", 0, "half of a surrogate pair");
    refused("{\"a\nb\":1}", 0, "f: byte 11: a control character in a string");
    refused("{\"a\\u001b\":1}", 0, "a control character in the name");
    refused("{\"__metadata__\":{\"a\":1}}", 0, "expected '\"'");
    refused("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "\"__metadata__\" is given twice");
}

static void refuses_damaged_tensors(void **state)
{
    (void)state;
    refused("{\"a\":{}}", 0, "f: tensor \"a\": dtype, shape or data_offsets is missing");
    refused("{\"a\":{\"x\":1}}", 0, "f: tensor \"a\": unknown key \"x\"");
    refused("{\"a\":{\"dtype\":\"F33\"}}", 0, "f: tensor \"a\": unknown type \"F33\"");
    refused("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 0, "f: tensor \"a\": \"dtype\" is given twice");
    refused("{\"a\":" A("-1", 0, 4) "}", 4, "expected a number");
    refused("{\"a\":" A("1.0", 0, 4) "}", 4, "expected ']'");
    refused("{\"a\":" A("01", 0, 4) "}", 4, "a number begins with 0");
    refused("{\"a\":" A("99999999999999999999", 0, 4) "}", 4, "the number is too large");
    refused("{\"a\":" A("1,1,1,1,1,1,1,1,1", 0, 4) "}", 4, "f: tensor \"a\": more than 8 dimensions");
    refused("{\"a\":" A("2", 0, 4) "}", 4, "shape and type need 64 bits, but the offsets enclose 4 bytes");
    refused("{\"a\":" A("4294967296,4294967296", 0, 4) "}", 4, "f: tensor \"a\": the shape is too large");
    refused("{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1, "12 bits");
    refused("{\"a\":" A("1", 4, 0) "}", 4, "f: tensor \"a\": offsets 4 to 0 in a file with 4 bytes of data");
    refused("{\"a\":" A("1", 4, 8) "}", 4, "f: tensor \"a\": offsets 4 to 8 in a file with 4 bytes of data");
}

static void refuses_overlaps_and_holes(void **state)
{
    (void)state;
    refused("{\"a\":" A("1", 0, 4) ",\"a\":" A("1", 4, 8) "}", 8, "f: tensor \"a\": the name is given twice");
    refused("{\"a\":" A("1", 0, 4) ",\"\\u0061\":" A("1", 4, 8) "}", 8, "f: tensor \"a\": the name is given twice");
    refused("{\"a\":" A("2", 0, 8) ",\"b\":" A("1", 4, 8) "}", 8, "f: tensor \"b\" overlaps tensor \"a\"");
    refused("{\"a\":" A("1", 0, 4) ",\"b\":" A("1", 0, 4) "}", 4, "overlaps tensor");
    refused("{\"a\":" A("1", 0, 4) ",\"b\":" A("1", 5, 9) "}", 9, "f: tensor \"b\": 1 bytes before it belong to no");
    refused("{\"a\":" A("1", 1, 5) "}", 5, "f: tensor \"a\": 1 bytes before it belong to no tensor");
    refused("{\"a\":" A("1", 0, 4) "}", 6, "f: 2 bytes at the end belong to no tensor");
}

static float value_of(const char *type, uint32_t bits, size_t bytes)
{
    uint8_t data[4] = {(uint8_t)bits, (uint8_t)(bits >> 8), (uint8_t)(bits >> 16), (uint8_t)(bits >> 24)};
    struct tensor tensor = {.name = "t", .type = type, .data = data, .bytes = bytes};
    float value;
    assert_true(tensor_values(&tensor, &value));
    return value;
}

static void converts_values(void **state)
{
    (void)state;
    assert_true(value_of("F32", 0x3FC00000, 4) == 1.5F);
    assert_true(value_of("BF16", 0xC040, 2) == -3);
    assert_true(value_of("F16", 0x3E00, 2) == 1.5F);
    assert_true(value_of("F16", 0x7BFF, 2) == 65504);
    assert_true(value_of("F16", 0x0400, 2) == 0x1p-14F);
    assert_true(value_of("F16", 0x8001, 2) == -0x1p-24F);
    assert_true(value_of("F16", 0x8000, 2) == 0 && signbit(value_of("F16", 0x8000, 2)));
    assert_true(isinf(value_of("F16", 0xFC00, 2)) && value_of("F16", 0xFC00, 2) < 0);
    assert_true(isnan(value_of("F16", 0x7C01, 2)));
    struct tensor tensor = {.name = "t", .type = "I64", .data = file_data, .bytes = 8};
    float value;
    assert_false(tensor_values(&tensor, &value));
}

/* ---- in a model ---- */

static const char text[] = "input 2 2 3\n"
                           "conv 2 1 nobias as first\n"
                           "batchnorm relu as norm\n"
                           "linear 2 as fc\n";
#define NORM(first) "\"norm." first "\":{\"dtype\":\"F32\",\"shape\":[2],"
#define REST                                                                                                           \
    NORM("weight")                                                                                                     \
    "\"data_offsets\":[16,24]}," NORM("bias") "\"data_offsets\":[24,32]}," NORM(                                       \
        "running_mean") "\"data_offsets\":[32,40]}," NORM("running_var") "\"data_offsets\":[40,48]},"
#define FC    "\"fc.weight\":" A("2,12", 48, 144) ",\"fc.bias\":" A("2", 144, 152)
#define FIRST "\"first.weight\":" A("2,2,1,1", 0, 16) ","

static struct model model;
static float parameters[1024], statistics[256];

static struct model read_text(const char *of)
{
    char path[] = "/tmp/weights-test-XXXXXX";
    struct model ret;
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, of, strlen(of)) == (ssize_t)strlen(of));
    close(fd);
    bool is_read = model_read(path, &ret, &reason);
    unlink(path);
    if (!is_read)
        fail_msg("%s", reason.text);
    return ret;
}

static int open_model(void **state)
{
    (void)state;
    model = read_text(text);
    assert_true(model.parameter_count <= sizeof parameters / sizeof *parameters);
    assert_true(model.statistics_count <= sizeof statistics / sizeof *statistics);
    return 0;
}

static int close_model(void **state)
{
    (void)state;
    model_clear(&model);
    return 0;
}

static bool parse(const char *head, size_t bytes, const char *except)
{
    make_file(head, bytes);
    return weights_parse("f", &file, &model, except, parameters, statistics, &reason);
}

static void refused_by_model(const char *head, size_t bytes, const char *except, const char *why)
{
    assert_false(parse(head, bytes, except));
    expect_reason(why);
}

/* Store the numbers 0, 1, 2, ... as the data of the file, whose head is already there. */
static void number_values(size_t count)
{
    uint8_t *at = file_data + (file.count - count * sizeof(float));
    for (size_t i = 0; i < count; i++) {
        float value = (float)i;
        memcpy(at + i * sizeof value, &value, sizeof value);
    }
}

static void converts_layouts(void **state)
{
    (void)state;
    assert_true(parse("{" FIRST REST FC "}", 152, NULL));
    number_values(38);
    assert_true(weights_parse("f", &file, &model, NULL, parameters, statistics, &reason));
    const struct layer *fc = &model.layers[3];
    assert_int_equal(fc->kind, LAYER_LINEAR);
    /* The inputs of the layer are 2 channels of 2 rows and 3 columns; the file counts them from 12 in the order
     * channel, row, column. */
    for (size_t o = 0; o < 2; o++)
        for (size_t place = 0; place < 6; place++)
            for (size_t c = 0; c < 2; c++)
                assert_true(parameters[fc->weight_at + o * 12 + place * 2 + c] == (float)(12 + o * 12 + c * 6 + place));
    assert_true(statistics[model.layers[2].statistics_at + 1] == 9);
    assert_true(statistics[model.layers[2].statistics_at + 3] == 11);
    assert_true(parameters[fc->bias_at + 1] == 37);
}

static void refuses_other_tensors(void **state)
{
    (void)state;
    refused_by_model("{" FIRST REST "\"fc.weight\":" A("2,12", 48, 144) "}", 144, NULL,
                     "f: tensor \"fc.bias\" (2) is missing; line 4 of the model ");
    refused_by_model("{" FIRST REST FC ",\"more.weight\":" A("1", 152, 156) "}", 156, NULL,
                     "f: tensor \"more.weight\" (1) belongs to no layer");
    refused_by_model("{\"first.weight\":" A("2,1,2,1", 0, 16) "," REST FC "}", 152, NULL,
                     "f: tensor \"first.weight\": the shape is 2x1x2x1, but line 2 of the model ");
    refused_by_model("{\"first.weight\":" A("4", 0, 16) "," REST FC "}", 152, NULL, "needs 2x2x1x1");
    refused_by_model("{\"first.weight\":{\"dtype\":\"I32\",\"shape\":[2,2,1,1],\"data_offsets\":[0,16]}," REST FC "}",
                     152, NULL, "f: tensor \"first.weight\": the type is I32, but only F32, F16 and BF16 can be read");
    refused_by_model("{" FIRST REST FC ",\"fc.num_batches_tracked\":" A("1", 152, 156) "}", 156, NULL,
                     "f: tensor \"fc.num_batches_tracked\" (1) belongs to no layer");
}

static void ignores_counters(void **state)
{
    (void)state;
    assert_true(parse("{" FIRST REST FC ",\"norm.num_batches_tracked\":{\"dtype\":\"I64\",\"shape\":[],"
                      "\"data_offsets\":[152,160]}}",
                      160, NULL));
}

static void makes_exceptions(void **state)
{
    (void)state;
    float before = parameters[model.layers[3].bias_at] = 77;
    assert_true(parse("{" FIRST REST "\"fc.weight\":" A("5", 48, 68) "}", 68, "fc"));
    assert_true(parameters[model.layers[3].bias_at] == before);
    assert_true(parse("{" FIRST REST "\"fc.x\":" A("5", 48, 68) "}", 68, ",norm,fc"));
    refused_by_model("{" FIRST REST FC "}", 152, "f", "f: the exception \"f\" is no layer of the model ");
    refused_by_model("{" FIRST REST FC "}", 152, "fc,bn1", "f: the exception \"bn1\" is no layer");
    refused_by_model("{" FIRST REST "\"fcx\":" A("5", 48, 68) "}", 68, "fc", "f: tensor \"fcx\" (5) belongs to no");
}

static void writes_what_it_reads(void **state)
{
    (void)state;
    static float parameters_again[1024], statistics_again[256];
    char path[] = "/tmp/weights-test-XXXXXX";
    close(mkstemp(path));
    assert_true(parse("{" FIRST REST FC "}", 152, NULL));
    number_values(38);
    assert_true(weights_parse("f", &file, &model, NULL, parameters, statistics, &reason));
    assert_true(weights_write(path, &model, parameters, statistics, &reason));
    memcpy(parameters_again, parameters, sizeof parameters);
    memcpy(statistics_again, statistics, sizeof statistics);
    for (size_t i = 0; i < model.layer_count; i++) { /* the room between layers keeps its values */
        const struct layer *layer = &model.layers[i];
        memset(parameters_again + layer->weight_at, 0, layer->weight_count * sizeof(float));
        memset(parameters_again + layer->bias_at, 0, layer->bias_count * sizeof(float));
    }
    memset(statistics_again + model.layers[2].statistics_at, 0, 4 * sizeof(float));
    assert_true(weights_read(path, &model, NULL, parameters_again, statistics_again, &reason));
    unlink(path);
    assert_memory_equal(parameters, parameters_again, sizeof parameters);
    assert_memory_equal(statistics, statistics_again, sizeof statistics);
}

static void names_layers(void **state)
{
    (void)state;
    struct weight *weights;
    size_t count;
    struct model other = read_text("input 3 4 4\nconv 2 3 as a.b\nconv 2 1\nlinear 3 nobias\n");
    assert_true(weights_list(&other, &weights, &count, &reason));
    assert_int_equal(count, 5);
    assert_string_equal(weights[0].name, "a.b.weight");
    assert_string_equal(weights[1].name, "a.b.bias");
    assert_string_equal(weights[2].name, "conv2.weight");
    assert_string_equal(weights[4].name, "linear1.weight");
    free(weights);
    model_clear(&other);
    other = read_text("input 3 4 4\nconv 2 1\nconv 2 1 as conv1\nlinear 3\n");
    assert_false(weights_list(&other, &weights, &count, &reason));
    expect_reason("lines 2 and 3 both have the tensor conv1.");
    model_clear(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_tensors),
        cmocka_unit_test(accepts_unusual_files),
        cmocka_unit_test(refuses_damaged_fronts),
        cmocka_unit_test(refuses_damaged_json),
        cmocka_unit_test(refuses_damaged_tensors),
        cmocka_unit_test(refuses_overlaps_and_holes),
        cmocka_unit_test(converts_values),
        cmocka_unit_test_setup_teardown(converts_layouts, open_model, close_model),
        cmocka_unit_test_setup_teardown(refuses_other_tensors, open_model, close_model),
        cmocka_unit_test_setup_teardown(ignores_counters, open_model, close_model),
        cmocka_unit_test_setup_teardown(makes_exceptions, open_model, close_model),
        cmocka_unit_test_setup_teardown(writes_what_it_reads, open_model, close_model),
        cmocka_unit_test(names_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

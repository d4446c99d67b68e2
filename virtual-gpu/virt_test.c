/* Test the parts of the virtual GPU that work alone: specifications, module images. */
#include "gw_unit_test.h"
#include <stdio.h>
#include <string.h>

#include "gw_embedded.h"
#include "gw_virt_spec.h"
#include "gwi_image.h"

#define MIB ((uint64_t)1 << 20)

/* --- specifications ------------------------------------------------------------------------------------- */

GW_TEST(test_spec_refuse)
{
    static const char *const bad[] = {"",
                                      "h300",
                                      "0xh200",
                                      "17xh200",
                                      "99999999999999999999xh200",
                                      "2x",
                                      "h200,",
                                      "h200,memory",
                                      "h200,memory=",
                                      "h200,memory=12parsecs",
                                      "h200,memory=1KiB",
                                      "h200,color=red",
                                      "h200,driver=9000",
                                      "h200,driver=x",
                                      "h200,fault=",
                                      "h200,fault=oom-at:0",
                                      "h200,fault=oom-at:-3",
                                      "h200,fault=illegal-address",
                                      "h200,fault=illegal-address@kernel:",
                                      "h200,fault=sometimes@kernel:x",
                                      "h200,fault=2@",
                                      "h200,fault=xid",
                                      "h200,fault=xid:",
                                      "h200,fault=xid:0",
                                      "h200,fault=xid:79@",
                                      "h200,fault=xid:79@5",
                                      "h200,fault=xid:79@5h",
                                      "h200,fault=xid:79@99999999999999999999s",
                                      "h200,fault=xid:79@launch:",
                                      "h200,fault=lost#",
                                      "h200,fault=lost#1",
                                      "h200,fault=lost#x",
                                      "h200,fault=lost:1",
                                      "h200,fault=ecc@cuInit:0",
                                      "h200,fault=link:",
                                      "h200,fault=link:5",
                                      "h200,fault=link:0x4",
                                      "h200,fault=link:7x4",
                                      "h200,fault=link:5x",
                                      "h200,fault=99999999@cuMemAlloc_v2"};
    char big[2000];
    gw_error err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err.text[0] = '\0';
        assert_int_equal(gw_virt_spec_check(bad[i], &err), GW_USAGE);
        assert_true(strlen(err.text) > 5);
        assert_int_equal(gw_virt_spec_check(bad[i], NULL), GW_USAGE);
    }
    memset(big, 'h', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    assert_int_equal(gw_virt_spec_check(big, &err), GW_USAGE);
    memcpy(big, "h200,", 5);
    assert_int_equal(gw_virt_spec_check(big, &err), GW_USAGE);
}

GW_TEST(test_spec_unknown_names_known)
{
    gw_error err;
    assert_int_equal(gw_virt_spec_check("h20", &err), GW_USAGE);
    assert_non_null(strstr(err.text, "h200"));
    assert_non_null(strstr(err.text, "t4"));
}

GW_TEST(test_spec_good)
{
    gw_virt_spec spec;
    gw_error err;
    assert_int_equal(gw_virt_spec_parse("2xh200,memory=16GiB,driver=12020,hostmem=1GiB,fault=oom-at:12,"
                                        "fault=init:999,fault=2@cuStreamCreate:3,fault=assert@kernel:step,"
                                        "fault=trap@launch:9",
                                        &spec, &err),
                     GW_OK);
    assert_int_equal(spec.device_count, 2);
    assert_int_equal(spec.card.memory_bytes, 16 * 1024 * MIB);
    assert_int_equal(spec.driver_version, 12020);
    assert_int_equal(spec.host_bytes_max, 1024 * MIB);
    assert_int_equal(spec.fault_count, 5);
    assert_int_equal(spec.faults[2].kind, GW_VIRT_FAULT_CALL);
    assert_int_equal(spec.faults[2].count, 3);
    assert_string_equal(spec.faults[3].name, "step");
}

GW_TEST(test_spec_card_faults)
{
    gw_virt_spec spec;
    gw_error err;
    assert_int_equal(gw_virt_spec_parse("2xh200,fault=xid:31#1@launch:7,fault=lost@1500ms,fault=ecc#1@cuMemFree_v2:3,"
                                        "fault=link:3x8,fault=power-cap@2s",
                                        &spec, &err),
                     GW_OK);
    const gw_virt_fault *fault = spec.faults;
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(fault[i].kind, GW_VIRT_FAULT_CARD);
    assert_int_equal(fault[0].code, GW_VIRT_CARD_XID);
    assert_int_equal(fault[0].values[0], 31);
    assert_int_equal(fault[0].card, 1);
    assert_int_equal(fault[0].when, GW_VIRT_WHEN_LAUNCH);
    assert_int_equal(fault[0].count, 7);
    assert_int_equal(fault[1].code, GW_VIRT_CARD_LOST);
    assert_int_equal(fault[1].when, GW_VIRT_WHEN_TIME);
    assert_true(fault[1].after_ns == 1500000000);
    assert_int_equal(fault[2].when, GW_VIRT_WHEN_CALL);
    assert_string_equal(fault[2].name, "cuMemFree_v2");
    assert_int_equal(fault[2].count, 3);
    assert_int_equal(fault[3].values[0], 3);
    assert_int_equal(fault[3].values[1], 8);
    assert_int_equal(fault[3].card, 0);
    assert_true(fault[4].after_ns == 2000000000);
}

/* Every GPU model can be read and has the attributes that programs query first. */
GW_TEST(test_cards)
{
    gw_error err;
    size_t count = 0;
    for (; gwi_cards[count].name != NULL; count++) {
        gw_virt_spec spec;
        if (gw_virt_spec_parse(gwi_cards[count].name, &spec, &err) != GW_OK)
            fail_msg("%s", err.text);
        assert_true(spec.card.memory_bytes > 1024 * MIB);
        assert_true(spec.card.context_bytes < spec.card.memory_bytes);
        assert_true(spec.card.name[0] != '\0');
        assert_int_equal(spec.card.attributes[10], 32);
        assert_true(spec.card.attributes[75] >= 7);
        const gw_virt_board *board = &spec.card.board;
        assert_true(board->reserved_bytes > 0 && board->reserved_bytes < spec.card.memory_bytes / 8);
        assert_true(board->power_idle_mw < board->power_busy_mw && board->power_busy_mw <= board->power_limit_mw);
        assert_true(board->power_min_mw < board->power_limit_mw);
        assert_true(board->temperature_idle < board->temperature_busy);
        assert_true(board->temperature_busy < board->temperature_slowdown);
        assert_true(board->temperature_slowdown < board->temperature_shutdown);
        assert_true(board->link_generation >= 3 && board->link_generation <= 6 && board->link_lanes == 16);
        assert_int_equal(board->pci_id & 0xffff, 0x10de);
    }
    assert_true(count >= 4);
}

/* --- module images -------------------------------------------------------------------------------------- */

static const gwi_image_wants wants = {.compute_capability = 90, .ptx_version_max = 90};

static int read_text(const char *text, gwi_image *image)
{
    char reason[200];
    /* Copy to the heap without a terminator, so that the sanitizer detects reads beyond the end. */
    size_t bytes = strlen(text);
    char *copy = malloc(bytes + 1);
    memcpy(copy, text, bytes);
    char *exact = realloc(copy, bytes > 0 ? bytes : 1);
    int code = gwi_image_read(exact, bytes, &wants, image, reason, sizeof reason);
    free(exact);
    return code;
}

#define HEAD ".version 7.5\n.target sm_75\n.address_size 64\n"

GW_TEST(test_ptx_refuse)
{
    static const struct {
        const char *text;
        int code;
    } bad[] = {{"", 200},
               {" \n\t", 200},
               {"hello", 200},
               {"{", 200},
               {"/* never ends", 200},
               {".version", 218},
               {".version x", 218},
               {".version 99.0", 222},
               {HEAD ".target sm_999", 218},
               {HEAD ".target", 218},
               {HEAD ".entry", 218},
               {HEAD ".entry f", 218},
               {HEAD ".entry f(", 218},
               {HEAD ".entry f(.param .u64 a", 218},
               {HEAD ".entry f(.param .u64 a,,)", 218},
               {HEAD ".entry f() {", 218},
               {HEAD ".entry f() { { }", 218},
               {HEAD ".entry f(.param .b8 a[99999999]) { }", 218},
               {HEAD ".entry f(.param .b8 a[9) { }", 218},
               {HEAD ".global .u64 a[18446744073709551615] = {1};", 218},
               {HEAD ".global .u64 a[4] = {1, 2", 218},
               {HEAD ".global .u64", 218},
               {HEAD ".const .u64 a", 218},
               {HEAD ".func f(", 218}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gwi_image image;
        int code = read_text(bad[i].text, &image);
        if (code != bad[i].code)
            fail_msg("\"%s\": %d, want %d", bad[i].text, code, bad[i].code);
        gwi_image_free(&image);
    }
}

GW_TEST(test_ptx_good)
{
    gwi_image image;
    assert_int_equal(read_text(HEAD "// .entry not_this_one()\n"
                                    ".extern .func (.param .b32 r) printf (.param .b64 a, .param .b64 b);\n"
                                    ".visible .const .align 4 .f32 table[3] = {0f3F800000, 0f40000000, 0f40400000};\n"
                                    ".global .align 8 .u64 gpuwhy_model_f[4] = {0x4D4B594857555047, 1, 1, 1};\n"
                                    ".global .b8 gpuwhy_text_f[6] = {97, 0, 98, 0, 99, 0};\n"
                                    ".visible .entry f(.param .u64 a, .param .align 8 .b8 b[24], .param .u8 c)\n"
                                    ".maxntid 128, 2, 1\n"
                                    "{ .shared .align 4 .b8 s[256]; { bra x; } ret; }\n"
                                    ".entry g() { ret; }\n",
                               &image),
                     0);
    assert_int_equal(image.kernel_count, 2);
    gwi_kernel_info *f = gwi_image_kernel(&image, "f");
    assert_non_null(f);
    assert_int_equal(f->param_count, 3);
    assert_int_equal(f->params[1].offset, 8);
    assert_int_equal(f->params[1].bytes, 24);
    assert_int_equal(f->params[2].offset, 32);
    assert_int_equal(f->param_bytes, 33);
    assert_int_equal(f->threads_max, 256);
    assert_int_equal(f->shared_bytes, 256);
    assert_true(f->has_model);
    assert_int_equal(f->model.fault, GW_KERNEL_FAULT_ILLEGAL_ADDRESS);
    assert_int_equal(f->model.when, GW_KERNEL_WHEN_UNMAPPED);
    assert_string_equal(f->text, "a");
    assert_string_equal(f->text + 2, "b");
    assert_false(gwi_image_kernel(&image, "g")->has_model);
    assert_null(gwi_image_kernel(&image, "not_this_one"));
    assert_int_equal(image.constant_bytes, 12);
    gwi_image_free(&image);
}

/* A model must have its magic number. A variable that only has the name of a model is ignored. */
GW_TEST(test_model_refuse)
{
    static const char *const bad[] = {"{1, 1, 1, 0}", "{0x4D4B594857555047, 2, 1, 0}", "{0x4D4B594857555047, 1, 99, 0}",
                                      "{0x4D4B594857555047, 1, 1, 99}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[400];
        gwi_image image;
        snprintf(text, sizeof text, HEAD ".global .u64 gpuwhy_model_f[4] = %s;\n.entry f() { ret; }\n", bad[i]);
        assert_int_equal(read_text(text, &image), 0);
        assert_false(gwi_image_kernel(&image, "f")->has_model);
        gwi_image_free(&image);
    }
}

GW_TEST(test_elf_refuse)
{
    unsigned char head[64];
    char reason[200];
    gwi_image image;
    memset(head, 0xff, sizeof head);
    memcpy(head, "\177ELF", 4);
    for (size_t bytes = 4; bytes <= sizeof head; bytes++) {
        unsigned char *exact = malloc(bytes);
        memcpy(exact, head, bytes);
        assert_int_equal(gwi_image_read(exact, bytes, &wants, &image, reason, sizeof reason), 200);
        free(exact);
    }
    head[4] = 2;
    head[18] = 190;
    head[19] = 0;
    head[58] = 64;
    head[59] = 0;
    assert_int_equal(gwi_image_read(head, sizeof head, &wants, &image, reason, sizeof reason), 200);
}

GW_TEST(test_fatbin_refuse)
{
    unsigned char data[128];
    char reason[200];
    gwi_image image;
    memset(data, 0, sizeof data);
    memcpy(data, "\x50\xED\x55\xBA", 4);
    data[6] = 16;
    for (size_t bytes = 4; bytes <= sizeof data; bytes++) {
        unsigned char *exact = malloc(bytes);
        memcpy(exact, data, bytes);
        assert_int_not_equal(gwi_image_read(exact, bytes, &wants, &image, reason, sizeof reason), 0);
        assert_true(reason[0] != '\0');
        free(exact);
    }
    /* A fat binary with one part, compressed PTX for an older GPU: the reader returns an error instead of guessing. */
    data[16] = 1;
    data[20] = 64;
    data[24] = 32;
    data[16 + 28] = 75;
    data[16 + 41] = 0x20;
    assert_int_equal(gwi_image_read(data, sizeof data, &wants, &image, reason, sizeof reason), 801);
    assert_non_null(strstr(reason, "compressed"));
}

GW_TEST_MAIN(NULL, NULL)

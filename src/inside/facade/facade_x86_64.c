/* The x86-64 machine code of a facade:
 * - stubs: the exported functions
 * - lazy entries: the first targets of the stubs
 * - the code that lazy entries jump to, which opens the hook at the first call */
#include "gw_facade.h"
#include "gwi_facade_machine.h"

#include <stddef.h>
#include <string.h>

#if defined(__x86_64__)

/* The machine code below contains these offsets as literal numbers. */
_Static_assert(offsetof(gw_facade_head, dl_open) == 16, "dl_open");
_Static_assert(offsetof(gw_facade_head, dl_sym) == 24, "dl_sym");
_Static_assert(offsetof(gw_facade_head, dl_open_old) == 32, "dl_open_old");
_Static_assert(offsetof(gw_facade_head, dl_sym_old) == 40, "dl_sym_old");
_Static_assert(offsetof(gw_facade_head, errno_location) == 48, "errno_location");
_Static_assert(offsetof(gw_facade_head, hook_path) == 56, "hook_path");
_Static_assert(offsetof(gw_facade_head, driver_path) == 64, "driver_path");
_Static_assert(offsetof(gw_facade_head, attach_name) == 72, "attach_name");
_Static_assert(offsetof(gw_facade_head, names) == 80, "names");
_Static_assert(offsetof(gw_facade_head, strings) == 88, "strings");
_Static_assert(offsetof(gw_facade_head, table) == 96, "table");

/* Position-independent code that is copied into every facade.
 *
 * A lazy entry pushes the index of its name and jumps to the beginning of this code. The code preserves errno and all
 * registers that carry arguments: the six integer ones, rax (vector count of variadic calls), r10 (static chain) and
 * xmm0-7. rbx is the address of the head, r12 the index, r13 the address of errno (or 0), r14d its value.
 *
 * open(path) calls dlopen, or else __libc_dlopen_mode. If both are missing, it returns 0. sym(handle, name) does the
 * same with dlsym and __libc_dlsym.
 *
 * The code calls the hook to fill the table, then jumps to the table entry. If the hook fails, it stores the driver's
 * function in this entry only. If there is none, it stores a function that returns CUDA_ERROR_STUB_LIBRARY (34). */
__asm__(".pushsection .rodata.gwi_facade_code, \"a\", @progbits\n"
        ".balign 16\n"
        ".globl gwi_facade_blob\n"
        ".hidden gwi_facade_blob\n"
        "gwi_facade_blob:\n"
        "  push %rbp\n"
        "  mov %rsp, %rbp\n"
        "  sub $272, %rsp\n"
        "  and $-16, %rsp\n"
        "  mov %rdi, 0(%rsp)\n"
        "  mov %rsi, 8(%rsp)\n"
        "  mov %rdx, 16(%rsp)\n"
        "  mov %rcx, 24(%rsp)\n"
        "  mov %r8, 32(%rsp)\n"
        "  mov %r9, 40(%rsp)\n"
        "  mov %rax, 48(%rsp)\n"
        "  mov %r10, 56(%rsp)\n"
        "  movaps %xmm0, 64(%rsp)\n"
        "  movaps %xmm1, 80(%rsp)\n"
        "  movaps %xmm2, 96(%rsp)\n"
        "  movaps %xmm3, 112(%rsp)\n"
        "  movaps %xmm4, 128(%rsp)\n"
        "  movaps %xmm5, 144(%rsp)\n"
        "  movaps %xmm6, 160(%rsp)\n"
        "  movaps %xmm7, 176(%rsp)\n"
        "  mov %rbx, 192(%rsp)\n"
        "  mov %r12, 200(%rsp)\n"
        "  mov %r13, 208(%rsp)\n"
        "  mov %r14, 216(%rsp)\n"
        "  mov 8(%rbp), %r12d\n"
        "  lea 0x7f000000(%rip), %rbx\n" /* gwi_facade_code_write() inserts the address of the head */
        ".globl gwi_facade_blob_head\n"
        ".hidden gwi_facade_blob_head\n"
        "gwi_facade_blob_head:\n"
        "  xor %r13d, %r13d\n"
        "  mov 48(%rbx), %rax\n"
        "  test %rax, %rax\n"
        "  jz 1f\n"
        "  call *%rax\n"
        "  mov %rax, %r13\n"
        "  mov (%rax), %r14d\n"
        "1:\n"
        "  mov 56(%rbx), %rdi\n"
        "  call 20f\n"
        "  test %rax, %rax\n"
        "  jz 5f\n"
        "  mov %rax, %rdi\n"
        "  mov 72(%rbx), %rsi\n"
        "  call 30f\n"
        "  test %rax, %rax\n"
        "  jz 5f\n"
        "  mov %rbx, %rdi\n"
        "  call *%rax\n"
        "  test %eax, %eax\n"
        "  jz 8f\n"
        "5:\n" /* without the hook: open the driver */
        "  mov 64(%rbx), %rdi\n"
        "  call 20f\n"
        "  test %rax, %rax\n"
        "  jz 6f\n"
        "  mov %rax, %rdi\n"
        "  mov 80(%rbx), %rsi\n"
        "  mov (%rsi,%r12,4), %esi\n"
        "  add 88(%rbx), %rsi\n"
        "  call 30f\n"
        "  test %rax, %rax\n"
        "  jnz 7f\n"
        "6:\n"
        "  lea 40f(%rip), %rax\n"
        "7:\n"
        "  mov 96(%rbx), %rcx\n"
        "  mov %rax, (%rcx,%r12,8)\n"
        "8:\n"
        "  test %r13, %r13\n"
        "  jz 9f\n"
        "  mov %r14d, (%r13)\n"
        "9:\n"
        "  mov 96(%rbx), %rcx\n"
        "  mov (%rcx,%r12,8), %r11\n"
        "  mov 0(%rsp), %rdi\n"
        "  mov 8(%rsp), %rsi\n"
        "  mov 16(%rsp), %rdx\n"
        "  mov 24(%rsp), %rcx\n"
        "  mov 32(%rsp), %r8\n"
        "  mov 40(%rsp), %r9\n"
        "  mov 48(%rsp), %rax\n"
        "  mov 56(%rsp), %r10\n"
        "  movaps 64(%rsp), %xmm0\n"
        "  movaps 80(%rsp), %xmm1\n"
        "  movaps 96(%rsp), %xmm2\n"
        "  movaps 112(%rsp), %xmm3\n"
        "  movaps 128(%rsp), %xmm4\n"
        "  movaps 144(%rsp), %xmm5\n"
        "  movaps 160(%rsp), %xmm6\n"
        "  movaps 176(%rsp), %xmm7\n"
        "  mov 192(%rsp), %rbx\n"
        "  mov 200(%rsp), %r12\n"
        "  mov 208(%rsp), %r13\n"
        "  mov 216(%rsp), %r14\n"
        "  leave\n"
        "  add $8, %rsp\n" /* remove the index from the stack */
        "  jmp *%r11\n"
        "20:\n"            /* open(rdi) */
        "  mov $2, %esi\n" /* RTLD_NOW | RTLD_LOCAL */
        "  mov 16(%rbx), %rax\n"
        "  test %rax, %rax\n"
        "  jnz 21f\n"
        "  mov $0x80000002, %esi\n" /* RTLD_NOW | __RTLD_DLOPEN, which dlopen() itself passes */
        "  mov 32(%rbx), %rax\n"
        "  test %rax, %rax\n"
        "  jz 22f\n"
        "21:\n"
        "  sub $8, %rsp\n"
        "  call *%rax\n"
        "  add $8, %rsp\n"
        "22:\n"
        "  ret\n"
        "30:\n" /* sym(rdi, rsi) */
        "  mov 24(%rbx), %rax\n"
        "  test %rax, %rax\n"
        "  jnz 21b\n"
        "  mov 40(%rbx), %rax\n"
        "  test %rax, %rax\n"
        "  jnz 21b\n"
        "  ret\n"
        "40:\n"
        "  mov $34, %eax\n"
        "  ret\n"
        ".globl gwi_facade_blob_end\n"
        ".hidden gwi_facade_blob_end\n"
        "gwi_facade_blob_end:\n"
        ".popsection\n");

extern const uint8_t gwi_facade_blob[] __attribute__((visibility("hidden")));
extern const uint8_t gwi_facade_blob_head[] __attribute__((visibility("hidden")));
extern const uint8_t gwi_facade_blob_end[] __attribute__((visibility("hidden")));

enum { READ_BYTES = 16, READS_BYTES = 128, STUB_BYTES = 8, LAZY_BYTES = 10 };
_Static_assert(GWI_FACADE_READS_MAX *READ_BYTES <= READS_BYTES, "they fit");

bool gwi_facade_code_supported(void)
{
    return true;
}

static uint64_t blob_bytes(void)
{
    return ((uint64_t)(gwi_facade_blob_end - gwi_facade_blob) + 63) & ~(uint64_t)63;
}

uint64_t gwi_facade_code_bytes(uint32_t count)
{
    return blob_bytes() + READS_BYTES + (uint64_t)count * (STUB_BYTES + LAZY_BYTES);
}

uint64_t gwi_facade_read_at(uint64_t code_at, uint32_t i)
{
    return code_at + blob_bytes() + (uint64_t)i * READ_BYTES;
}

uint64_t gwi_facade_stub_at(uint64_t code_at, uint32_t i)
{
    return code_at + blob_bytes() + READS_BYTES + (uint64_t)i * STUB_BYTES;
}

uint64_t gwi_facade_lazy_at(uint64_t code_at, uint32_t count, uint32_t i)
{
    return gwi_facade_stub_at(code_at, count) + (uint64_t)i * LAZY_BYTES;
}

static void put32(uint8_t *at, uint32_t value)
{
    memcpy(at, &value, sizeof value);
}

/* Store the 32-bit displacement of an instruction. It is relative to the end of the instruction. */
static void put_displacement(uint8_t *at, uint64_t target, uint64_t instruction_end)
{
    put32(at, (uint32_t)(target - instruction_end));
}

/* Write the code for the i-th function that only reads (a READ row in driver.api). It jumps to reads[i] or, if that is
 * 0, to the stub of the same name. The stub is near enough for a short jump. */
static void put_read(uint8_t *code, const gwi_facade_places *places, uint32_t i)
{
    static const uint8_t like[] = {0x4c, 0x8b, 0x1d, 0, 0, 0, 0, /* mov reads[i](%rip), %r11 */
                                   0x4d, 0x85, 0xdb,             /* test %r11, %r11 */
                                   0x74, 0,                      /* jz to the stub */
                                   0x41, 0xff, 0xe3};            /* jmp *%r11 */
    uint64_t read_at = gwi_facade_read_at(places->code_at, i), stub_at = gwi_facade_stub_at(places->code_at, i);
    uint8_t *read = code + (read_at - places->code_at);
    memcpy(read, like, sizeof like);
    put_displacement(read + 3, places->reads_at + (uint64_t)i * 8, read_at + 7);
    read[11] = (uint8_t)(stub_at - (read_at + 12));
}

void gwi_facade_code_write(uint8_t *code, const gwi_facade_places *places)
{
    uint64_t code_at = places->code_at;
    size_t head_ref = (size_t)(gwi_facade_blob_head - gwi_facade_blob);
    memset(code, 0xcc, gwi_facade_code_bytes(places->count));
    memcpy(code, gwi_facade_blob, (size_t)(gwi_facade_blob_end - gwi_facade_blob));
    put_displacement(code + head_ref - 4, places->head_at, code_at + head_ref);
    for (uint32_t i = 0; i < places->read_count; i++)
        put_read(code, places, i);
    for (uint32_t i = 0; i < places->count; i++) {
        uint64_t stub_at = gwi_facade_stub_at(code_at, i), lazy_at = gwi_facade_lazy_at(code_at, places->count, i);
        uint8_t *stub = code + (stub_at - code_at), *lazy = code + (lazy_at - code_at);
        stub[0] = 0xff; /* jmp *table[i](%rip) */
        stub[1] = 0x25;
        put_displacement(stub + 2, places->table_at + (uint64_t)i * 8, stub_at + 6);
        lazy[0] = 0x68; /* push $i */
        put32(lazy + 1, i);
        lazy[5] = 0xe9; /* jmp to the beginning of the code */
        put_displacement(lazy + 6, code_at, lazy_at + 10);
    }
}

#else

bool gwi_facade_code_supported(void)
{
    return false;
}

uint64_t gwi_facade_code_bytes(uint32_t count)
{
    (void)count;
    return 0;
}

uint64_t gwi_facade_stub_at(uint64_t code_at, uint32_t i)
{
    (void)i;
    return code_at;
}

uint64_t gwi_facade_lazy_at(uint64_t code_at, uint32_t count, uint32_t i)
{
    (void)count;
    (void)i;
    return code_at;
}

uint64_t gwi_facade_read_at(uint64_t code_at, uint32_t i)
{
    (void)i;
    return code_at;
}

void gwi_facade_code_write(uint8_t *code, const gwi_facade_places *places)
{
    (void)code;
    (void)places;
}

#endif

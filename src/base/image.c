/* Find symbols of a mapped ELF file through its hash tables, as a loader does. */
#include "gw_image.h"

#include <string.h>

enum { CHAIN_MAX = 4096, NAME_MAX_BYTES = 256 };

/* Convert a value of the dynamic section to an address. Glibc replaces the values with addresses when it loads the
 * file. In other C libraries, they may lack the load address. */
static uint64_t absolute(const gw_image *image, uint64_t value)
{
    return value >= image->base ? value : value + image->bias;
}

static bool read_dynamic(gw_image *image, const Elf64_Phdr *dynamic, Elf64_Dyn *entry)
{
    size_t count = dynamic->p_memsz / sizeof *entry;
    if (count > GW_IMAGE_DYNAMIC_MAX)
        count = GW_IMAGE_DYNAMIC_MAX;
    if (!image->read(image->user, image->bias + dynamic->p_vaddr, entry, count * sizeof *entry))
        return false;
    for (size_t i = 0; i < count && entry[i].d_tag != DT_NULL; i++) {
        uint64_t value = entry[i].d_un.d_val;
        switch (entry[i].d_tag) {
        case DT_SYMTAB:
            image->symbols = absolute(image, value);
            break;
        case DT_STRTAB:
            image->strings = absolute(image, value);
            break;
        case DT_GNU_HASH:
            image->gnu_hash = absolute(image, value);
            break;
        case DT_HASH:
            image->old_hash = absolute(image, value);
            break;
        case DT_SONAME:
            image->so_name = value;
            break;
        case DT_NEEDED:
            image->needed[image->needed_count++] = (uint32_t)value;
            break;
        default:
            break;
        }
    }
    return image->symbols != 0 && image->strings != 0 && (image->gnu_hash != 0 || image->old_hash != 0);
}

bool gw_image_open(gw_image *image, gw_memory_read *read, void *user, uint64_t base, gw_image_room *room)
{
    const Elf64_Phdr *dynamic = NULL;
    uint64_t first = UINT64_MAX, last = 0;
    memset(image, 0, sizeof *image);
    image->read = read;
    image->user = user;
    image->base = base;
    if (!read(user, base, &room->head, sizeof room->head) || memcmp(room->head.elf.e_ident, ELFMAG, SELFMAG) != 0 ||
        room->head.elf.e_ident[EI_CLASS] != ELFCLASS64 || room->head.elf.e_phentsize != sizeof(Elf64_Phdr) ||
        room->head.elf.e_phoff > GW_IMAGE_HEAD_BYTES || room->head.elf.e_phoff % 8 != 0 ||
        room->head.elf.e_phnum > (GW_IMAGE_HEAD_BYTES - room->head.elf.e_phoff) / sizeof(Elf64_Phdr))
        return false;
    const Elf64_Phdr *segment = (const Elf64_Phdr *)(room->head.bytes + room->head.elf.e_phoff);
    for (unsigned i = 0; i < room->head.elf.e_phnum; i++) {
        if (segment[i].p_type == PT_DYNAMIC)
            dynamic = &segment[i];
        if (segment[i].p_type != PT_LOAD)
            continue;
        if (first == UINT64_MAX)
            first = segment[i].p_vaddr & ~(uint64_t)4095;
        last = segment[i].p_vaddr + segment[i].p_memsz;
    }
    if (dynamic == NULL || first == UINT64_MAX || last <= first)
        return false;
    image->bias = base - first;
    image->end = image->bias + last;
    return read_dynamic(image, dynamic, room->dynamic);
}

bool gw_image_text_is(const gw_image *image, uint32_t at, const char *name)
{
    char text[NAME_MAX_BYTES];
    size_t bytes = strlen(name) + 1;
    return bytes <= sizeof text && image->read(image->user, image->strings + at, text, bytes) &&
           memcmp(text, name, bytes) == 0;
}

/* True if symbol `index` has this name and is defined in this file. Stores its address in *ret_address. */
static bool symbol_is(const gw_image *image, uint32_t index, const char *name, uint64_t *ret_address)
{
    Elf64_Sym symbol;
    if (!image->read(image->user, image->symbols + (uint64_t)index * sizeof symbol, &symbol, sizeof symbol) ||
        symbol.st_shndx == SHN_UNDEF || !gw_image_text_is(image, symbol.st_name, name))
        return false;
    unsigned type = ELF64_ST_TYPE(symbol.st_info);
    if (type != STT_FUNC && type != STT_OBJECT)
        return false;
    *ret_address = symbol.st_shndx == SHN_ABS ? symbol.st_value : image->bias + symbol.st_value;
    return *ret_address >= image->base && *ret_address < image->end;
}

static bool find_by_gnu_hash(const gw_image *image, const char *name, uint64_t *ret_address)
{
    struct {
        uint32_t buckets, first, bloom_words, bloom_shift;
    } head;
    uint32_t hash = 5381, index, chain;
    uint64_t bloom;
    for (const char *c = name; *c != '\0'; c++)
        hash = hash * 33 + (uint8_t)*c;
    if (!image->read(image->user, image->gnu_hash, &head, sizeof head) || head.buckets == 0 || head.bloom_words == 0)
        return false;
    uint64_t blooms = image->gnu_hash + sizeof head, buckets = blooms + (uint64_t)head.bloom_words * 8;
    uint64_t chains = buckets + (uint64_t)head.buckets * 4;
    if (!image->read(image->user, blooms + (uint64_t)(hash / 64 % head.bloom_words) * 8, &bloom, sizeof bloom) ||
        ((bloom >> hash % 64) & (bloom >> (hash >> (head.bloom_shift & 31)) % 64) & 1) == 0 ||
        !image->read(image->user, buckets + (uint64_t)(hash % head.buckets) * 4, &index, sizeof index) ||
        index < head.first)
        return false;
    for (unsigned steps = 0; steps < CHAIN_MAX; steps++, index++) {
        if (!image->read(image->user, chains + (uint64_t)(index - head.first) * 4, &chain, sizeof chain))
            return false;
        if ((chain | 1) == (hash | 1) && symbol_is(image, index, name, ret_address))
            return true;
        if ((chain & 1) != 0)
            return false;
    }
    return false;
}

static bool find_by_old_hash(const gw_image *image, const char *name, uint64_t *ret_address)
{
    uint32_t head[2], hash = 0, index;
    for (const char *c = name; *c != '\0'; c++) {
        hash = (hash << 4) + (uint8_t)*c;
        uint32_t high = hash & 0xf0000000;
        hash = (hash ^ high >> 24) & ~high;
    }
    if (!image->read(image->user, image->old_hash, head, sizeof head) || head[0] == 0 ||
        !image->read(image->user, image->old_hash + 8 + (uint64_t)(hash % head[0]) * 4, &index, sizeof index))
        return false;
    for (unsigned steps = 0; steps < CHAIN_MAX && index != 0 && index < head[1]; steps++) {
        if (symbol_is(image, index, name, ret_address))
            return true;
        if (!image->read(image->user, image->old_hash + 8 + ((uint64_t)head[0] + index) * 4, &index, sizeof index))
            return false;
    }
    return false;
}

bool gw_image_find(const gw_image *image, const char *name, uint64_t *ret_address)
{
    return image->gnu_hash != 0 ? find_by_gnu_hash(image, name, ret_address)
                                : find_by_old_hash(image, name, ret_address);
}

/* Which objects need the system's dynamic linker: those whose thread-local variables lie at fixed
 * distances from the thread pointer. Apart, so that the front can ask as well. */
#include "cell/load.h"

#include <elf.h>
#include <string.h>

static bool is_system_only(uint32_t type)
{
    switch (type) {
    case R_X86_64_GOTTPOFF:
    case R_X86_64_TPOFF32:
    case R_X86_64_TPOFF64:
    case R_X86_64_GOTPC32_TLSDESC:
    case R_X86_64_TLSDESC_CALL: return true;
    default: return false;
    }
}

int cadre_object_needs_dlopen(const void *object, size_t length)
{
    const unsigned char *bytes = object;
    Elf64_Ehdr header;
    if (length < sizeof header) return 0;
    memcpy(&header, bytes, sizeof header);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_type != ET_REL ||
        header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shoff > length)
        return 0;
    size_t room = (length - header.e_shoff) / sizeof(Elf64_Shdr);
    if (!room) return 0;
    Elf64_Shdr section;
    memcpy(&section, bytes + header.e_shoff, sizeof section);
    size_t count = header.e_shnum ? header.e_shnum : section.sh_size;
    if (count > room) return 0;
    for (size_t i = 1; i < count; i++) {
        memcpy(&section, bytes + header.e_shoff + i * sizeof section, sizeof section);
        if (section.sh_type == SHT_NOBITS || section.sh_offset > length ||
            section.sh_size > length - section.sh_offset)
            continue;
        const unsigned char *content = bytes + section.sh_offset;
        if (section.sh_type != SHT_RELA || section.sh_info >= count) continue;
        Elf64_Shdr target;
        memcpy(&target, bytes + header.e_shoff + section.sh_info * sizeof target, sizeof target);
        if (!(target.sh_flags & SHF_ALLOC)) continue;
        for (size_t k = 0; k < section.sh_size / sizeof(Elf64_Rela); k++) {
            Elf64_Rela relocation;
            memcpy(&relocation, content + k * sizeof relocation, sizeof relocation);
            if (is_system_only(ELF64_R_TYPE(relocation.r_info))) return 1;
        }
    }
    return 0;
}

/* Types as text: canonical, for comparing, and as C writes them, for people. */
#include "cell/types_internal.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH_LIMIT 200
#define SIGNATURE_LIMIT ((size_t)1 << 20)

/* Structures in the order in which they are first met: each is written out once, so that
 * recursive types end and shared ones do not multiply. */
struct writer {
    cadre_buffer text;
    Dwarf_Off *seen;
    size_t seen_count, seen_capacity;
};

static void write_type(struct writer *writer, Dwarf_Die *die, int depth);

static void write_type_of(struct writer *writer, Dwarf_Die *die, int depth)
{
    Dwarf_Die type;
    if (cadre_type_of(die, &type))
        write_type(writer, &type, depth + 1);
    else
        cadre_buffer_puts(&writer->text, "v");
}

/* Parameters and results: their own const and volatile are no part of the function's type. */
static void write_unqualified(struct writer *writer, Dwarf_Die *die, int depth)
{
    Dwarf_Die type, next;
    if (!cadre_type_of(die, &type)) {
        cadre_buffer_puts(&writer->text, "v");
        return;
    }
    for (int i = 0; i < DEPTH_LIMIT; i++) {
        int tag = dwarf_tag(&type);
        if (tag != DW_TAG_const_type && tag != DW_TAG_volatile_type &&
            tag != DW_TAG_restrict_type && tag != DW_TAG_typedef)
            break;
        if (!cadre_type_of(&type, &next)) break;
        type = next;
    }
    write_type(writer, &type, depth + 1);
}

static void write_function(struct writer *writer, Dwarf_Die *die, int depth)
{
    Dwarf_Die child;
    size_t count = 0;
    cadre_buffer_puts(&writer->text, "f(");
    if (dwarf_child(die, &child) == 0) {
        do {
            int tag = dwarf_tag(&child);
            if (tag == DW_TAG_unspecified_parameters) {
                cadre_buffer_puts(&writer->text, "...");
                count++;
            }
            if (tag != DW_TAG_formal_parameter) continue;
            if (count++) cadre_buffer_puts(&writer->text, ",");
            write_unqualified(writer, &child, depth);
        } while (dwarf_siblingof(&child, &child) == 0);
    }
    cadre_buffer_puts(&writer->text, ")");
    write_unqualified(writer, die, depth);
}

static bool already_written(struct writer *writer, Dwarf_Die *die)
{
    Dwarf_Off offset = dwarf_dieoffset(die);
    for (size_t i = 0; i < writer->seen_count; i++) {
        if (writer->seen[i] != offset) continue;
        cadre_buffer_printf(&writer->text, "#%zu", i);
        return true;
    }
    if (writer->seen_count == writer->seen_capacity) {
        size_t capacity = writer->seen_capacity * 2 + 16;
        Dwarf_Off *grown = realloc(writer->seen, capacity * sizeof *grown);
        if (!grown) {
            writer->text.failed = true;
            return true;
        }
        writer->seen = grown;
        writer->seen_capacity = capacity;
    }
    writer->seen[writer->seen_count++] = offset;
    return false;
}

static void write_structure(struct writer *writer, Dwarf_Die *die, int depth, char letter)
{
    Dwarf_Die child;
    const char *name = dwarf_diename(die);
    if (already_written(writer, die)) return;
    cadre_buffer_printf(&writer->text, "%c%s", letter, name ? name : "");
    if (cadre_die_flag(die, DW_AT_declaration)) return;
    cadre_buffer_printf(&writer->text, "{%lld",
                        (long long)cadre_die_number(die, DW_AT_byte_size, -1));
    if (dwarf_child(die, &child) == 0) {
        do {
            if (dwarf_tag(&child) != DW_TAG_member) continue;
            name = dwarf_diename(&child);
            int64_t bits = cadre_die_number(&child, DW_AT_bit_size, -1);
            cadre_buffer_printf(&writer->text, ";%s@%lld", name ? name : "",
                                (long long)cadre_die_number(&child, DW_AT_data_member_location, 0));
            if (bits >= 0) {
                cadre_buffer_printf(
                    &writer->text, ".%lld:%lld",
                    (long long)cadre_die_number(&child, DW_AT_data_bit_offset,
                                                cadre_die_number(&child, DW_AT_bit_offset, 0)),
                    (long long)bits);
            }
            cadre_buffer_puts(&writer->text, "=");
            write_type_of(writer, &child, depth);
        } while (dwarf_siblingof(&child, &child) == 0);
    }
    cadre_buffer_puts(&writer->text, "}");
}

static void write_array(struct writer *writer, Dwarf_Die *die, int depth)
{
    Dwarf_Die child;
    cadre_buffer_puts(&writer->text, cadre_die_flag(die, DW_AT_GNU_vector) ? "V" : "A");
    if (dwarf_child(die, &child) == 0) {
        do {
            if (dwarf_tag(&child) != DW_TAG_subrange_type) continue;
            int64_t bound = cadre_type_bound(&child);
            if (bound < 0)
                cadre_buffer_puts(&writer->text, "[]");
            else
                cadre_buffer_printf(&writer->text, "[%lld]", (long long)bound);
        } while (dwarf_siblingof(&child, &child) == 0);
    }
    write_type_of(writer, die, depth);
}

static char encoding_letter(int64_t encoding)
{
    switch (encoding) {
    case DW_ATE_boolean: return 'b';
    case DW_ATE_complex_float: return 'C';
    case DW_ATE_float: return 'd';
    case DW_ATE_signed: return 'i';
    case DW_ATE_signed_char: return 'c';
    case DW_ATE_unsigned: return 'u';
    case DW_ATE_unsigned_char: return 'h';
    case DW_ATE_decimal_float: return 'D';
    default: return '?';
    }
}

static void write_type(struct writer *writer, Dwarf_Die *die, int depth)
{
    Dwarf_Die next;
    if (depth > DEPTH_LIMIT || writer->text.length > SIGNATURE_LIMIT) {
        cadre_buffer_puts(&writer->text, "~");
        return;
    }
    int64_t size = cadre_die_number(die, DW_AT_byte_size, -1);
    int64_t encoding = cadre_die_number(die, DW_AT_encoding, 0);
    const char *name = dwarf_diename(die);
    switch (dwarf_tag(die)) {
    case DW_TAG_typedef:
    case DW_TAG_restrict_type: write_type_of(writer, die, depth); break;
    case DW_TAG_const_type:
        cadre_buffer_puts(&writer->text, "k");
        write_type_of(writer, die, depth);
        break;
    case DW_TAG_volatile_type:
        cadre_buffer_puts(&writer->text, "w");
        write_type_of(writer, die, depth);
        break;
    case DW_TAG_atomic_type:
        cadre_buffer_puts(&writer->text, "a");
        write_type_of(writer, die, depth);
        break;
    case DW_TAG_base_type:
        cadre_buffer_printf(&writer->text, "%c%lld", encoding_letter(encoding), (long long)size);
        /* long double and _Float128, _Float16 and __bf16 differ by name alone; so does char. */
        if (name && (strstr(name, "128") || strstr(name, "16") || !strcmp(name, "char")))
            cadre_buffer_printf(&writer->text, "<%s>", name);
        break;
    case DW_TAG_pointer_type:
        cadre_buffer_puts(&writer->text, "*");
        write_type_of(writer, die, depth);
        break;
    case DW_TAG_structure_type: write_structure(writer, die, depth, 'S'); break;
    case DW_TAG_union_type: write_structure(writer, die, depth, 'U'); break;
    case DW_TAG_enumeration_type:
        cadre_buffer_printf(&writer->text, "E%s:%lld%s", name ? name : "", (long long)size,
                            cadre_type_of(die, &next) &&
                                    cadre_die_number(&next, DW_AT_encoding, 0) == DW_ATE_signed
                                ? "s"
                                : "u");
        break;
    case DW_TAG_array_type: write_array(writer, die, depth); break;
    case DW_TAG_subroutine_type: write_function(writer, die, depth); break;
    default: cadre_buffer_printf(&writer->text, "?%s", name ? name : ""); break;
    }
}

char *cadre_types_signature(cadre_types *types, const char *name)
{
    struct writer writer = {0};
    Dwarf_Die die;
    if (!cadre_types_find(types, name, &die)) return NULL;
    if (dwarf_tag(&die) == DW_TAG_subprogram)
        write_function(&writer, &die, 0);
    else
        write_type_of(&writer, &die, 0);
    free(writer.seen);
    return cadre_buffer_steal(&writer.text);
}

/* ---- as C writes them ---- */

/* A declarator grows around its middle: what is before the name and what comes after it. */
struct declarator {
    cadre_buffer base, before, after;
};

static void prepend(cadre_buffer *text, const char *piece)
{
    cadre_buffer joined = {0};
    cadre_buffer_puts(&joined, piece);
    if (text->data) cadre_buffer_puts(&joined, text->data);
    cadre_buffer_free(text);
    *text = joined;
}

static void append_suffix(cadre_buffer *after, Dwarf_Die *die, int depth);

static void declare(struct declarator *declarator, Dwarf_Die *die, bool is_void, int depth)
{
    Dwarf_Die next;
    int tag = is_void ? 0 : dwarf_tag(die);
    bool more = !is_void && depth < DEPTH_LIMIT && cadre_type_of(die, &next);
    const char *name = is_void ? NULL : dwarf_diename(die);
    const char *keyword = tag == DW_TAG_structure_type     ? "struct "
                          : tag == DW_TAG_union_type       ? "union "
                          : tag == DW_TAG_enumeration_type ? "enum "
                                                           : "";
    const char *qualifier = tag == DW_TAG_const_type      ? "const"
                            : tag == DW_TAG_volatile_type ? "volatile"
                            : tag == DW_TAG_restrict_type ? "restrict"
                            : tag == DW_TAG_atomic_type   ? "_Atomic"
                                                          : NULL;
    if (qualifier) {
        int target = more ? dwarf_tag(&next) : 0;
        /* An array is as const as its elements, which say so themselves. */
        if (target == DW_TAG_array_type) {
            declare(declarator, &next, false, depth + 1);
            return;
        }
        if (target == DW_TAG_pointer_type) {
            prepend(&declarator->before, " ");
            prepend(&declarator->before, qualifier);
        } else {
            cadre_buffer_printf(&declarator->base, "%s ", qualifier);
        }
        declare(declarator, &next, !more, depth + 1);
        return;
    }
    switch (tag) {
    case DW_TAG_pointer_type: {
        int target = more ? dwarf_tag(&next) : 0;
        bool wrap = target == DW_TAG_subroutine_type || target == DW_TAG_array_type;
        prepend(&declarator->before, wrap ? "(*" : "*");
        if (wrap) cadre_buffer_puts(&declarator->after, ")");
        declare(declarator, &next, !more, depth + 1);
        return;
    }
    case DW_TAG_array_type:
    case DW_TAG_subroutine_type:
    case DW_TAG_subprogram:
        append_suffix(&declarator->after, die, depth);
        declare(declarator, &next, !more, depth + 1);
        return;
    default:
        cadre_buffer_printf(&declarator->base, "%s%s", keyword,
                            is_void    ? "void"
                            : name     ? name
                            : *keyword ? "{...}"
                                       : "?");
    }
}

static void write_name(Dwarf_Die *die, bool is_void, cadre_buffer *text, int depth)
{
    struct declarator declarator = {0};
    declare(&declarator, die, is_void, depth);
    cadre_buffer_puts(text, declarator.base.data ? declarator.base.data : "?");
    if (declarator.before.length || declarator.after.length) cadre_buffer_puts(text, " ");
    if (declarator.before.length) {
        size_t length = declarator.before.length;
        while (length && declarator.before.data[length - 1] == ' ')
            length--;
        cadre_buffer_append(text, declarator.before.data, length);
    }
    if (declarator.after.length) cadre_buffer_puts(text, declarator.after.data);
    cadre_buffer_free(&declarator.base);
    cadre_buffer_free(&declarator.before);
    cadre_buffer_free(&declarator.after);
}

static void append_suffix(cadre_buffer *after, Dwarf_Die *die, int depth)
{
    Dwarf_Die child, type;
    bool function = dwarf_tag(die) != DW_TAG_array_type;
    size_t count = 0;
    if (function) cadre_buffer_puts(after, "(");
    if (dwarf_child(die, &child) == 0) {
        do {
            int tag = dwarf_tag(&child);
            if (!function && tag == DW_TAG_subrange_type) {
                int64_t bound = cadre_type_bound(&child);
                if (bound < 0)
                    cadre_buffer_puts(after, "[]");
                else
                    cadre_buffer_printf(after, "[%lld]", (long long)bound);
            } else if (function && tag == DW_TAG_formal_parameter) {
                if (count++) cadre_buffer_puts(after, ", ");
                bool known = cadre_type_of(&child, &type);
                if (after->length > 2000 || depth > 20)
                    cadre_buffer_puts(after, "...");
                else
                    write_name(&type, !known, after, depth + 10);
            } else if (function && tag == DW_TAG_unspecified_parameters) {
                cadre_buffer_puts(after, count++ ? ", ..." : "");
            }
        } while (dwarf_siblingof(&child, &child) == 0);
    }
    if (function) cadre_buffer_puts(after, count ? ")" : "void)");
}

void cadre_type_write(Dwarf_Die *type, cadre_buffer *text)
{
    write_name(type, false, text, 0);
}

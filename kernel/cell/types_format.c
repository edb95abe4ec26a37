/* A value in the host's memory as text.
 *
 * Everything in that memory is hostile: pointers lead anywhere, lists run in circles, enumerations
 * hold other numbers. Memory comes only through the reader; depth, elements and output have limits.
 */
#include "cell/types_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_LIMIT 32
#define ELEMENT_LIMIT 100
#define STRING_LIMIT 1000
#define OUTPUT_LIMIT ((size_t)100 * 1000)
#define VALUE_LIMIT 20000 /* scalars written in all */
#define LINE_WIDTH 88
#define PAGE ((uint64_t)4096)

struct view {
    cadre_memory_reader read;
    void *context;
    cadre_symbolizer symbol;
    unsigned char page[4096]; /* the last page read */
    uint64_t page_address;
    bool page_valid;
    size_t written, values; /* since the start, for the limits */
};

static bool fetch(struct view *view, uint64_t address, void *into, size_t length)
{
    unsigned char *bytes = into;
    while (length) {
        uint64_t page = address & ~(PAGE - 1);
        size_t offset = (size_t)(address - page), n = (size_t)PAGE - offset;
        if (n > length) n = length;
        if (!view->page_valid || view->page_address != page) {
            view->page_valid = view->read(view->context, page, view->page, sizeof view->page);
            view->page_address = page;
        }
        if (view->page_valid) {
            memcpy(bytes, view->page + offset, n);
        } else if (!view->read(view->context, address, bytes, n)) {
            return false;
        }
        address += n;
        bytes += n;
        length -= n;
    }
    return true;
}

static bool spent(const struct view *view)
{
    return view->written > OUTPUT_LIMIT || view->values > VALUE_LIMIT;
}

static void format_value(struct view *view, cadre_buffer *text, Dwarf_Die *type, uint64_t address,
                         int depth);

/* ---- strings ---- */

/* Bytes of one character when the type is one: char, or what is called wchar_t, char16_t ... */
static size_t character_width(Dwarf_Die *type)
{
    Dwarf_Die step = *type, next;
    for (int i = 0; i < DEPTH_LIMIT; i++) {
        const char *name = dwarf_diename(&step);
        int tag = dwarf_tag(&step);
        if (tag == DW_TAG_typedef && name) {
            if (!strcmp(name, "wchar_t") || !strcmp(name, "char32_t")) return 4;
            if (!strcmp(name, "char16_t")) return 2;
        }
        if (tag == DW_TAG_base_type) {
            int64_t encoding = cadre_die_number(&step, DW_AT_encoding, 0);
            int64_t size = cadre_die_number(&step, DW_AT_byte_size, 0);
            if (encoding == DW_ATE_UTF && size <= 4) return (size_t)size;
            return name && !strcmp(name, "char") ? 1 : 0;
        }
        if (tag != DW_TAG_typedef && tag != DW_TAG_const_type && tag != DW_TAG_volatile_type)
            return 0;
        if (!cadre_type_of(&step, &next)) return 0;
        step = next;
    }
    return 0;
}

/* A string of at most `room` units. False when not even its first unit can be read. */
static bool format_string(struct view *view, cadre_buffer *text, uint64_t address, size_t width,
                          size_t room)
{
    unsigned char units[(STRING_LIMIT + 1) * 4];
    size_t limit = room < STRING_LIMIT ? room : STRING_LIMIT, count = 0;
    bool ended = false;
    while (count < limit) {
        uint32_t unit = 0;
        if (!fetch(view, address + count * width, &unit, width)) {
            if (!count) return false;
            break;
        }
        ended = unit == 0;
        if (ended) break;
        memcpy(units + count++ * width, &unit, width);
    }
    cadre_string_write(text, units, count, width, !ended && count == limit && limit < room);
    return true;
}

/* ---- pointers ---- */

static void format_pointer(struct view *view, cadre_buffer *text, Dwarf_Die *type, Dwarf_Die *plain,
                           uint64_t address, int depth)
{
    uint64_t target;
    Dwarf_Die pointee, pointee_plain;
    if (!fetch(view, address, &target, sizeof target)) {
        cadre_buffer_puts(text, "<unreadable>");
        return;
    }
    if (!target) {
        cadre_buffer_puts(text, "NULL");
        return;
    }
    bool known = cadre_type_of(plain, &pointee) && cadre_type_strip(&pointee, &pointee_plain);
    int tag = known ? dwarf_tag(&pointee_plain) : 0;
    if (tag == DW_TAG_subroutine_type && view->symbol) {
        const char *name = view->symbol(view->context, target);
        if (name) {
            cadre_buffer_puts(text, name);
            return;
        }
    }
    size_t width = known ? character_width(&pointee) : 0;
    if (width && format_string(view, text, target, width, SIZE_MAX)) return;
    cadre_buffer_puts(text, "(");
    cadre_type_write(type, text);
    cadre_buffer_printf(text, ") 0x%llx", (unsigned long long)target);
    /* Followed once, and only from the value itself: lists and trees would not end. */
    unsigned char probe;
    if (depth == 0 && (tag == DW_TAG_structure_type || tag == DW_TAG_union_type) &&
        cadre_type_size(&pointee) > 0 && fetch(view, target, &probe, 1)) {
        cadre_buffer_puts(text, " -> ");
        format_value(view, text, &pointee, target, 1);
    }
}

/* ---- enumerations ---- */

static int64_t extend(uint64_t bits, size_t size, bool is_signed)
{
    if (size >= 8) return (int64_t)bits;
    uint64_t sign = (uint64_t)1 << (8 * size - 1);
    return is_signed ? (int64_t)((bits ^ sign) - sign) : (int64_t)bits;
}

static int64_t enumerator_value(Dwarf_Die *die, size_t size)
{
    int64_t value = cadre_die_number(die, DW_AT_const_value, 0);
    /* Fixed-size forms leave open whether a number is negative: only its low bytes count. */
    return size >= 8 ? value : (int64_t)((uint64_t)value & (((uint64_t)1 << (8 * size)) - 1));
}

static void format_enumeration(cadre_buffer *text, Dwarf_Die *plain, uint64_t bits, size_t size)
{
    Dwarf_Die child, base;
    bool is_signed =
        cadre_type_of(plain, &base) && cadre_die_number(&base, DW_AT_encoding, 0) == DW_ATE_signed;
    bool some = dwarf_child(plain, &child) == 0, flags = true;
    if (size < 8) bits &= ((uint64_t)1 << (8 * size)) - 1;
    if (some) {
        do {
            if (dwarf_tag(&child) != DW_TAG_enumerator) continue;
            uint64_t value = (uint64_t)enumerator_value(&child, size);
            if (value & (value - 1)) flags = false;
            if (value != bits) continue;
            cadre_buffer_puts(text, dwarf_diename(&child) ? dwarf_diename(&child) : "?");
            return;
        } while (dwarf_siblingof(&child, &child) == 0);
    }
    /* Every enumerator is a single bit: a combination of them. */
    uint64_t left = bits;
    cadre_buffer names = {0};
    if (some && flags && bits && dwarf_child(plain, &child) == 0) {
        do {
            if (dwarf_tag(&child) != DW_TAG_enumerator) continue;
            uint64_t value = (uint64_t)enumerator_value(&child, size);
            if (!value || (left & value) != value || !dwarf_diename(&child)) continue;
            cadre_buffer_printf(&names, "%s%s", names.length ? " | " : "", dwarf_diename(&child));
            left &= ~value;
        } while (dwarf_siblingof(&child, &child) == 0);
    }
    if (names.length && !left)
        cadre_buffer_puts(text, names.data);
    else
        cadre_buffer_printf(text, is_signed ? "%lld" : "%llu",
                            (long long)extend(bits, size, is_signed));
    cadre_buffer_free(&names);
}

/* ---- structures ---- */

static uint64_t read_bits(const unsigned char *bytes, size_t available, uint64_t first,
                          unsigned count)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < count && i < 64; i++) {
        uint64_t bit = first + i;
        if (bit / 8 >= available) break;
        value |= (uint64_t)(bytes[bit / 8] >> (bit % 8) & 1) << i;
    }
    return value;
}

static void format_bit_field(struct view *view, cadre_buffer *text, Dwarf_Die *member,
                             Dwarf_Die *type, uint64_t address, int64_t bits)
{
    Dwarf_Die plain;
    unsigned char bytes[16] = {0};
    int64_t offset = cadre_die_number(member, DW_AT_data_member_location, 0);
    int64_t first = cadre_die_number(member, DW_AT_data_bit_offset, -1);
    if (first < 0) {
        /* DWARF 3 counts from the most significant bit of the storage unit. */
        int64_t from_top = cadre_die_number(member, DW_AT_bit_offset, 0);
        int64_t unit = cadre_die_number(member, DW_AT_byte_size, cadre_type_size(type));
        first = offset * 8 + unit * 8 - from_top - bits;
    }
    if (first < 0 || bits < 0 || bits > 64 || !cadre_type_strip(type, &plain)) {
        cadre_buffer_puts(text, "?");
        return;
    }
    size_t needed = (size_t)((first % 8 + bits + 7) / 8);
    if (!fetch(view, address + (uint64_t)first / 8, bytes, needed)) {
        cadre_buffer_puts(text, "<unreadable>");
        return;
    }
    uint64_t value = read_bits(bytes, needed, (uint64_t)first % 8, (unsigned)bits);
    int64_t encoding = cadre_die_number(&plain, DW_AT_encoding, DW_ATE_unsigned);
    if (bits && bits < 64 && (encoding == DW_ATE_signed || encoding == DW_ATE_signed_char) &&
        value >> (bits - 1) & 1)
        value |= ~(uint64_t)0 << bits;
    if (dwarf_tag(&plain) == DW_TAG_enumeration_type) {
        int64_t size = cadre_type_size(&plain);
        Dwarf_Die base;
        if (bits && bits < 64 && cadre_type_of(&plain, &base) &&
            cadre_die_number(&base, DW_AT_encoding, 0) == DW_ATE_signed && value >> (bits - 1) & 1)
            value |= ~(uint64_t)0 << bits;
        format_enumeration(text, &plain, value, size > 0 && size <= 8 ? (size_t)size : 8);
    } else if (encoding == DW_ATE_boolean) {
        cadre_buffer_puts(text, value ? "true" : "false");
    } else {
        unsigned char wide[8];
        memcpy(wide, &value, sizeof wide);
        cadre_integer_write(text, wide, 8,
                            encoding == DW_ATE_signed || encoding == DW_ATE_signed_char);
    }
}

struct members {
    cadre_buffer *parts; /* ".name = value" each */
    size_t count, capacity;
    size_t width;
    bool tall;
};

static cadre_buffer *add_member(struct members *members)
{
    if (members->count == members->capacity) {
        size_t capacity = members->capacity * 2 + 8;
        cadre_buffer *grown = realloc(members->parts, capacity * sizeof *grown);
        if (!grown) return NULL;
        members->parts = grown;
        members->capacity = capacity;
    }
    members->parts[members->count] = (cadre_buffer){0};
    return &members->parts[members->count++];
}

static void collect_members(struct view *view, struct members *members, Dwarf_Die *plain,
                            uint64_t address, int depth)
{
    Dwarf_Die child, type, inner;
    if (dwarf_child(plain, &child) != 0) return;
    do {
        if (dwarf_tag(&child) != DW_TAG_member || !cadre_type_of(&child, &type)) continue;
        if (spent(view) || members->count >= 500) {
            cadre_buffer *rest = add_member(members);
            if (rest) cadre_buffer_puts(rest, "…");
            return;
        }
        const char *name = dwarf_diename(&child);
        int64_t offset = cadre_die_number(&child, DW_AT_data_member_location, 0);
        int64_t bits = cadre_die_number(&child, DW_AT_bit_size, -1);
        uint64_t place = address + (uint64_t)offset;
        if (!name && cadre_type_strip(&type, &inner) && depth < DEPTH_LIMIT) {
            /* Members of an anonymous one are named as the outer one's own. */
            collect_members(view, members, &inner, place, depth + 1);
            continue;
        }
        cadre_buffer *part = add_member(members);
        if (!part) return;
        cadre_buffer_printf(part, ".%s = ", name ? name : "?");
        if (bits >= 0)
            format_bit_field(view, part, &child, &type, address, bits);
        else
            format_value(view, part, &type, place, depth + 1);
        members->width += part->length + 2;
        if (part->data && strchr(part->data, '\n')) members->tall = true;
    } while (dwarf_siblingof(&child, &child) == 0);
}

/* Copies text with every line after the first set in. */
static void put_indented(cadre_buffer *text, const char *piece, const char *indent)
{
    for (const char *end; (end = strchr(piece, '\n')) != NULL; piece = end + 1) {
        cadre_buffer_append(text, piece, (size_t)(end - piece) + 1);
        cadre_buffer_puts(text, indent);
    }
    cadre_buffer_puts(text, piece);
}

static void format_structure(struct view *view, cadre_buffer *text, Dwarf_Die *plain,
                             uint64_t address, int depth)
{
    struct members members = {0};
    collect_members(view, &members, plain, address, depth);
    bool tall = members.tall || members.width > LINE_WIDTH;
    cadre_buffer_puts(text, "{");
    for (size_t i = 0; i < members.count; i++) {
        if (i) cadre_buffer_puts(text, tall ? "," : ", ");
        if (tall) cadre_buffer_puts(text, "\n    ");
        if (members.parts[i].data) put_indented(text, members.parts[i].data, "    ");
        cadre_buffer_free(&members.parts[i]);
    }
    cadre_buffer_puts(text, tall ? "\n}" : "}");
    free(members.parts);
}

/* ---- arrays ---- */

#define DIMENSION_LIMIT 8

struct array {
    Dwarf_Die element;
    int64_t counts[DIMENSION_LIMIT];
    size_t dimensions;
    int64_t size; /* of one element */
};

static bool read_array(Dwarf_Die *plain, struct array *array)
{
    Dwarf_Die child, type = *plain, inner;
    array->dimensions = 0;
    /* Dimensions come as children of one type, or as arrays of arrays through typedefs. */
    for (int level = 0; level < DIMENSION_LIMIT; level++) {
        if (dwarf_child(&type, &child) == 0) {
            do {
                if (dwarf_tag(&child) != DW_TAG_subrange_type) continue;
                if (array->dimensions == DIMENSION_LIMIT) return false;
                array->counts[array->dimensions++] = cadre_type_bound(&child);
            } while (dwarf_siblingof(&child, &child) == 0);
        }
        if (!cadre_type_of(&type, &array->element) || !cadre_type_strip(&array->element, &inner))
            return false;
        if (dwarf_tag(&inner) != DW_TAG_array_type ||
            cadre_die_flag(&inner, DW_AT_GNU_vector) != cadre_die_flag(&type, DW_AT_GNU_vector))
            break;
        type = inner;
    }
    array->size = cadre_type_size(&array->element);
    return array->dimensions > 0 && array->size >= 0;
}

static void format_dimension(struct view *view, cadre_buffer *text, struct array *array,
                             size_t dimension, uint64_t address, int depth)
{
    int64_t count = array->counts[dimension];
    uint64_t step = (uint64_t)array->size;
    bool rows = dimension + 1 < array->dimensions;
    for (size_t i = dimension + 1; i < array->dimensions; i++)
        step *= (uint64_t)(array->counts[i] < 0 ? 0 : array->counts[i]);
    size_t width = character_width(&array->element);
    if (!rows && width && count > 0) {
        if (!format_string(view, text, address, width, (size_t)count))
            cadre_buffer_puts(text, "<unreadable>");
        return;
    }
    if (count < 0) {
        cadre_buffer_puts(text, "{…}");
        return;
    }
    size_t column = 1;
    bool tall = rows;
    cadre_buffer_puts(text, "{");
    for (int64_t i = 0; i < count; i++) {
        if (i == ELEMENT_LIMIT || spent(view)) {
            cadre_buffer_printf(text, "%s… (%lld %s)}", tall && rows ? ",\n " : ", ",
                                (long long)count, rows ? "rows" : "elements");
            return;
        }
        cadre_buffer element = {0};
        uint64_t place = address + (uint64_t)i * step;
        if (rows)
            format_dimension(view, &element, array, dimension + 1, place, depth);
        else
            format_value(view, &element, &array->element, place, depth + 1);
        bool many_lines = element.data && strchr(element.data, '\n');
        if (i && (rows || many_lines || column + element.length > LINE_WIDTH)) {
            cadre_buffer_puts(text, ",\n ");
            column = 1;
        } else if (i) {
            cadre_buffer_puts(text, ", ");
            column += 2;
        }
        column += element.length;
        if (many_lines) column = LINE_WIDTH;
        put_indented(text, element.data ? element.data : "", " ");
        cadre_buffer_free(&element);
    }
    cadre_buffer_puts(text, "}");
}

/* ---- any value ---- */

static void format_base(struct view *view, cadre_buffer *text, Dwarf_Die *type, Dwarf_Die *plain,
                        uint64_t address)
{
    unsigned char bytes[64];
    int64_t size = cadre_die_number(plain, DW_AT_byte_size, -1);
    if (size <= 0 || size > (int64_t)sizeof bytes) {
        cadre_buffer_puts(text, "?");
        return;
    }
    if (!fetch(view, address, bytes, (size_t)size)) {
        cadre_buffer_puts(text, "<unreadable>");
        return;
    }
    if (dwarf_tag(plain) == DW_TAG_enumeration_type) {
        uint64_t bits = 0;
        memcpy(&bits, bytes, size < 8 ? (size_t)size : 8);
        format_enumeration(text, plain, bits, size < 8 ? (size_t)size : 8);
        return;
    }
    size_t width = character_width(type);
    if (width > 1 && width == (size_t)size) {
        uint32_t unit = 0;
        memcpy(&unit, bytes, width);
        cadre_character_write(text, unit, width);
        return;
    }
    if (!cadre_scalar_write(text, (unsigned)cadre_die_number(plain, DW_AT_encoding, 0),
                            dwarf_diename(plain), bytes, (size_t)size))
        cadre_buffer_puts(text, "?");
}

static void format_value(struct view *view, cadre_buffer *text, Dwarf_Die *type, uint64_t address,
                         int depth)
{
    Dwarf_Die plain;
    struct array array;
    size_t before = text->length;
    view->values++;
    if (depth > DEPTH_LIMIT || spent(view)) {
        cadre_buffer_puts(text, "…");
        return;
    }
    if (!cadre_type_strip(type, &plain)) {
        cadre_buffer_puts(text, "?");
        return;
    }
    switch (dwarf_tag(&plain)) {
    case DW_TAG_base_type:
    case DW_TAG_enumeration_type: format_base(view, text, type, &plain, address); break;
    case DW_TAG_pointer_type: format_pointer(view, text, type, &plain, address, depth); break;
    case DW_TAG_structure_type:
    case DW_TAG_union_type: format_structure(view, text, &plain, address, depth); break;
    case DW_TAG_array_type:
        if (read_array(&plain, &array))
            format_dimension(view, text, &array, 0, address, depth);
        else
            cadre_buffer_puts(text, "{…}");
        break;
    default: cadre_buffer_puts(text, "?");
    }
    /* Containers count their parts' bytes again: a limit, not an exact figure. */
    view->written += text->length - before;
}

static char *finish(cadre_buffer *text)
{
    if (text->length > OUTPUT_LIMIT && text->data) {
        size_t cut = OUTPUT_LIMIT;
        while (cut && ((unsigned char)text->data[cut] & 0xc0) == 0x80)
            cut--;
        text->data[cut] = 0;
        text->length = cut;
        cadre_buffer_puts(text, "…");
    }
    return cadre_buffer_steal(text);
}

char *cadre_types_format(cadre_types *types, const char *pointer_variable, uint64_t address,
                         size_t size, cadre_memory_reader read, void *context,
                         cadre_symbolizer symbol)
{
    Dwarf_Die variable, pointer, type, plain;
    (void)size;
    if (!cadre_types_find(types, pointer_variable, &variable) ||
        !cadre_type_of(&variable, &pointer) || !cadre_type_strip(&pointer, &plain) ||
        dwarf_tag(&plain) != DW_TAG_pointer_type || !cadre_type_of(&plain, &type) ||
        !cadre_type_strip(&type, &plain))
        return NULL;
    struct view *view = calloc(1, sizeof *view);
    cadre_buffer text = {0};
    if (!view) return NULL;
    view->read = read;
    view->context = context;
    view->symbol = symbol;
    int tag = dwarf_tag(&plain);
    bool decayed = tag == DW_TAG_subroutine_type ||
                   (tag == DW_TAG_array_type && !cadre_die_flag(&plain, DW_AT_GNU_vector));
    if (decayed && !fetch(view, address, &address, sizeof address)) {
        cadre_buffer_puts(&text, "<unreadable>");
    } else if (tag == DW_TAG_subroutine_type) {
        const char *name = symbol ? symbol(context, address) : NULL;
        if (name) {
            cadre_buffer_puts(&text, name);
        } else {
            cadre_buffer_puts(&text, "(");
            cadre_type_write(&pointer, &text);
            cadre_buffer_printf(&text, ") 0x%llx", (unsigned long long)address);
        }
    } else {
        format_value(view, &text, &type, address, 0);
    }
    free(view);
    return finish(&text);
}

char *cadre_types_format_array(cadre_types *types, const char *pointer_variable, uint64_t address,
                               const size_t *dimensions, size_t dimension_count,
                               cadre_memory_reader read, void *context, cadre_symbolizer symbol)
{
    Dwarf_Die variable, pointer, plain;
    struct array array = {.dimensions = dimension_count};
    if (!dimension_count || dimension_count > DIMENSION_LIMIT ||
        !cadre_types_find(types, pointer_variable, &variable) ||
        !cadre_type_of(&variable, &pointer) || !cadre_type_strip(&pointer, &plain) ||
        dwarf_tag(&plain) != DW_TAG_pointer_type || !cadre_type_of(&plain, &array.element))
        return NULL;
    array.size = cadre_type_size(&array.element);
    for (size_t i = 0; i < dimension_count; i++)
        array.counts[i] = dimensions[i] > INT64_MAX ? 0 : (int64_t)dimensions[i];
    struct view *view = calloc(1, sizeof *view);
    cadre_buffer text = {0};
    if (!view || array.size < 0) {
        free(view);
        return NULL;
    }
    view->read = read;
    view->context = context;
    view->symbol = symbol;
    format_dimension(view, &text, &array, 0, address, 0);
    free(view);
    return finish(&text);
}

char *cadre_types_format_variable(cadre_types *types, const char *name, uint64_t address,
                                  cadre_memory_reader read, void *context, cadre_symbolizer symbol)
{
    Dwarf_Die variable, type;
    if (!cadre_types_find(types, name, &variable) || !cadre_type_of(&variable, &type)) return NULL;
    struct view *view = calloc(1, sizeof *view);
    cadre_buffer text = {0};
    if (!view) return NULL;
    view->read = read;
    view->context = context;
    view->symbol = symbol;
    format_value(view, &text, &type, address, 0);
    free(view);
    return finish(&text);
}

char *cadre_types_name(cadre_types *types, const char *name)
{
    Dwarf_Die die, type;
    cadre_buffer text = {0};
    if (!cadre_types_find(types, name, &die)) return NULL;
    if (dwarf_tag(&die) == DW_TAG_subprogram)
        cadre_type_write(&die, &text);
    else if (cadre_type_of(&die, &type))
        cadre_type_write(&type, &text);
    return cadre_buffer_steal(&text);
}

/* Why the host died, in words, and where, in the cells' own lines. */
#include "host/front.h"

#include "cell/types.h"

#include <elf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define RED "\x1b[0;31m"
#define GREEN "\x1b[0;32m"
#define CYAN "\x1b[0;36m"
#define PLAIN "\x1b[0m"
#define KEPT_LIMIT ((size_t)64 << 20) /* objects kept for lines; the oldest are forgotten */

/* ---- cells that were run */

static const Elf64_Shdr *sections_of(const unsigned char *object, size_t length, size_t *count)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)object;
    if (!object || length < sizeof *header || (uintptr_t)object % 8 ||
        memcmp(object, ELFMAG, SELFMAG) != 0 || header->e_shentsize != sizeof(Elf64_Shdr) ||
        header->e_shoff % 8 || header->e_shoff > length)
        return NULL;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(object + header->e_shoff);
    if ((length - header->e_shoff) / sizeof *sections == 0) return NULL;
    *count = header->e_shnum ? header->e_shnum : sections[0].sh_size;
    return *count <= (length - header->e_shoff) / sizeof *sections ? sections : NULL;
}

bool front_defines(const unsigned char *object, size_t length, const char *entry)
{
    size_t count = 0;
    const Elf64_Shdr *sections = sections_of(object, length, &count);
    if (!sections) return true;
    for (size_t i = 0; i < count; i++) {
        const Elf64_Shdr *table = &sections[i];
        if (table->sh_type != SHT_SYMTAB) continue;
        if (table->sh_link >= count || table->sh_offset % 8) return true;
        const Elf64_Shdr *names = &sections[table->sh_link];
        if (table->sh_offset > length || table->sh_size > length - table->sh_offset ||
            names->sh_offset > length || names->sh_size > length - names->sh_offset ||
            names->sh_size == 0 || object[names->sh_offset + names->sh_size - 1] != 0)
            return true;
        const Elf64_Sym *symbols = (const Elf64_Sym *)(object + table->sh_offset);
        for (size_t j = 0; j < table->sh_size / sizeof *symbols; j++) {
            const Elf64_Sym *symbol = &symbols[j];
            if (symbol->st_shndx == SHN_UNDEF || symbol->st_name >= names->sh_size) continue;
            if (ELF64_ST_BIND(symbol->st_info) == STB_LOCAL) continue;
            const char *name = (const char *)object + names->sh_offset + symbol->st_name;
            if (!entry || strcmp(name, entry) != 0) return true;
        }
    }
    return false;
}

static void forget(cadre_host *host, struct kept_cell *kept)
{
    for (size_t i = 0; i < kept->count; i++) {
        host->kept_bytes -= kept->lengths[i];
        free(kept->objects[i]);
    }
    free(kept->objects);
    free(kept->lengths);
    free(kept->label);
}

void front_forget_cells(cadre_host *host)
{
    for (size_t i = 0; i < host->kept_count; i++)
        forget(host, &host->kept[i]);
    free(host->kept);
    host->kept = NULL;
    host->kept_count = host->kept_capacity = 0;
}

void front_keep_cell(cadre_host *host, const cadre_cell *cell)
{
    struct kept_cell kept = {.execution_count = cell->execution_count};
    bool defines = false;
    for (size_t i = 0; i < cell->segment_count; i++) {
        const cadre_segment *segment = &cell->segments[i];
        defines |= front_defines(segment->object, segment->object_length, segment->entry);
    }
    if (!defines) return; /* none of its functions can be on the stack again */
    for (size_t i = 0; i < host->kept_count; i++) { /* the same text, run once more */
        if (!cell->file_name || strcmp(host->kept[i].label, cell->file_name) != 0) continue;
        forget(host, &host->kept[i]);
        host->kept[i] = host->kept[--host->kept_count];
        break;
    }
    if (host->kept_count == host->kept_capacity) {
        size_t capacity = host->kept_capacity ? 2 * host->kept_capacity : 32;
        struct kept_cell *grown = realloc(host->kept, capacity * sizeof *grown);
        if (!grown) return;
        host->kept = grown;
        host->kept_capacity = capacity;
    }
    kept.label = strdup(cell->file_name ? cell->file_name : "");
    kept.objects = calloc(cell->segment_count, sizeof *kept.objects);
    kept.lengths = calloc(cell->segment_count, sizeof *kept.lengths);
    if (!kept.label || !kept.objects || !kept.lengths) {
        forget(host, &kept);
        return;
    }
    for (size_t i = 0; i < cell->segment_count; i++) {
        const cadre_segment *segment = &cell->segments[i];
        unsigned char *copy = segment->object ? malloc(segment->object_length) : NULL;
        if (!copy) continue;
        memcpy(copy, segment->object, segment->object_length);
        kept.objects[kept.count] = copy;
        kept.lengths[kept.count++] = segment->object_length;
        host->kept_bytes += segment->object_length;
    }
    host->kept[host->kept_count++] = kept;
    for (size_t i = 0; i < host->kept_count && host->kept_bytes > KEPT_LIMIT; i++) {
        struct kept_cell *old = &host->kept[i];
        for (size_t j = 0; j < old->count; j++) {
            host->kept_bytes -= old->lengths[j];
            free(old->objects[j]);
        }
        old->count = 0; /* its In[n] stays known */
    }
}

/* ---- frames */

static int line_in(const unsigned char *object, size_t length, const struct crash_frame *frame)
{
    char file[512];
    int line = 0;
    cadre_types *types = cadre_types_open(object, length, NULL);
    if (!types) return 0;
    if (cadre_types_line(types, frame->function, frame->offset, file, sizeof file, &line) < 0)
        line = 0;
    cadre_types_free(types);
    return line;
}

/* Execution count of the cell and, in *line, the line; -1: no such cell. */
static int find_line(const cadre_host *host, const struct crash_frame *frame, int *line)
{
    const cadre_cell *cell = host->cell;
    *line = 0;
    if (cell && cell->file_name && strcmp(cell->file_name, frame->label) == 0) {
        for (size_t i = 0; i < cell->segment_count && !*line; i++)
            if (cell->segments[i].object)
                *line = line_in(cell->segments[i].object, cell->segments[i].object_length, frame);
        return cell->execution_count;
    }
    for (size_t i = host->kept_count; i-- > 0;) {
        const struct kept_cell *kept = &host->kept[i];
        if (strcmp(kept->label, frame->label) != 0) continue;
        for (size_t j = 0; j < kept->count && !*line; j++)
            *line = line_in(kept->objects[j], kept->lengths[j], frame);
        return kept->execution_count;
    }
    return -1;
}

static bool is_entry_name(const char *function)
{
    return strncmp(function, "cadre_cell_", 11) == 0;
}

static void place_of(const cadre_host *host, const struct crash_frame *frame, cadre_buffer *text)
{
    int line, count = find_line(host, frame, &line);
    if (count < 0)
        cadre_buffer_puts(text, "an earlier cell");
    else if (line > 0)
        cadre_buffer_printf(text, "In[%d]:%d", count, line);
    else
        cadre_buffer_printf(text, "In[%d]", count);
}

static void add_frames(const cadre_host *host, const struct crash_record *crash, uint32_t count,
                       cadre_buffer *text)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct crash_frame *frame = &crash->frames[i];
        if (frame->kind == FRAME_CELL) {
            uint32_t same = i; /* recursion */
            while (same + 1 < count && crash->frames[same + 1].kind == FRAME_CELL &&
                   crash->frames[same + 1].offset == frame->offset &&
                   strcmp(crash->frames[same + 1].function, frame->function) == 0 &&
                   strcmp(crash->frames[same + 1].label, frame->label) == 0)
                same++;
            cadre_buffer_puts(text, "  " GREEN);
            place_of(host, frame, text);
            if (is_entry_name(frame->function))
                cadre_buffer_puts(text, PLAIN "\n");
            else
                cadre_buffer_printf(text, PLAIN " in " CYAN "%s" PLAIN "\n", frame->function);
            if (same > i)
                cadre_buffer_printf(text, "  ... and %u calls more from the same place\n",
                                    same - i);
            i = same;
            continue;
        }
        /* Frames of libraries in a row are one line: the outermost is what the cell called. */
        uint32_t first = i;
        while (i + 1 < count && crash->frames[i + 1].kind != FRAME_CELL)
            i++;
        if (i + 1 == count && first > 0) break; /* below the cell: start of a thread or ours */
        const char *file = crash->frames[i].label, *slash = strrchr(file, '/');
        const char *function = crash->frames[i].function;
        cadre_buffer_printf(text, "  %s%s%s", *function ? function : "a function", " of ",
                            slash   ? slash + 1
                            : *file ? file
                                    : "an unknown place");
        if (i > first) cadre_buffer_printf(text, ", %u frames", i - first + 1);
        cadre_buffer_puts(text, "\n");
    }
}

/* The first frame that is a cell's, named: "in deref, In[1]:2". */
static void add_first_place(const cadre_host *host, const struct crash_record *crash,
                            uint32_t count, cadre_buffer *text)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct crash_frame *frame = &crash->frames[i];
        if (frame->kind != FRAME_CELL) continue;
        cadre_buffer_puts(text, is_entry_name(frame->function) ? " at " : " in ");
        if (!is_entry_name(frame->function)) cadre_buffer_printf(text, "%s, ", frame->function);
        place_of(host, frame, text);
        return;
    }
}

/* ---- words */

static void add_signal(const struct crash_record *crash, int number, cadre_buffer *text)
{
    struct rlimit stack;
    if (crash->stack_overflow) {
        cadre_buffer_puts(text, "stack overflow: calls nest too deep, or local arrays are too "
                                "large");
        if (!crash->in_thread && getrlimit(RLIMIT_STACK, &stack) == 0) {
            rlim_t size = stack.rlim_cur < ((rlim_t)8 << 20) ? (rlim_t)8 << 20 : stack.rlim_cur;
            if (size > ((rlim_t)1 << 30)) size = (rlim_t)1 << 30;
            cadre_buffer_printf(text, " (the stack has %lu MB)", (unsigned long)(size >> 20));
        }
        return;
    }
    switch (number) {
    case SIGSEGV:
        if (crash->code <= 0)
            cadre_buffer_puts(text, "invalid memory access");
        else if (crash->code == SI_KERNEL && crash->address == 0)
            cadre_buffer_puts(text, "invalid memory access at an impossible address");
        else
            cadre_buffer_printf(text, "invalid memory access at address 0x%llx",
                                (unsigned long long)crash->address);
        break;
    case SIGBUS:
        cadre_buffer_printf(text,
                            "bus error at address 0x%llx: memory behind a file or shared "
                            "memory is not there",
                            (unsigned long long)crash->address);
        break;
    case SIGFPE:
        cadre_buffer_puts(text, crash->code == FPE_INTDIV ? "integer division by zero"
                                                          : "arithmetic exception");
        break;
    case SIGILL: cadre_buffer_puts(text, "illegal instruction"); break;
    case SIGABRT: cadre_buffer_puts(text, "abort"); break;
    default: cadre_buffer_puts(text, strsignal(number)); break;
    }
    if (crash->in_thread) cadre_buffer_puts(text, " in a thread");
}

/* What assert or malloc said, with In[n] instead of the name of the cell's file. */
static void add_message(const cadre_host *host, const char *message, cadre_buffer *text)
{
    const char *label = host->cell ? host->cell->file_name : NULL;
    int count = host->cell ? host->cell->execution_count : 0;
    const char *found = label && *label ? strstr(message, label) : NULL;
    for (size_t i = 0; !found && i < host->kept_count; i++) {
        label = host->kept[i].label;
        count = host->kept[i].execution_count;
        found = *label ? strstr(message, label) : NULL;
    }
    size_t length = strlen(message);
    while (length && (message[length - 1] == '\n' || message[length - 1] == '.'))
        length--;
    if (found) {
        cadre_buffer_append(text, message, (size_t)(found - message));
        cadre_buffer_printf(text, "In[%d]", count);
        length -= (size_t)(found - message) + strlen(label);
        message = found + strlen(label);
    }
    cadre_buffer_append(text, message, length);
}

static void add_exit(const cadre_host *host, cadre_buffer *text)
{
    int status = host->dead_status;
    switch ((enum process_end)atomic_load(&host->shared->process_end)) {
    case END_UNDERSCORE_EXIT:
        cadre_buffer_printf(text, "the cell ended its process with _exit(%d)", status);
        break;
    case END_EXEC:
        cadre_buffer_printf(text,
                            "the cell replaced its process by another program (exec), which "
                            "ended with status %d",
                            status);
        break;
    case END_UNCLEAN_EXIT:
        cadre_buffer_printf(text, "exit(%d) was called while a library was calling the cell",
                            status);
        break;
    case END_PTHREAD_EXIT:
        cadre_buffer_puts(text, "pthread_exit was called while a library was calling the cell");
        break;
    case END_MAIN_THREAD:
        cadre_buffer_puts(text, "the main thread of the cells' process ended by the system call "
                                "exit");
        break;
    case END_LOST_SOCKET:
        cadre_buffer_puts(text, "the cell closed or replaced descriptors of the kernel by system "
                                "calls of its own; close() and dup2() leave them alone");
        break;
    default:
        cadre_buffer_printf(text, "the process of the cells ended with status %d", status);
        break;
    }
}

static void add_consequence(const cadre_host *host, const cadre_host_event *event, uint64_t back_to,
                            cadre_buffer *text)
{
    if (event->kind == CADRE_HOST_LOST) {
        cadre_buffer_puts(text, ". There was no snapshot: the state of the session is lost");
        return;
    }
    if (host->run && back_to == host->generation)
        cadre_buffer_puts(text, ". Memory is as it was before this cell");
    else if (host->run && back_to < host->generation)
        cadre_buffer_printf(text,
                            ". Memory went back %llu cells, to the last snapshot: run those "
                            "cells again",
                            (unsigned long long)(host->generation - back_to));
    else
        cadre_buffer_puts(text, ". No cell was running; memory is that of the last snapshot");
    int threads = atomic_load(&host->shared->lost_threads);
    int sockets = atomic_load(&host->shared->lost_sockets);
    if (threads > 0) cadre_buffer_puts(text, "; threads of earlier cells are gone");
    if (sockets > 0)
        cadre_buffer_puts(text, "; what was sent or received on open sockets stays so");
    if (atomic_load(&host->shared->lost_locks) > 0)
        cadre_buffer_puts(text, "; locks of files by fcntl or lockf are gone");
}

/* SIGKILL says nothing by itself. */
static void add_killer(cadre_host *host, cadre_buffer *text)
{
    memory_state before = host->memory;
    front_memory_state("", &host->memory);
    cadre_buffer_puts(text, "the process of the cells was ");
    if (!front_memory_blame(&before, &host->memory, text))
        cadre_buffer_puts(text, "killed, by a cell or by another program");
}

void front_explain_death(cadre_host *host, cadre_host_event *event, uint64_t back_to)
{
    static const struct crash_record no_crash;
    const struct crash_record *crash = &no_crash;
    struct crash_record *copy = NULL;
    cadre_buffer name = {0}, text = {0}, trace = {0};
    uint32_t frames = 0;
    if (host->shared && atomic_load(&host->shared->crash.stage) != CRASH_NONE &&
        host->dead_code != CLD_EXITED && (copy = malloc(sizeof *copy))) {
        memcpy(copy, &host->shared->crash, sizeof *copy);
        copy->message[sizeof copy->message - 1] = 0;
        for (size_t i = 0; i < CRASH_FRAMES_MAX; i++) {
            copy->frames[i].label[sizeof copy->frames[i].label - 1] = 0;
            copy->frames[i].function[sizeof copy->frames[i].function - 1] = 0;
        }
        crash = copy;
        frames = copy->frame_count < CRASH_FRAMES_MAX ? copy->frame_count : CRASH_FRAMES_MAX;
        atomic_store(&host->shared->crash.stage, CRASH_NONE);
    }
    int number = copy ? copy->signal : host->dead_status;
    if (host->killed_for_interrupt) {
        cadre_buffer_puts(&name, "KeyboardInterrupt");
        cadre_buffer_puts(&text, "the cell was inside a library and did not stop within 2 s, so "
                                 "its process was ended");
    } else if (copy || host->dead_code == CLD_KILLED || host->dead_code == CLD_DUMPED) {
        const char *short_name = number > 0 && number < 65 ? sigabbrev_np(number) : NULL;
        if (short_name)
            cadre_buffer_printf(&name, "SIG%s", short_name);
        else
            cadre_buffer_printf(&name, "Signal%d", number);
        if (!copy && number == SIGKILL)
            add_killer(host, &text);
        else
            add_signal(crash, number, &text);
        add_first_place(host, crash, frames, &text);
        if (crash->message[0]) {
            cadre_buffer_puts(&text, ": ");
            add_message(host, crash->message, &text);
        }
    } else {
        cadre_buffer_puts(&name, "ProcessExit");
        add_exit(host, &text);
    }
    add_consequence(host, event, back_to, &text);
    cadre_buffer_printf(&trace, RED "%s" PLAIN ": %s\n", name.data ? name.data : "",
                        text.data ? text.data : "");
    add_frames(host, crash, frames, &trace);
    event->length = text.length;
    free(event->text);
    event->text = cadre_buffer_steal(&text);
    event->error_name = cadre_buffer_steal(&name);
    event->traceback = cadre_buffer_steal(&trace);
    event->status = number;
    free(copy);
}

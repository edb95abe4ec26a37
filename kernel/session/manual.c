#include "session/manual.h"

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { LONGEST_NAME = 100, LONGEST_PAGE = 64 << 10, LONGEST_SUMMARY = 300 };

/* The beginning of a page, unpacked; NULL: there is none. `place` is below the folder: man3/x.3 */
static char *read_page(const char *folder, const char *place)
{
    char path[1200];
    gzFile file = NULL;
    static const char *const endings[] = {".gz", ""};
    for (int i = 0; i < 2 && !file; i++) {
        snprintf(path, sizeof path, "%.800s/%.200s%s", folder, place, endings[i]);
        file = gzopen(path, "rbe");
    }
    if (!file) return NULL;
    char *text = malloc(LONGEST_PAGE + 1);
    int got = text ? gzread(file, text, LONGEST_PAGE) : -1;
    gzclose(file);
    if (got < 0) {
        free(text);
        return NULL;
    }
    text[got] = 0;
    return text;
}

/* A line of a page as a person reads it: no escapes, no request at its start. */
static void add_plain(cadre_buffer *out, const char *line, size_t length)
{
    const char *end = line + length;
    if (line < end && (*line == '.' || *line == '\'')) { /* .B name, .BR name , */
        while (line < end && *line != ' ')
            line++;
    }
    while (line < end && *line == ' ')
        line++;
    if (out->length && line < end) cadre_buffer_puts(out, " ");
    for (; line < end; line++) {
        if (*line == '"') continue;
        if (*line != '\\' || line + 1 == end) {
            cadre_buffer_append(out, line, 1);
            continue;
        }
        line++;
        if (*line == 'f' && line + 1 < end) /* a font: \fB */
            line++;
        else if (*line == '(' && line + 2 < end) /* a character of two letters: \(em */
            line += 2;
        else if (*line == '-' || *line == 'e' || *line == '\\')
            cadre_buffer_append(out, *line == 'e' ? "\\" : line, 1);
    }
}

/* The text of the section NAME: "printf, fprintf \- formatted output conversion". */
static char *name_section(const char *page)
{
    cadre_buffer out = {0};
    const char *at = strstr(page, "\n.SH NAME");
    if (!at) at = strstr(page, "\n.SH \"NAME\"");
    if (at) at = strchr(at + 1, '\n');
    while (at && out.length < LONGEST_SUMMARY) {
        const char *line = at + 1;
        size_t length = strcspn(line, "\n");
        if (strncmp(line, ".SH", 3) == 0 || !*line) break;
        if (strncmp(line, ".\\\"", 3) != 0) add_plain(&out, line, length);
        at = line[length] ? line + length : NULL;
    }
    return cadre_buffer_steal(&out);
}

static char *summary_in(const char *folder, const char *name, int section)
{
    char place[220], *text;
    snprintf(place, sizeof place, "man%d/%.100s.%d", section, name, section);
    char *page = read_page(folder, place);
    /* ".so man3/printf.3": the page of another name. */
    if (page && sscanf(page, ".so %200s", place) == 1 && !strstr(place, "..")) {
        free(page);
        page = read_page(folder, place);
    }
    char *names = page ? name_section(page) : NULL;
    const char *dash = names ? strstr(names, " - ") : NULL;
    text = dash && dash[3] ? strdup(dash + 3) : NULL;
    free(names);
    free(page);
    return text;
}

char *manual_summary(const char *name, int *section)
{
    const char *wanted = getenv("MANPATH");
    char folders[2000], *rest, *found = NULL;
    if (strlen(name) > LONGEST_NAME || strchr(name, '/') || strchr(name, '.')) return NULL;
    snprintf(folders, sizeof folders, "%s%s/usr/share/man:/usr/local/share/man",
             wanted ? wanted : "", wanted && *wanted ? ":" : "");
    for (char *folder = strtok_r(folders, ":", &rest); folder && !found;
         folder = strtok_r(NULL, ":", &rest))
        for (*section = 3; *section >= 2 && !found; --*section)
            if ((found = summary_in(folder, name, *section))) break;
    return found;
}

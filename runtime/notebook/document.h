/* A notebook file: reading, checking, its cells, writing it again. Private to notebook/. */
#ifndef CADRE_NOTEBOOK_DOCUMENT_H
#define CADRE_NOTEBOOK_DOCUMENT_H

#include "base/base.h"

#include <jansson.h>

#define CADRE_RETURN_MIME "application/vnd.cadre.return+json"

/* New: nbformat 4.5 without outputs, every cell with an id, source, metadata. Or NULL. */
json_t *cadre_document_read(const char *path, cadre_error *error);
int cadre_document_write(const json_t *document, const char *path, cadre_error *error);

bool cadre_document_is_code(const json_t *cell);
bool cadre_document_has_tag(const json_t *cell, const char *tag);
/* The cell's text, new. */
char *cadre_document_source(const json_t *cell);
/* metadata.cadre.parameters of a notebook or cell: borrowed, NULL: none. */
const json_t *cadre_document_parameters(const json_t *notebook_or_cell);
/* metadata.kernelspec.name; borrowed, NULL: none. */
const char *cadre_document_kernel(const json_t *document);

#endif

/* Models on disk: safetensors (readable from Python) and a manifest with hashes; every file is
 * written whole under another name and renamed, so that a reader never sees half of one. */
#ifndef CADRE_STORE_H
#define CADRE_STORE_H

#include "../base/base.h"
#include "../model/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The model's bytes in safetensors format, new (free()). Equal models give equal bytes: tensors
 * in name order, metadata in name order, no clock, no host. */
CADRE_API unsigned char *cadre_model_encode(const cadre_model *model, size_t *length,
                                            cadre_error *error);
CADRE_API cadre_model *cadre_model_decode(const unsigned char *bytes, size_t length,
                                          cadre_error *error);
CADRE_API int cadre_model_save(const cadre_model *model, const char *path, cadre_error *error);
CADRE_API cadre_model *cadre_model_load(const char *path, cadre_error *error);
/* Writes bytes to `path` atomically (temporary name in the same folder, fsync, rename). */
CADRE_API int cadre_write_file(const char *path, const void *bytes, size_t length,
                               cadre_error *error);

#ifdef __cplusplus
}
#endif
#endif

/* One target of a fuzzer: bytes from a stranger go in, nothing may break.
 *
 * driver.c is the main function for any compiler. It runs every file of a folder, then mutations
 * of them for some seconds; what it ran when it died lies in the working folder:
 *
 *     fuzz_message tests/fuzz/corpus/message 5 [SEED]
 *
 * clang's libFuzzer takes the same targets: clang -fsanitize=fuzzer,address fuzz_message.c ...
 */
#ifndef CADRE_TESTS_FUZZ_H
#define CADRE_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif

# tests/unit
include tests/unit/wire.mk
include tests/unit/compile.mk

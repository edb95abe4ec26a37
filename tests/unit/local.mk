# tests/unit
include tests/unit/wire.mk
